/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record generator: what a load client says of its own work for one role in the measure window, as
 * it travels and as it stands in a record: an object of JSON whose keys are the fields' names.
 */
#ifndef VT_BASE_RECORD_GENERATOR_H
#define VT_BASE_RECORD_GENERATOR_H

#include <jansson.h>
#include <stdint.h>

#include "base/error.h"

struct vt_record_generator {
    int64_t connections;  /* that it may have at once */
    int64_t pooled;       /* 1: they serve any session and are all to be open; 0: one a session */
    int64_t watched_ns;   /* of the window */
    int64_t open;         /* mean number of open ones, millionths; only where pooled */
    int64_t waiting_ns;   /* of watched_ns: at least one step waited for a connection */
    int64_t gaps;         /* from step to step */
    int64_t gap_distance; /* Kolmogorov-Smirnov, of those kept and those drawn; millionths */
    int64_t receive_bytes, send_bytes; /* least buffers of a socket; 0: not known */
};

json_t *
vt_record_generator_write(const struct vt_record_generator *generator); /* NULL: no memory */
/* From a peer or a stranger's record: each number is bounded. */
int vt_record_generator_read(const json_t *json, struct vt_record_generator *ret,
                             struct vt_error *err);

#endif
