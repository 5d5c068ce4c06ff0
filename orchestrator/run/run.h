/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run: one deployment, measured and scored. This is all that the phases share; what each does
 * stands in a file of its name. On the loop's thread only.
 */
#ifndef VTILE_ORCHESTRATOR_RUN_RUN_H
#define VTILE_ORCHESTRATOR_RUN_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cert.h"
#include "base/domain.h"
#include "base/event.h"
#include "base/journal.h"
#include "orchestrator/host/embed.h"
#include "orchestrator/host/host.h"
#include "orchestrator/host/net.h"
#include "orchestrator/host/undo.h"
#include "orchestrator/hub/hub.h"
#include "orchestrator/run/phase.h"
#include "orchestrator/settings.h"
#include "orchestrator/state.h"
#include "results/archive.h"
#include "results/record.h"
#include "results/result.h"
#include "tiles/image/image.h"
#include "tiles/roles/role.h"

#define RUN_VMS_MAX (SPEC_TILES_MAX * SPEC_ROLES_MAX)

/* What is planned and known of one VM. */
struct run_vm {
    struct run *run;
    struct vt_domain domain;
    const struct spec_role *spec;
    const struct role *role;
    unsigned tile, role_index;
    unsigned ntiles; /* that it serves, from tile on: more than one for a shared database */
    char address[16];
    char agent[32]; /* "web-1" */
    char config_path[VT_PATH_MAX];
    struct vt_disk *data_disk; /* one of the domain's, NULL: its data lies in memory */
    uint64_t disk_bytes;
    uint64_t journal_id; /* of the domain */
    /* It was ordered to start and its end is not known; libvirt says that it has; its agent is
     * there. */
    bool ordered, started, up;
    /* prepare.c: the next step, and who hears of the last one; err NULL: it serves */
    unsigned prepare_step;
    void (*prepared)(struct run_vm *vm, const struct vt_error *err);
    /* restart.c */
    unsigned restarts;
    bool restarting;  /* until it serves again */
    int64_t ended_ns; /* its emulator, the last time */
    /* lost.c: when its agent's link ended, 0: that is known or told; whether the host was asked */
    int64_t lost_ns;
    bool lost_asked;
    char lost_why[256];
};

/* The load of one driven role of one tile. */
struct run_load {
    struct run_vm *vm;
    bool finished;
    /* Of load that a guest makes by itself: what came of it so far, for when it is restarted. */
    bool resumed;
    int64_t second;       /* of what came last; of its operations the first noperations */
    unsigned noperations; /* 0: nothing came yet */
    struct vt_record_totals told;
};

struct run {
    /* what was asked for */
    struct run_settings settings;
    struct spec spec;
    const struct spec_preset *preset;
    enum spec_size size;
    struct vt_buf spec_text; /* the spec as it was read, for the record */
    uint64_t seed;
    char id[13]; /* 12 hex digits */
    char agent_path[VT_PATH_MAX];

    /* where */
    struct state state;
    char uri[VT_PATH_MAX];
    const struct run_place *place; /* open.c */
    struct embed embed;            /* of the embedded host only */
    struct net net;
    struct image image;
    struct vt_error image_error;
    enum vt_accel accel;
    char folder[VT_PATH_MAX]; /* runtime: config disks, console logs */
    char client_config[VT_PATH_MAX];
    char disk_folder[VT_PATH_MAX]; /* data disks */
    char results[VT_PATH_MAX];
    char record_folder[VT_PATH_MAX], record_path[VT_PATH_MAX]; /* while it is written */
    char archive_path[VT_PATH_MAX];
    char report_path[VT_PATH_MAX]; /* "": none was written */

    /* open objects */
    struct vt_loop loop;
    struct vt_journal *journal;
    struct vt_ca *ca;
    struct host *host;
    struct hub *hub;
    struct record *record;
    struct vt_bus bus;
    struct phases phases;
    struct vt_timer phase_timer;           /* end of a phase of the load; in prepare: tell who is
                                            waited for; in check: look for room again */
    struct vt_timer lost_timer;            /* lost.c: the host is asked whether a VM runs */
    struct show *show;                     /* show.c */
    struct run_check *check;               /* check.c */
    struct run_config *configs[2];         /* config.c: before and after the load */
    struct archive_recipients *recipients; /* NULL: everybody may read */
    struct run_samples *samples;           /* samples.c; NULL before ramp */
    pid_t client_pid;
    uint64_t deploy_journal_id; /* first entry of the deploy phase, 0: none */

    struct run_vm *vms;
    unsigned nvms;
    unsigned next_vm; /* of deploy, prepare: the first whose turn has not come */
    struct run_load *loads;
    unsigned nloads;
    bool client_up;
    unsigned waiting; /* answers that the current phase still waits for */

    int64_t prepare_ns; /* when prepare began */
    int64_t t0_ns;      /* of the load, controller's clock */
    struct result result;
    bool recorded, scored, sealed; /* recorded: there was a record */
    bool left_behind;              /* an undo failed */
};

/* plan.c: names, addresses, sizes and disks of all VMs. Pure. */
int run_plan(struct run *run, struct vt_error *err);

/* What the VMs of a tile take at most, for preflight. */
struct preflight_needs;
void run_fill_needs(const struct spec *spec, enum vt_accel accel, unsigned tiles,
                    struct preflight_needs *needs);

/* Whether that VM is one of the tile's. */
bool run_vm_serves(const struct run_vm *vm, unsigned tile);
/* Whether a VM's guest is told of that one: all of its tile; and of the other tiles that a shared
 * VM serves those that need it, since it lets in nobody else. */
bool run_vm_knows(const struct run_vm *vm, const struct run_vm *peer);

/* Emits a note, a warning or an error from the controller. */
void run_note(struct run *run, enum vt_event_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* A fact that bends or breaks the verdict: code: a word, as in results/verdict.h or of the run
 * itself. */
void run_reason(struct run *run, const char *code, double number, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

struct run_vm *run_find_vm(struct run *run, const char *agent);

#endif
