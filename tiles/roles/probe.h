/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe: blocking connections by which a guest asks its own server whether it really serves.
 */
#ifndef VTILE_TILES_ROLES_PROBE_H
#define VTILE_TILES_ROLES_PROBE_H

#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

#define PROBE_TIMEOUT_MS 10000
/* The request's number, as no schedule has it: probes are left out where requests are counted. */
#define PROBE_SEQUENCE 4294967295U
#define PROBE_PAGE "/home?r=4294967295&n=0"

/* GET path of address:port; ca_file NULL: plain, else TLS with the peer's certificate checked
 * against it and against address. 0 when the answer is 200; -EAGAIN when nobody listens or speaks
 * TLS yet or the answer is 502, 503 or 504 (a back end not up yet); else the error. */
int probe_http(const char *address, uint16_t port, const char *path, const char *ca_file,
               struct vt_error *err);

/* A blocking connection; every call on it ends within PROBE_TIMEOUT_MS. */
struct probe_stream {
    int fd;
    SSL_CTX *ctx;
    SSL *tls; /* NULL: plain */
};
/* ca_file as above. -EAGAIN when nobody listens or speaks TLS yet. */
int probe_open(const char *address, uint16_t port, const char *ca_file, struct probe_stream *ret,
               struct vt_error *err);
/* All of it, or false. */
bool probe_send(struct probe_stream *stream, const void *data, size_t len);
/* As recv(): 0 at the end, negative when it failed. */
ssize_t probe_receive(struct probe_stream *stream, void *data, size_t size);
void probe_close(struct probe_stream *stream);

#endif
