/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe: one blocking HTTP request, by which a guest asks its own server whether it really serves.
 */
#ifndef VTILE_TILES_ROLES_PROBE_H
#define VTILE_TILES_ROLES_PROBE_H

#include <stdint.h>

#include "base/error.h"

#define PROBE_TIMEOUT_MS 10000
/* The request's number, as no schedule has it: probes are left out where requests are counted. */
#define PROBE_SEQUENCE 4294967295U
#define PROBE_PAGE "/home?r=4294967295&n=0"

/* GET path of address:port; ca_file NULL: plain, else TLS with the peer's certificate checked
 * against it and against address. 0 when the answer is 200; -EAGAIN when nobody listens yet or the
 * answer is 502, 503 or 504 (a back end not up yet); else the error. */
int probe_http(const char *address, uint16_t port, const char *path, const char *ca_file,
               struct vt_error *err);

#endif
