/* SPDX-License-Identifier: Apache-2.0 */
/* One end of a link under test: collects what comes and how it ended. */
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

void link_peer_attach(struct link_peer *peer, struct vt_link *link);
/* Runs the loop until *flag is non-zero; fails the test after ten seconds. */
void run_until(struct vt_loop *loop, const unsigned *flag);
void run_until_bytes(struct vt_loop *loop, const struct vt_buf *buf, size_t len);

#endif
