/* SPDX-License-Identifier: Apache-2.0 */
/*
 * confdisk: the config disk, a 64 KiB read-only disk that tells a guest who it is: the same on
 * QEMU and Xen, and the only place where a token stands. The controller writes it, vtile-init
 * and vtile-agent read it. docs/image.md has the keys; layout:
 *   0  "VTCONF1\n"   8  u32 LE length of the text   12  u32 LE CRC-32 (IEEE) of the text
 *   16 text: lines "key=value\n", ASCII, each key once; then zero bytes up to 65536
 * The reader takes the exact size only, checks every byte of it, and knows every key. Plain C
 * library code without allocation: vtile-init is static and links this file and error.c alone.
 */
#ifndef VT_BASE_CONFDISK_H
#define VT_BASE_CONFDISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define VT_CONFDISK_BYTES 65536
#define VT_CONFDISK_PEERS_MAX 64
#define VT_CONFDISK_PARAMS_MAX 64
#define VT_CONFDISK_PARAM_NAME_MAX 48
#define VT_CONFDISK_PARAM_VALUE_MAX 256

struct vt_confdisk_peer {
    char name[64];
    char address[16]; /* IPv4 */
};
struct vt_confdisk_param {
    char name[VT_CONFDISK_PARAM_NAME_MAX];
    char value[VT_CONFDISK_PARAM_VALUE_MAX];
};

/* All text is NUL-terminated; "" = not given. Required: run, role, agent, hostname. */
struct vt_confdisk {
    char run[64];        /* run id: letters, digits, '-' '_' '.' */
    char role[32];       /* same alphabet */
    char agent[64];      /* name under which the agent enrols; same alphabet */
    char hostname[64];   /* letters, digits, '-' */
    uint32_t tile;       /* 1-based; 0: none */
    char mac[18];        /* "52:54:00:12:34:56", lower case; with address */
    char address[20];    /* IPv4 "10.86.0.12/16"; with mac */
    char gateway[16];    /* IPv4 */
    char controller[24]; /* IPv4:port that the agent dials */
    char channel[64];    /* virtio-serial port name, where no route exists */
    char token[130];     /* one-time token, lower-case hex, 16..64 bytes */
    char ca[16384];      /* PEM of the controller's CA; base64 of this text on the disk */
    bool unattended;     /* the agent prepares and starts its role without a controller */
    size_t n_peers;      /* lines "peer.<name>=<IPv4>": host names of the tile */
    struct vt_confdisk_peer peers[VT_CONFDISK_PEERS_MAX];
    size_t n_params; /* lines "param.<name>=<value>": settings for the role */
    struct vt_confdisk_param params[VT_CONFDISK_PARAMS_MAX];
};

/* Into a buffer of VT_CONFDISK_BYTES. What the reader would refuse is refused here, -EINVAL. */
int vt_confdisk_encode(const struct vt_confdisk *conf, uint8_t *buf, struct vt_error *err);
/* Damaged or unknown content: VT_KIND_REFUSED, -EBADMSG, with the line. */
int vt_confdisk_decode(const uint8_t *buf, size_t len, struct vt_confdisk *ret,
                       struct vt_error *err);

/* A new file, mode 0600, by rename: nothing half-written is ever seen at path. */
int vt_confdisk_write(const char *path, const struct vt_confdisk *conf, struct vt_error *err);
/* File or block device. */
int vt_confdisk_read(const char *path, struct vt_confdisk *ret, struct vt_error *err);

/* The value of a param line, or fallback. */
const char *vt_confdisk_param(const struct vt_confdisk *conf, const char *name,
                              const char *fallback);

#endif
