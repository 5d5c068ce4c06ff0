/* SPDX-License-Identifier: Apache-2.0 */
/* A small HTTPS server that answers as the web role's site does, a thread a connection. */
#ifndef VTILE_TESTS_UNIT_AGENTS_SITE_H
#define VTILE_TESTS_UNIT_AGENTS_SITE_H

#include "base/cert.h"

/* An address of 127.0.0.0/8 that no other test of this machine uses now. */
const char *site_address(void);
/* Listens there on port 443 until the process ends. False when that port cannot be had. */
bool site_start(const struct vt_ca *ca, unsigned tile);
unsigned site_requests(void); /* answered so far */

#endif
