/* SPDX-License-Identifier: Apache-2.0 */
/* address: where a target is, as sockets take it. */
#ifndef VTILE_TILES_LOAD_ADDRESS_H
#define VTILE_TILES_LOAD_ADDRESS_H

#include <sys/socket.h>

#include "tiles/load/driver.h"

/* -EINVAL where the target's address is no IP address. */
int load_parse_address(const struct driver_target *target, struct sockaddr_storage *ret,
                       struct vt_error *err);

#endif
