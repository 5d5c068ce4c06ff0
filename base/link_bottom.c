/* SPDX-License-Identifier: Apache-2.0 */
#include "base/link_bottom.h"

#include <errno.h>

static void on_handle_closed(uv_handle_t *handle)
{
    struct vt_link_bottom *b = handle->data;
    struct vt_link *link = &b->link;
    if (--b->nhandles > 0)
        return;
    if (link->events && link->events->closed)
        link->events->closed(link->ctx, b->end, &b->err);
    link->ops->free(link);
}

void vt_link_bottom_ready(struct vt_link_bottom *b, uv_handle_t *io)
{
    uv_timer_init(&b->link.loop->uv, &b->timer);
    b->io = io;
    b->io->data = b->timer.data = b;
    b->nhandles = 2;
}

void vt_link_bottom_finish(struct vt_link_bottom *b, enum vt_link_end end)
{
    if (b->state == LINK_CLOSING)
        return;
    b->state = LINK_CLOSING;
    b->end = end;
    uv_close(b->io, on_handle_closed);
    uv_close((uv_handle_t *)&b->timer, on_handle_closed);
}

void vt_link_bottom_close(struct vt_link *link)
{
    struct vt_link_bottom *b = (struct vt_link_bottom *)link;
    if (b->err.code == 0 && b->state != LINK_CLOSING)
        vt_error_set(&b->err, VT_KIND_INFRA, -ECANCELED, "the connection was closed");
    vt_link_bottom_finish(b, VT_LINK_FAILED);
}

int vt_link_fd(const struct vt_link *link)
{
    uv_os_fd_t fd = -1;

    while (link->below)
        link = link->below;
    return uv_fileno(((const struct vt_link_bottom *)link)->io, &fd) == 0 ? fd : -1;
}
