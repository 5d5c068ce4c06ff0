/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schedule_replay: reads a recorded schedule: a text file of one intended time a line, since the
 * segment's start, in the order of time. Digits alone are nanoseconds, digits with a point seconds
 * with at most nine decimals; nothing else stands in a line, and lines end with LF (the last one
 * need not). At most SCHEDULE_STEPS_MAX lines, each below SHAPE_LENGTH_MAX_NS.
 */
#ifndef VTILE_TILES_LOAD_SCHEDULE_REPLAY_H
#define VTILE_TILES_LOAD_SCHEDULE_REPLAY_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* *ret_ns is the caller's (free). Refusals name file, line and column. */
int schedule_replay_read(const char *path, int64_t **ret_ns, size_t *ret_n, struct vt_error *err);

#endif
