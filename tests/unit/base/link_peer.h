/* SPDX-License-Identifier: Apache-2.0 */
/* Ends of a link under test: each collects what comes and how it ended. */
#ifndef VTILE_TESTS_UNIT_BASE_LINK_PEER_H
#define VTILE_TESTS_UNIT_BASE_LINK_PEER_H

#include "base/link.h"
#include "base/text.h"

struct link_peer {
    struct vt_link *link; /* NULL once closed */
    struct vt_buf got;
    unsigned opened, drained, closed;
    enum vt_link_end end;
    struct vt_error err;
    /* What the callbacks do besides. */
    void (*on_opened)(struct link_peer *peer);
    void (*on_data)(struct link_peer *peer);
};

#define QUEUE_MAX (256U << 10)

/* What the tests of links work on, made and closed for each. */
extern struct vt_loop loop;
extern struct link_peer a, b;
int link_setup(void **state);
int link_teardown(void **state);

/* Two connected sockets. */
void link_sockets(int fds[2]);
void link_peer_attach(struct link_peer *peer, struct vt_link *link);
/* Runs the loop until *flag is non-zero; fails the test after ten seconds. */
void run_until(const unsigned *flag);
void run_until_bytes(const struct vt_buf *buf, size_t len);

#endif
