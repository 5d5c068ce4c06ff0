/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host: the room of hypervisor hosts. All use of libvirt is here, and only here; the room makes
 * the embedded host (embed), its network (net), domain XML (xml), checks before a run (preflight)
 * and takes back what a run made (undo, clean). It knows neither phases nor agents.
 *
 * A host is one libvirt connection with one worker thread and a bounded queue of jobs. Each job has
 * a deadline that counts from its start; results are delivered on the loop's thread. libuv's pool
 * never calls libvirt. A host that misses a deadline is lost: that job ends with -ETIMEDOUT, the
 * queued and all later ones with -EHOSTDOWN, and the stuck thread is left to itself.
 *
 * Order of calls for the embedded host, since namespaces must be entered before a thread exists:
 * listening sockets for people -> embed_open (lock, folders) -> net_enter -> embed_enter (users)
 * -> vir_loop_init -> host_open -> ... -> host_close -> vir_loop_dispose -> net_leave ->
 * embed_close.
 */
#ifndef VTILE_ORCHESTRATOR_HOST_HOST_H
#define VTILE_ORCHESTRATOR_HOST_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/domain.h"
#include "base/loop.h"
#include "orchestrator/host/facts.h"
#include "orchestrator/host/xml.h"

#define HOST_QUEUE_MAX 1024
#define HOST_DESTROY_AT_ONCE 8
#define HOST_DEADLINE_NS (60 * VT_NS_PER_S)       /* of a job; create and destroy under load */
#define HOST_OPEN_DEADLINE_NS (120 * VT_NS_PER_S) /* holds the first capability probe */
#define HOST_PROBE_PATIENCE_NS (30 * VT_NS_PER_S) /* an emulator answers in 1-3 s */

enum host_state { HOST_OPENING, HOST_OPEN, HOST_FAILED, HOST_LOST, HOST_CLOSED };

struct host;

struct host_info {
    char uri[VT_PATH_MAX];
    char name[256];                                    /* host name as libvirt tells it */
    char driver[16];                                   /* "QEMU", "Xen", "TEST" */
    char emulator[VT_PATH_MAX];                        /* "" where there is none */
    unsigned long libvirt_version, hypervisor_version; /* major * 1e6 + minor * 1e3 + release */
    unsigned cpus;
    uint64_t memory_bytes, free_bytes; /* 0: not told by the driver */
    enum vt_accel accel;               /* KVM only where a vCPU really runs, see host_kvm_runs */
    bool kvm_listed;                   /* the driver offers KVM, whether it runs or not */
    bool user_known;                   /* whom emulators run as, where the driver tells */
    uid_t user;
    gid_t group;
};
struct host_domain {
    char name[64], uuid[37];
    bool active, persistent;
    struct xml_mark mark; /* found only in ours: mark.run[0] == 0 where it is someone else's */
};
struct host_stat {
    char domain[64];
    char key[80]; /* libvirt's own: "cpu.time", "balloon.rss", "net.0.rx.bytes", ... */
    double value;
};

/* What a job brought; valid until the callback returns. */
struct host_reply {
    int code; /* 0 or negative; err says what */
    struct vt_error err;
    const struct host_info *info;      /* open */
    const struct host_domain *domains; /* list; define_start: the one */
    size_t ndomains;
    const struct host_stat *stats; /* stats */
    size_t nstats;
    const struct host_facts *facts;  /* ask_facts */
    const struct vt_error *failures; /* destroy_all: one a domain, kind NONE where it went well */
    int64_t queued_ns, took_ns;      /* waiting and inside libvirt */
};
typedef void (*host_done)(struct host *host, void *ctx, const struct host_reply *reply);

struct host_settings {
    const char *uri;          /* a libvirt URI; "auto" is resolved by host_choose_uri before */
    int64_t open_deadline_ns; /* 0: HOST_OPEN_DEADLINE_NS */
    int64_t deadline_ns;      /* of the other jobs, 0: HOST_DEADLINE_NS */
    /* A domain of the host has stopped, whoever ended it and whosever it is; on the loop's thread,
     * until host_close. NULL: nobody wants to know. */
    void (*stopped)(void *ctx, const char *uuid);
    void *ctx;
};

/* "auto": the URI of a running system daemon whose socket answers, else the embedded host below
 * embed_root. Anything else is copied, "embed" and "qemu:///embed" alone get ?root=. */
int host_choose_uri(const char *wanted, const char *embed_root, char *uri, size_t size,
                    struct vt_error *err);
bool host_uri_is_embed(const char *uri);
/* This machine's own QEMU daemon, whatever socket it has. */
bool host_uri_is_system(const char *uri);
/* Its kernel is this program's own: /proc and /sys tell of it. */
bool host_uri_is_local(const char *uri);
/* The socket at which a system daemon answers, NULL: none does. */
const char *host_system_socket(void);
/* A daemon takes connections at that socket. */
bool host_daemon_answers(const char *socket_path);
/* Runs one instruction in a VM of its own through the device (/dev/kvm): one that is there may
 * still not work, or work by emulation on a CPU without virtualization. why: for people, may be
 * NULL. */
bool host_kvm_runs(const char *device, char *why, size_t size);

/* Starts the worker, which opens the connection; opened comes once. On an error nothing is left.
 * All functions below: on the loop's thread, done exactly once where 0 was returned. */
int host_open(struct vt_loop *loop, const struct host_settings *settings, host_done opened,
              void *ctx, struct host **ret, struct vt_error *err);
/* Starts a transient domain from its XML, validated by the driver. */
int host_define_start(struct host *host, const char *xml, host_done done, void *ctx,
                      struct vt_error *err);
/* By UUID or name. Stops and, where it is persistent, undefines it with NVRAM, managed save,
 * snapshots and checkpoints. A domain that is not there is success. Refuses (-EPERM) one that does
 * not carry mark.run and mark.controller, where they are given. */
int host_destroy(struct host *host, const char *name_or_uuid, const struct xml_mark *mark,
                 host_done done, void *ctx, struct vt_error *err);
/* Many at once, by UUID, without a look at marks; HOST_DESTROY_AT_ONCE side by side, since most of
 * the time passes waiting for an emulator to end. One job with a deadline for each so many. */
int host_destroy_all(struct host *host, const char (*uuids)[37], size_t n, host_done done,
                     void *ctx, struct vt_error *err);
/* Domains with our mark. controller: NULL = of any installation. */
int host_list_ours(struct host *host, const char *controller, host_done done, void *ctx,
                   struct vt_error *err);
/* groups: VIR_DOMAIN_STATS_* bits, 0 = all; 3 to 7 ms a VM and group. Active domains of ours. */
extern const unsigned host_stats_dear;   /* what only libvirt and QEMU know: memory, disks, NICs */
extern const unsigned host_stats_remote; /* these, and what is sampled where the host is local */
int host_stats(struct host *host, unsigned groups, host_done done, void *ctx, struct vt_error *err);

/* What the host is; see facts.h. */
int host_ask_facts(struct host *host, host_done done, void *ctx, struct vt_error *err);

enum host_state host_state(const struct host *host);
const struct host_info *host_info(const struct host *host); /* valid from opened on */
/* Ends queued jobs with -ECANCELED, lets the running one end (or its deadline), closes, frees;
 * closed (may be NULL) comes last. May be called once. */
void host_close(struct host *host, void (*closed)(void *ctx), void *ctx);

/* Called before and after every call into libvirt, on the calling thread; a debugger or the kill
 * laboratory stops here. The hook (NULL: none) gets what the point gets. */
extern void (*host_call_hook)(const char *call, bool before);
void vt_host_call_point(const char *call, bool before);

#endif
