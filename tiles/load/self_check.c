/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/load/self_check.h"

#include <stdlib.h>
#include <sys/socket.h>

#define MILLION 1000000
/* Of the mean gap: less is no burst and no pause. Where steps are evenly spaced, all gaps would
 * differ without it. */
#define TOLERANCE_SHARE 10

int self_check_init(struct self_check *c, struct vt_error *err)
{
    *c = (struct self_check){0};
    c->drawn = malloc(sizeof *c->drawn);
    c->seen = malloc(sizeof *c->seen);
    if (!c->drawn || !c->seen) {
        self_check_dispose(c);
        return vt_error_no_memory(err, "check a load generator");
    }
    vt_hist_init(c->drawn);
    vt_hist_init(c->seen);
    return 0;
}

void self_check_dispose(struct self_check *c)
{
    free(c->drawn);
    free(c->seen);
    c->drawn = c->seen = NULL;
}

void self_check_start(struct self_check *c, int64_t from_ns, int64_t to_ns, size_t nsteps,
                      uint32_t open)
{
    c->tolerance_ns = nsteps > 0 ? (to_ns - from_ns) / (int64_t)nsteps / TOLERANCE_SHARE : 0;
    c->from_ns = c->since_ns = from_ns;
    c->to_ns = to_ns;
    c->open = open;
}

/* The gap before the window's first step lies outside of it. */
void self_check_step(struct self_check *c, int64_t due_ns, int64_t seen_ns)
{
    if (due_ns < c->from_ns || due_ns >= c->to_ns)
        return;
    if (c->last_due_ns != 0) {
        int64_t drawn_ns = due_ns - c->last_due_ns, gap_ns = seen_ns - c->last_seen_ns;
        int64_t apart_ns = gap_ns > drawn_ns ? gap_ns - drawn_ns : drawn_ns - gap_ns;

        vt_hist_record(c->drawn, drawn_ns);
        vt_hist_record(c->seen, apart_ns <= c->tolerance_ns ? drawn_ns : gap_ns);
    }
    c->last_due_ns = due_ns;
    c->last_seen_ns = seen_ns;
}

static void add_time(struct self_check *c, int64_t now_ns)
{
    int64_t until_ns = now_ns < c->to_ns ? now_ns : c->to_ns;

    if (until_ns <= c->since_ns)
        return;
    c->watched_ns += until_ns - c->since_ns;
    c->open_sum_ns += (unsigned __int128)(until_ns - c->since_ns) * c->open;
    if (c->waiting)
        c->waiting_ns += until_ns - c->since_ns;
    c->since_ns = until_ns;
}

void self_check_change(struct self_check *c, uint32_t open, bool waiting, int64_t now_ns)
{
    add_time(c, now_ns);
    c->open = open;
    c->waiting = waiting;
}

static void take_buffer(int fd, int option, int64_t *least_bytes)
{
    int bytes = 0;
    socklen_t len = sizeof bytes;

    if (fd >= 0 && getsockopt(fd, SOL_SOCKET, option, &bytes, &len) == 0 && bytes > 0 &&
        (*least_bytes == 0 || bytes < *least_bytes))
        *least_bytes = bytes;
}

void self_check_buffers(struct self_check *c, int fd)
{
    take_buffer(fd, SO_RCVBUF, &c->receive_bytes);
    take_buffer(fd, SO_SNDBUF, &c->send_bytes);
}

int64_t self_check_distance(const struct vt_hist *a, const struct vt_hist *b)
{
    int64_t apart = 0, most = 0;

    if (a->count == 0 || a->count != b->count)
        return 0;
    for (unsigned i = 0; i < VT_HIST_BUCKETS; i++) {
        apart += (int64_t)(a->bucket[i] - b->bucket[i]);
        if (apart > most || -apart > most)
            most = apart < 0 ? -apart : apart;
    }
    return (int64_t)((unsigned __int128)most * MILLION / a->count);
}

void self_check_end(struct self_check *c, int64_t now_ns, struct vt_record_generator *ret)
{
    add_time(c, now_ns);
    ret->watched_ns = c->watched_ns;
    ret->open = c->watched_ns > 0
                    ? (int64_t)(c->open_sum_ns * MILLION / (unsigned __int128)c->watched_ns)
                    : 0;
    ret->waiting_ns = c->waiting_ns;
    ret->gaps = (int64_t)c->drawn->count;
    ret->gap_distance = self_check_distance(c->drawn, c->seen);
    ret->receive_bytes = c->receive_bytes;
    ret->send_bytes = c->send_bytes;
}
