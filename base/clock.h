/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later */
/*
 * clock: time is int64_t nanoseconds of CLOCK_MONOTONIC everywhere; wall clock is for people.
 */
#ifndef VT_BASE_CLOCK_H
#define VT_BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

#define VT_NS_PER_US INT64_C(1000)
#define VT_NS_PER_MS INT64_C(1000000)
#define VT_NS_PER_S INT64_C(1000000000)

int64_t vt_clock_now_ns(void);  /* CLOCK_MONOTONIC */
int64_t vt_clock_wall_ns(void); /* CLOCK_REALTIME, since 1970 */

/* "2026-11-30T10:45:41Z" into buf of at least 21 bytes. Returns buf. */
const char *vt_clock_format_wall(int64_t wall_ns, char *buf, size_t size);

#endif
