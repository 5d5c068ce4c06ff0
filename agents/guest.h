/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the guest duty's files: guest.c (life, calls), guest_ops.c (work of the role). */
#ifndef VTILE_AGENTS_GUEST_H
#define VTILE_AGENTS_GUEST_H

#include "agents/jobs.h"
#include "agents/logs.h"
#include "agents/pulse.h"
#include "agents/uplink.h"
#include "agents/watch.h"
#include "agents/worker.h"
#include "tiles/roles/role.h"

#define GUEST_PATH_MAX 512

struct guest {
    struct vt_loop loop;
    const struct vt_confdisk *conf;
    const struct role *role;
    bool may_power_off;

    /* where; see guest_set_up */
    char address[16];
    char files_dir[GUEST_PATH_MAX], data_dir[GUEST_PATH_MAX], run_dir[GUEST_PATH_MAX];
    char cert_file[GUEST_PATH_MAX], key_file[GUEST_PATH_MAX], ca_file[GUEST_PATH_MAX];
    struct role_guest work; /* the worker's alone, once it has begun */

    struct uplink *uplink; /* NULL when unattended, and once closed */
    struct worker *worker;
    struct watch watch;
    struct logs logs;
    struct pulse pulse;
    struct jobs jobs; /* of a role that makes load for itself */
    uv_timer_t retry; /* of what failed, unattended */
    bool ending, power_off;
};

enum guest_step { GUEST_PREPARE, GUEST_START, GUEST_READY, GUEST_CHECK, GUEST_STEPS };

/* One call of the role's, on the worker. */
struct guest_job {
    struct worker_job job;
    struct guest *guest;
    enum guest_step step;
    uint16_t stream; /* of the call; 0: unattended */
    json_t *params, *result;
    struct vt_error err;
    struct role_guest after; /* the children as they stood when the job ended */
};

/* guest_ops.c */
extern const char *const guest_step_names[GUEST_STEPS];
void guest_job_run(struct worker_job *base); /* of a guest_job */
/* Folders, files of the CA, names of all of them; unattended: a certificate signed by itself. */
int guest_set_up(struct guest *guest, struct vt_error *err);

#endif
