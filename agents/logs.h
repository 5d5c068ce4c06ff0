/* SPDX-License-Identifier: Apache-2.0 */
/*
 * logs: sends the logs of a role and of the kernel to the controller, piece by piece, no more at
 * once than the uplink has written of the last.
 */
#ifndef VTILE_AGENTS_LOGS_H
#define VTILE_AGENTS_LOGS_H

#include "agents/uplink.h"
#include "tiles/roles/role.h"

#define LOGS_BYTES_DEFAULT (8 << 20) /* of each log */
#define LOGS_BYTES_MAX (64 << 20)

struct logs {
    struct uplink *uplink;
    const struct role_log *log; /* the next */
    const char *dir;            /* of its files */
    char name[64];
    uint16_t stream; /* 0: nothing is being sent */
    int64_t max_bytes, sent;
    int fd; /* of the file that is being sent, -1 */
    json_t *told;
};

/* -EBUSY while it sends for another call. */
int logs_start(struct logs *logs, struct uplink *uplink, uint16_t stream,
               const struct role_log *list, const char *dir, int64_t max_bytes,
               struct vt_error *err);
void logs_go_on(struct logs *logs); /* the uplink has drained */
void logs_stop(struct logs *logs);  /* the uplink is down; may be called twice */

#endif
