/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link_bottom: how the bottom of a link ends: both its handles are closed, then closed is told why,
 * then the link is freed. For the files of bottoms alone; users see base/link.h.
 */
#ifndef VT_BASE_LINK_BOTTOM_H
#define VT_BASE_LINK_BOTTOM_H

#include "base/link.h"

enum vt_link_state { LINK_NEW, LINK_OPENING, LINK_OPEN, LINK_CLOSING };

/* First member of a bottom's own struct. */
struct vt_link_bottom {
    struct vt_link link;
    uv_handle_t *io;  /* of the bottom's own struct */
    uv_timer_t timer; /* opening; lingering */
    enum vt_link_state state;
    enum vt_link_end end;
    struct vt_error err; /* why it ends */
    unsigned nhandles;   /* not closed */
};

/* io is initialised: from here on the link ends by finish alone. */
void vt_link_bottom_ready(struct vt_link_bottom *bottom, uv_handle_t *io);
/* What is in err is told, unless it ends already. */
void vt_link_bottom_finish(struct vt_link_bottom *bottom, enum vt_link_end end);
/* Operation close of every bottom. */
void vt_link_bottom_close(struct vt_link *link);

#endif
