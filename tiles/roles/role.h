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

#define ROLE_PEERS_MAX 8
#define ROLE_CHILDREN_MAX 8

struct role_peer {
    char role[16];
    char address[46];
};

/* What a guest's agent knows when it works for a role. Paths are absolute inside the guest. */
struct role_guest {
    const char *role, *address;
    unsigned tile;
    uint64_t seed;       /* of contents: differs by run, tile and role */
    uint64_t data_bytes; /* of generated contents */
    unsigned vcpus;
    bool log_requests;
    const char *files_dir;                      /* the role's files/ */
    const char *data_dir;                       /* writable, empty at first */
    const char *run_dir;                        /* writable: generated configuration, pid files */
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

/* Run one at a time on a worker thread of the agent; may block. Each may be called again after it
 * failed. */
struct role_guest_ops {
    int (*prepare)(struct role_guest *guest, struct vt_error *err); /* contents, configuration */
    int (*start)(struct role_guest *guest, struct vt_error *err);
    /* 0 when a real answer came from the server, -EAGAIN when not yet. */
    int (*ready)(struct role_guest *guest, struct vt_error *err);
    /* After the window: facts for the record, as members of *facts ("errors": n, ...). */
    int (*check)(struct role_guest *guest, json_t *facts, struct vt_error *err);
    const struct role_log *logs; /* to fetch after the window; a NULL name ends */
};

struct role {
    const char *name;       /* "web" */
    const char *short_name; /* at most 5 letters: domain and tap names */
    const char *help;
    const char *const *peers; /* roles of the same tile it needs, NULL-terminated */
    const struct role_guest_ops *guest;
    const struct driver *driver; /* NULL: not driven from outside */
};

/* NULL when unknown. */
const struct role *role_find(const char *name);
/* All, NULL-terminated. */
const struct role *const *role_all(void);
/* Address of the first peer of that role, NULL when there is none. */
const char *role_peer_address(const struct role_guest *guest, const char *role);

#endif
