/* SPDX-License-Identifier: Apache-2.0 */
/*
 * logs: sends the logs of a role and of the kernel to the controller, piece by piece, no more at
 * once than the uplink has written of the last.
 */
#ifndef VTILE_AGENTS_LOGS_H
#define VTILE_AGENTS_LOGS_H

#include "agents/uplink.h"
#include "tiles/load/schedule.h"
#include "tiles/roles/role.h"

#define LOGS_BYTES_DEFAULT (8 << 20) /* of each log */
#define LOGS_BYTES_MAX (64 << 20)
/* What a role has written down as kept (role.h) goes along with its logs, whole. */
#define LOGS_KEPT_MAX ROLE_SHARED_MAX
#define LOGS_KEPT_BYTES_MAX (SCHEDULE_STEPS_MAX / 8)

struct logs {
    struct uplink *uplink;
    const struct role_log *log; /* the next */
    const char *dir;            /* of its files */
    char name[64];
    uint16_t stream;                /* 0: nothing is being sent */
    int64_t max_bytes, sent, limit; /* limit: of the file that is being sent */
    char kept[LOGS_KEPT_MAX][64];   /* names of files */
    unsigned nkept, next_kept;
    int fd; /* of the file that is being sent, -1 */
    json_t *told;
};

/* -EBUSY while it sends for another call. */
int logs_start(struct logs *logs, struct uplink *uplink, uint16_t stream,
               const struct role_log *list, const char *dir, int64_t max_bytes,
               struct vt_error *err);
/* Bytes that are in memory, in pieces; room for them in the uplink's queue is the caller's care. */
void logs_send_bytes(struct uplink *uplink, uint16_t stream, const char *name, const void *data,
                     size_t len);
void logs_go_on(struct logs *logs); /* the uplink has drained */
void logs_stop(struct logs *logs);  /* the uplink is down; may be called twice */

#endif
