/* SPDX-License-Identifier: Apache-2.0 */
/*
 * get: the driver of `vtile load`: asks for one page again and again, over kept connections. A
 * whole answer is right when its status is below 400. It plans no sessions (schedule_draw_apart).
 */
#ifndef VTILE_TILES_LOAD_GET_H
#define VTILE_TILES_LOAD_GET_H

#include "tiles/load/driver.h"

#define GET_TEXT_MAX 8192

/* What driver_target.context points to. Both are printable ASCII without spaces. */
struct get_page {
    char host[300];          /* of the header Host, with the port where it is not the usual one */
    char path[GET_TEXT_MAX]; /* "/index.html?x=1" */
};

/* Without and with TLS. */
extern const struct driver get_http, get_https;

#endif
