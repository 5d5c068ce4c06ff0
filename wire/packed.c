/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The packed messages. A second of load, big endian: form 2 (1), tile (2), operation (2), second
 * (4), intended, good, slow, wrong, failed, bytes (8 each), length of role (1), role, then the
 * histograms of response, service, wake lag and rate in their sparse form.
 */
#include <errno.h>
#include <string.h>

#include "base/scope.h"
#include "wire/bytes.h"
#include "wire/message.h"

#define LOAD_FORM 2
#define LOAD_FIXED_BYTES (1 + 2 + 2 + 4 + 6 * 8 + 1)
#define BYTES_MAX (UINT64_C(1) << 50)

static void put(struct vt_buf *out, uint64_t value, unsigned bytes)
{
    uint8_t data[8];
    wire_put(data, value, bytes);
    vt_buf_add(out, data, bytes);
}

static uint64_t get(const uint8_t **at, unsigned bytes)
{
    uint64_t value = wire_get(*at, bytes);
    *at += bytes;
    return value;
}

int wire_load_write(struct vt_buf *out, unsigned tile, const char *role, unsigned operation,
                    const struct vt_load_second *second, struct vt_error *err)
{
    size_t len = strlen(role);
    if (tile > UINT16_MAX || operation > UINT16_MAX || second->second < 0 ||
        second->second >= WIRE_SECOND_MAX || len >= VT_RECORD_NAME_MAX)
        return vt_error_set(err, VT_KIND_INFRA, -ERANGE, "load of %s: cannot be packed", role);
    const uint64_t counters[] = {second->intended, second->good,   second->slow,
                                 second->wrong,    second->failed, second->bytes};
    put(out, LOAD_FORM, 1);
    put(out, tile, 2);
    put(out, operation, 2);
    put(out, (uint64_t)second->second, 4);
    for (unsigned i = 0; i < 6; i++)
        put(out, counters[i], 8);
    put(out, len, 1);
    vt_buf_add(out, role, len);
    vt_hist_encode(second->response, out);
    vt_hist_encode(second->service, out);
    vt_hist_encode(second->wake_lag, out);
    vt_hist_encode(second->rate, out);
    return vt_buf_check(out, "load", err);
}

/* See base/event.h: each request ends in one of four ways, and none is counted twice. */
static int check_second(const struct wire_load *load, struct vt_error *err)
{
    const struct vt_load_second *s = &load->second;
    const uint64_t max = (uint64_t)WIRE_COUNT_MAX;
    if (s->intended > max || s->good > max || s->slow > max || s->wrong > max || s->failed > max ||
        s->bytes > BYTES_MAX)
        return vt_error_refuse(err, "load: a count is impossible");
    if (s->good + s->slow + s->wrong + s->failed != s->intended)
        return vt_error_refuse(err,
                               "load: good, slow, wrong and failed are not all that was intended");
    /* Answers have a response time; what got none may stand there with its age. */
    if (load->response.count < s->good + s->slow || load->response.count > s->intended)
        return vt_error_refuse(err, "load: not as many response times as answers");
    if (load->service.count > s->intended || load->wake_lag.count > s->intended)
        return vt_error_refuse(err, "load: more service times or wake lags than requests");
    if (load->rate.count != 0 && load->rate.count != s->good + s->slow)
        return vt_error_refuse(err, "load: neither no rates nor one of each correct answer");
    return 0;
}

static int read_hists(const uint8_t *at, size_t len, struct wire_load *ret, struct vt_error *err)
{
    struct vt_hist *hists[] = {&ret->response, &ret->service, &ret->wake_lag, &ret->rate};
    for (unsigned i = 0; i < VT_COUNT(hists); i++) {
        size_t used;
        vt_hist_init(hists[i]);
        int rc = vt_hist_decode_add(hists[i], at, len, &used, err);
        if (rc < 0)
            return rc;
        at += used;
        len -= used;
    }
    return len == 0 ? 0 : vt_error_refuse(err, "load: bytes after the last histogram");
}

int wire_load_read(const struct wire_frame *frame, struct wire_load *ret, struct vt_error *err)
{
    const uint8_t *at = frame->payload;
    if (frame->len < LOAD_FIXED_BYTES || get(&at, 1) != LOAD_FORM)
        return vt_error_refuse(err, "load: not of the known form");
    struct vt_load_second *s = &ret->second;
    memset(s, 0, sizeof *s);
    ret->tile = (unsigned)get(&at, 2);
    ret->operation = (unsigned)get(&at, 2);
    s->second = (int64_t)get(&at, 4);
    s->intended = get(&at, 8);
    s->good = get(&at, 8);
    s->slow = get(&at, 8);
    s->wrong = get(&at, 8);
    s->failed = get(&at, 8);
    s->bytes = get(&at, 8);
    size_t len = get(&at, 1);
    if (len >= sizeof ret->role || frame->len - LOAD_FIXED_BYTES < len)
        return vt_error_refuse(err, "load: name of the role is too long");
    memcpy(ret->role, at, len);
    ret->role[len] = '\0';
    at += len;
    if (!wire_name_ok(ret->role) || strlen(ret->role) != len || ret->tile < 1 ||
        ret->tile > VT_RECORD_TILES_MAX || ret->operation >= VT_RECORD_OPERATIONS_MAX ||
        s->second >= WIRE_SECOND_MAX)
        return vt_error_refuse(err, "load: tile, role, operation or second out of range");
    int rc = read_hists(at, frame->len - LOAD_FIXED_BYTES - len, ret, err);
    if (rc < 0)
        return rc;
    s->response = &ret->response;
    s->service = &ret->service;
    s->wake_lag = &ret->wake_lag;
    s->rate = &ret->rate;
    return check_second(ret, err);
}

int wire_log_write(struct vt_buf *out, const char *name, const void *data, size_t len,
                   struct vt_error *err)
{
    put(out, strlen(name), 1);
    vt_buf_adds(out, name);
    vt_buf_add(out, data, len);
    return vt_buf_check(out, name, err);
}

int wire_log_read(const struct wire_frame *frame, char name[WIRE_NAME_MAX], const uint8_t **ret,
                  size_t *ret_len, struct vt_error *err)
{
    if (frame->len < 1 || frame->payload[0] >= WIRE_NAME_MAX || frame->len - 1 < frame->payload[0])
        return vt_error_refuse(err, "log: name too long");
    size_t len = frame->payload[0];
    memcpy(name, frame->payload + 1, len);
    name[len] = '\0';
    if (!wire_name_ok(name) || strlen(name) != len)
        return vt_error_refuse(err, "log: not a proper name");
    *ret = frame->payload + 1 + len;
    *ret_len = frame->len - 1 - len;
    return 0;
}
