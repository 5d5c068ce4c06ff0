/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calls: every call into libvirt, as blocking functions; only a host's worker thread uses them,
 * and those that it starts and waits for. Each stands between two call points (vt_host_call_point).
 */
#ifndef VTILE_ORCHESTRATOR_HOST_CALLS_H
#define VTILE_ORCHESTRATOR_HOST_CALLS_H

#include <libvirt/libvirt.h>

#include "orchestrator/host/host.h"

#define CALLS_DOMAINS_MAX 65536
#define CALLS_STATS_MAX 1000000

/* Where the present thread's calls into libvirt are told from now on: the name of the one that it
 * is in, NULL between two. */
void calls_tell(_Atomic(const char *) *call);

/* Connections are closed with calls_close. */
int calls_open(const char *uri, virConnectPtr *ret, struct host_info *info, struct vt_error *err);
void calls_close(virConnectPtr conn); /* NULL ok */
/* stopped comes on the thread of libvirt's event loop for each domain that ends. The watch's
 * number, -1 where the driver has none; calls_unwatch takes both. */
int calls_watch(virConnectPtr conn, void (*stopped)(void *ctx, const char *uuid), void *ctx);
void calls_unwatch(virConnectPtr conn, int watch);
int calls_start(virConnectPtr conn, const char *xml, struct host_domain *ret, struct vt_error *err);
int calls_destroy(virConnectPtr conn, const char *name_or_uuid, const struct xml_mark *mark,
                  struct vt_error *err);
/* *ret is the caller's (free), also for no domain at all. */
int calls_list(virConnectPtr conn, const char *controller, struct host_domain **ret, size_t *ret_n,
               struct vt_error *err);
/* Of the n domains by UUID that still run. *ret is the caller's (free). */
int calls_stats(virConnectPtr conn, unsigned groups, const char (*uuids)[37], size_t n,
                struct host_stat **ret, size_t *ret_n, struct vt_error *err);
/* What libvirt tells of the host, and of this machine where that is the host. */
int calls_facts(virConnectPtr conn, const char *uri, struct host_facts *facts,
                struct vt_error *err);

/* The emulator and its user, and whether KVM is offered, out of a capabilities document: x86_64
 * only. */
int calls_parse_capabilities(const char *xml, struct host_info *info, struct vt_error *err);

#endif
