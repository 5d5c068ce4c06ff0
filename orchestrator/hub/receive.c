/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an agent that is up sends. Everything is checked before it reaches the hub's owner; a
 * negative return ends the connection.
 */
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "orchestrator/hub/internal.h"
#include "tiles/roles/role.h"

/* A sample's time may differ that much from ours, else it is taken as of now. */
#define SAMPLE_AGE_MAX_NS (30 * VT_NS_PER_S)

static int refuse(const struct hub_agent *agent, const char *what, struct vt_error *err)
{
    return vt_error_refuse(err, "agent %s: %s", agent->name, what);
}

static int take_reply(struct hub_agent *agent, const struct wire_frame *frame, struct vt_error *err)
{
    struct hub_call *call = hub_call_find(agent, frame->stream);
    json_t *json;
    const json_t *result = NULL;
    if (!call)
        return 0; /* it came after its deadline */
    int rc = wire_json_read(frame, "reply", &json, err);
    if (rc < 0)
        return rc;
    struct vt_error failure = VT_ERROR_INIT;
    rc = wire_reply_read(json, &result, &failure);
    if (rc < 0)
        vt_error_wrap(&failure, "%s of %s", call->op, agent->name);
    hub_call_end(agent->peer->hub, call, rc < 0 ? NULL : result, rc < 0 ? &failure : NULL);
    json_decref(json);
    return 0;
}

static int take_event(struct hub_agent *agent, const struct wire_frame *frame, struct vt_error *err)
{
    struct hub *hub = agent->peer->hub;
    const char *kind, *text = "";
    json_t *json;
    if (!hub_rate_take(&agent->events, HUB_EVENTS_PER_S, HUB_EVENTS_BURST))
        return refuse(agent, "too many events", err);
    int rc = wire_json_read(frame, "event", &json, err);
    if (rc < 0)
        return rc;
    rc = vt_json_get_string(json, "kind", &kind, err);
    if (rc == 0)
        rc = vt_json_opt_string(json, "text", &text, err);
    if (rc == 0 && !wire_name_ok(kind))
        rc = refuse(agent, "an event of no proper kind", err);
    if (rc == 0 && hub->events->agent_event)
        hub->events->agent_event(hub->ctx, agent->name, kind, text, json);
    json_decref(json);
    return rc;
}

static int64_t to_our_clock(const struct hub_agent *agent, int64_t t_ns)
{
    int64_t now_ns = vt_clock_now_ns(), offset_ns, rtt_ns;
    if (!wire_conn_clock(agent->peer->conn, &offset_ns, &rtt_ns))
        return now_ns;
    int64_t ours_ns = t_ns - offset_ns;
    bool plausible = ours_ns > now_ns - SAMPLE_AGE_MAX_NS && ours_ns < now_ns + SAMPLE_AGE_MAX_NS;
    return plausible ? ours_ns : now_ns;
}

static int take_sample(struct hub_agent *agent, const struct wire_frame *frame,
                       struct vt_error *err)
{
    struct hub *hub = agent->peer->hub;
    const char *series;
    json_t *json, *value;
    int64_t t_ns;
    if (!hub_rate_take(&agent->samples, HUB_SAMPLES_PER_S, HUB_SAMPLES_BURST))
        return refuse(agent, "too many samples", err);
    int rc = wire_sample_read(frame, &t_ns, &json, err);
    if (rc < 0)
        return rc;
    t_ns = to_our_clock(agent, t_ns);
    json_object_foreach(json_object_get(json, "series"), series, value)
        if (hub->events->sample)
            hub->events->sample(hub->ctx, agent->name, t_ns, series, json_number_value(value));
    json_decref(json);
    return 0;
}

struct hub_stream *hub_find_stream(const struct hub_agent *agent, unsigned tile, const char *role)
{
    for (unsigned i = 0; i < agent->nstreams; i++)
        if (agent->streams[i].tile == tile && !strcmp(agent->streams[i].role, role))
            return &agent->streams[i];
    return NULL;
}

/* Of a role that is driven from outside, or that works by itself; NULL when it has no such one. */
static const char *operation_name(const struct role *role, unsigned operation)
{
    unsigned n = 0;
    const char *const *operations = role ? role_operations(role, &n) : NULL;

    return operation < n ? operations[operation] : NULL;
}

static int take_load(struct hub_agent *agent, const struct wire_frame *frame, struct vt_error *err)
{
    struct hub *hub = agent->peer->hub;
    struct wire_load *load = hub->load;
    int rc = wire_load_read(frame, load, err);
    if (rc < 0)
        return rc;
    struct hub_stream *stream = hub_find_stream(agent, load->tile, load->role);
    if (!stream)
        return refuse(agent, "load that it was not asked for", err);
    const char *operation = operation_name(role_find(load->role), load->operation);
    if (!operation || load->operation >= VT_RECORD_OPERATIONS_MAX)
        return refuse(agent, "load of an operation that does not exist", err);
    if (load->second.second <= stream->last_second[load->operation])
        return refuse(agent, "a second of load came twice or late", err);
    stream->last_second[load->operation] = load->second.second;
    load->second.operation = operation;
    if (hub->events->load)
        hub->events->load(hub->ctx, agent->name, load->tile, load->role, &load->second);
    return 0;
}

static int take_log(struct hub_agent *agent, const struct wire_frame *frame, struct vt_error *err)
{
    struct hub *hub = agent->peer->hub;
    char name[WIRE_NAME_MAX];
    const uint8_t *data;
    size_t len;
    int rc = wire_log_read(frame, name, &data, &len, err);
    if (rc < 0)
        return rc;
    struct hub_call *call = hub_call_find(agent, frame->stream);
    if (!call)
        return 0; /* its call has timed out */
    call->log_bytes += len;
    if (call->log_bytes > HUB_LOG_BYTES_MAX)
        return refuse(agent, "more logs than it may send for one call", err);
    if (len > 0 && hub->events->log)
        hub->events->log(hub->ctx, agent->name, name, data, len);
    return 0;
}

int hub_receive(struct hub_agent *agent, const struct wire_frame *frame, struct vt_error *err)
{
    switch (frame->type) {
    case WIRE_REPLY:
        return take_reply(agent, frame, err);
    case WIRE_EVENT:
        return take_event(agent, frame, err);
    case WIRE_SAMPLE:
        return take_sample(agent, frame, err);
    case WIRE_LOG:
        return take_log(agent, frame, err);
    case WIRE_LOAD:
        return take_load(agent, frame, err);
    default:
        return refuse(agent, "a frame that agents do not send", err);
    }
}
