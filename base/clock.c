/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later */
#include "base/clock.h"

#include <stdio.h>
#include <time.h>

/* These clocks cannot fail on Linux with a valid pointer. */
static int64_t read_ns(clockid_t clock)
{
    struct timespec ts = {0, 0};

    clock_gettime(clock, &ts);
    return (int64_t)ts.tv_sec * VT_NS_PER_S + ts.tv_nsec;
}

int64_t vt_clock_now_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

int64_t vt_clock_wall_ns(void)
{
    return read_ns(CLOCK_REALTIME);
}

const char *vt_clock_format_wall(int64_t wall_ns, char *buf, size_t size)
{
    /* Rounds towards the past, also before 1970. */
    time_t s = (time_t)(wall_ns / VT_NS_PER_S - (wall_ns % VT_NS_PER_S < 0));
    struct tm tm;

    if (size == 0)
        return buf;
    if (!gmtime_r(&s, &tm) || strftime(buf, size, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
        buf[0] = '\0';
    return buf;
}
