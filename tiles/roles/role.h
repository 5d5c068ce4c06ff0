/* SPDX-License-Identifier: Apache-2.0 */
/*
 * role: a folder: role.c (this table), guest.c (runs in the guest's agent, sees base only),
 * driver.c (runs on the client), files/ (configuration templates, on the role layer of the image).
 */
#ifndef VTILE_TILES_ROLES_ROLE_H
#define VTILE_TILES_ROLES_ROLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "tiles/load/driver.h"

#define ROLE_PEERS_MAX 16 /* a VM of each role, and 3 applications more of a shared database */
#define ROLE_CHILDREN_MAX 8
#define ROLE_SHARED_MAX 4

struct role_peer {
    char role[16];
    char address[46];
};

/* What a guest's agent knows when it works for a role. Paths are absolute inside the guest. */
struct role_guest {
    const char *role, *address;
    const char *client; /* address of who drives it from outside, NULL: nobody does */
    unsigned tile;
    unsigned tiles[ROLE_SHARED_MAX]; /* all that it serves; one but for a shared database */
    unsigned ntiles;
    uint64_t seed;       /* of contents: differs by run, tile and role */
    uint64_t data_bytes; /* of generated contents */
    unsigned vcpus;
    bool log_requests;
    const char *files_dir; /* the role's files/ */
    const char *data_dir;  /* writable; empty at first, as it was left after a restart */
    const char *run_dir;   /* writable: generated configuration, pid files */
    const char *cert_file, *key_file, *ca_file; /* this guest's identity, for TLS servers */
    struct role_peer peers[ROLE_PEERS_MAX];
    unsigned npeers;
    /* Servers started by start(), in the foreground; the agent watches them. */
    struct {
        char name[24];
        pid_t pid;
    } children[ROLE_CHILDREN_MAX];
    unsigned nchildren;
};

struct role_log {
    const char *name; /* in the record: "nginx.error" */
    const char *file; /* under run_dir */
};

/* Phases of the load, from T0 on. */
struct role_times {
    int64_t ramp_ns, warm_ns, measure_ns;
};
/* One operation that the guest has done for itself, as a load second counts it. */
struct role_done {
    unsigned operation;  /* index into the role's operations */
    int64_t intended_ns; /* since T0, as role->due counts it */
    int64_t lag_ns;      /* how much later than intended it was begun */
    int64_t response_ns, service_ns;
    uint64_t bytes;
    const char *failed; /* why, NULL: it has not */
    bool wrong;         /* it ended whole but with wrong contents; failed says which */
};
/* What work() may ask and tell; valid until it returns. */
struct role_work {
    int64_t t0_ns; /* vt_clock_now_ns() of this guest; before its boot it is negative */
    /* The guest was restarted since T0. What was due before from_ns, since T0, has been counted;
     * what has been due from then until this work begins has failed. Else false and 0. */
    bool resumed;
    int64_t from_ns;
    struct role_times times;
    const struct spec_jobs *jobs; /* rates scaled by --load */
    json_t *facts; /* as those of check(), which tells them; the work thread alone adds to them */
    bool (*stopping)(void *ctx); /* asked at least twice a second; then return soon */
    void (*done)(void *ctx, const struct role_done *done); /* from any thread of the work */
    void *ctx;
};

/* Run one at a time on a worker thread of the agent; may block. Each may be called again after it
 * failed. NULL but for ready: there is nothing to do. */
struct role_guest_ops {
    int (*prepare)(struct role_guest *guest, struct vt_error *err); /* contents, configuration */
    int (*start)(struct role_guest *guest, struct vt_error *err);
    /* 0 when a real answer came from the server, -EAGAIN when not yet. */
    int (*ready)(struct role_guest *guest, struct vt_error *err);
    /* After the window: facts for the record, as members of *facts ("errors": n, ...). Facts that
     * must be zero have names that begin with "wrong." and make a run INVALID when they are not.
     * Where a driver's answers were acknowledged (driver.h) and this guest is who keeps them, it
     * writes run_dir/kept.<role>.<tile>.bits: bit i (of byte i / 8, from the lowest) is set when
     * what that role's step with sequence i asked for is there. */
    int (*check)(struct role_guest *guest, json_t *facts, struct vt_error *err);
    /* Load that the guest makes by itself (jobs with deadlines, storage, network): from T0 until
     * the window's end, on a thread of its own. Each operation that is due is told once; what is
     * untold when it returns has failed, for the reason in *err where it returns one. */
    int (*work)(struct role_guest *guest, const struct role_work *work, struct vt_error *err);
    const struct role_log *logs; /* to fetch after the window; a NULL name ends */
};

struct role {
    const char *name;       /* "web" */
    const char *short_name; /* at most 5 letters: domain and tap names */
    const char *help;
    const char *const *peers; /* roles of the same tile it needs, NULL-terminated */
    const struct role_guest_ops *guest;
    const struct driver *driver; /* NULL: not driven from outside */
    /* Its guest keeps what a driver, its own or another role's, had acknowledged: in memory that is
     * no stable storage. */
    bool keeps;
    /* Of work(); a role has a driver or work, not both. */
    const char *const *operations;
    unsigned noperations;
    bool resumes; /* work() goes on after a restart of its guest, role_work.resumed */
    /* How many of that operation are intended in [from, to) ns since T0. Pure: whoever has the
     * order can count again what was due. */
    uint64_t (*due)(const struct spec_jobs *jobs, const struct role_times *times,
                    unsigned operation, int64_t from_ns, int64_t to_ns);
    /* NULL, or what is missing in a spec's jobs. May be NULL. */
    const char *(*check_jobs)(const struct spec_jobs *jobs);
};

/* NULL when unknown. */
const struct role *role_find(const char *name);
/* All, NULL-terminated. */
const struct role *const *role_all(void);
/* Of its driver or its work. */
const char *const *role_operations(const struct role *role, unsigned *ret_n);
/* Address of the first peer of that role, NULL when there is none. */
const char *role_peer_address(const struct role_guest *guest, const char *role);

#endif
