/* SPDX-License-Identifier: Apache-2.0 */
/* url: what `vtile load` is to ask for, and where that is. */
#ifndef VTILE_ORCHESTRATOR_LOAD_URL_H
#define VTILE_ORCHESTRATOR_LOAD_URL_H

#include "tiles/load/get.h"

struct load_url {
    bool tls;
    struct driver_target target; /* server_name: the host as the URL names it, without brackets */
    struct get_page page;        /* whoever uses the target points its context here */
};

/* http://HOST[:PORT][/PATH][?QUERY][#FRAGMENT] or https. HOST is a name, an IPv4 address or an IPv6
 * one in brackets. Path and query are asked for as they stand, so they are printable ASCII without
 * spaces; the fragment is left out, a user is refused. Kind USAGE. The address is still to be
 * found. */
int load_url_parse(const char *text, struct load_url *ret, struct vt_error *err);
/* The host's address as the machine resolves names; of several the first that takes a connection,
 * else the first. Blocks. */
int load_url_resolve(struct load_url *url, struct vt_error *err);

#endif
