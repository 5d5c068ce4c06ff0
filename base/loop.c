/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#define LOW_DESCRIPTORS 64

/* libuv keeps a pipe for signals from the process's first loop on, and makes it anew in every
 * forked child, closing the old one by its numbers. A library that forks, closes all descriptors
 * and opens a pipe of its own (libvirt's virExec, for a daemon) finds that one closed if the
 * numbers are the same: so ours stay above those that such a child uses. */
static int init_with_high_descriptors(uv_loop_t *loop)
{
    int held[LOW_DESCRIPTORS], nheld = 0, rc;

    while (nheld < LOW_DESCRIPTORS) {
        int fd = nheld == 0 ? open("/dev/null", O_RDONLY | O_CLOEXEC)
                            : fcntl(held[0], F_DUPFD_CLOEXEC, 0);

        if (fd < 0)
            break;
        held[nheld++] = fd;
        if (fd >= LOW_DESCRIPTORS)
            break;
    }
    rc = uv_loop_init(loop);
    while (nheld > 0)
        close(held[--nheld]);
    return rc;
}

int vt_loop_init(struct vt_loop *loop, struct vt_error *err)
{
    int rc = init_with_high_descriptors(&loop->uv);
    if (rc < 0)
        return vt_error_set(err, VT_KIND_INFRA, rc, "make an event loop: %s", uv_strerror(rc));
    loop->uv.data = loop;
    /* libuv writes with write(2): a peer that is gone must be an error, not the end of us. */
    struct sigaction old;
    if (sigaction(SIGPIPE, NULL, &old) == 0 && old.sa_handler == SIG_DFL)
        signal(SIGPIPE, SIG_IGN);
    return 0;
}

static void count_closing(uv_handle_t *handle, void *ctx)
{
    *(unsigned *)ctx += uv_is_closing(handle) != 0;
}

/* The end of one handle may be the reason to close the next, of the same object. */
static void let_closing_end(struct vt_loop *loop)
{
    unsigned closing;
    do {
        closing = 0;
        uv_run(&loop->uv, UV_RUN_NOWAIT);
        uv_walk(&loop->uv, count_closing, &closing);
    } while (closing > 0);
}

static void close_stray(uv_handle_t *handle, void *ctx)
{
    (void)ctx;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

void vt_loop_dispose(struct vt_loop *loop)
{
    if (!loop->uv.data)
        return;
    let_closing_end(loop);
    while (uv_loop_close(&loop->uv) == UV_EBUSY) {
        uv_walk(&loop->uv, close_stray, NULL);
        let_closing_end(loop);
    }
    loop->uv.data = NULL;
}
