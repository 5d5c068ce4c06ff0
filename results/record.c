/* SPDX-License-Identifier: Apache-2.0 */
#include "results/record.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "results/record_queue.h"
#include "results/record_row.h"

#define SERIES_BUCKETS 4096
#define SERIES_MAX 200000 /* 156 guests x 40 series x 14 phases fit twice */

/* A role that the plan put, and the second of it that is being collected. */
struct role_entry {
    unsigned tile;
    char role[VT_RECORD_NAME_MAX];
    int64_t second; /* -1: row is empty */
    struct vt_buf row;
};
struct series_entry {
    struct series_entry *next;
    int64_t id;
    char key[]; /* tile, role, source, phase, name, each ended by a NUL */
};

struct record {
    struct vt_sink sink; /* first: the sink is the record */
    struct record_queue *queue;
    struct role_entry *roles;
    size_t nroles;
    struct series_entry *series[SERIES_BUCKETS];
    int64_t nseries;
    char phase[VT_RECORD_NAME_MAX];
};

static void take_event(struct vt_sink *sink, const struct vt_event *event);

int record_create(const char *path, struct record **ret, struct vt_error *err)
{
    struct record *record = calloc(1, sizeof(*record));
    int r;

    if (!record)
        return vt_error_no_memory(err, "create record %s", path);
    r = record_queue_open(path, &record->queue, err);
    if (r < 0) {
        free(record);
        return r;
    }
    record->sink.take = take_event;
    *ret = record;
    return 0;
}

struct vt_sink *record_sink(struct record *record)
{
    return &record->sink;
}

static int full(struct vt_error *err, const char *what)
{
    return vt_error_set(err, VT_KIND_INFRA, -ENOBUFS,
                        "record: the queue is full, %s is lost; the disk is too slow", what);
}

static int invalid(struct vt_error *err, const char *what, const char *name)
{
    return vt_error_set(err, VT_KIND_USAGE, -EINVAL, "record: %s '%s'", what, name);
}

/* Names come back as keys of JSON and words of a table. */
static struct role_entry *find_role(struct record *record, unsigned tile, const char *role)
{
    for (size_t i = 0; role && i < record->nroles; i++) {
        struct role_entry *entry = &record->roles[i];
        if (entry->tile == tile && !strcmp(entry->role, role))
            return entry;
    }
    return NULL;
}

static int64_t role_id(const struct record *record, const struct role_entry *entry)
{
    return entry - record->roles + 1;
}

/* --- what the plan puts --- */

int record_put_meta(struct record *record, const char *key, const char *value, struct vt_error *err)
{
    if (!*key || strlen(key) >= RECORD_META_KEY_MAX ||
        !strncmp(key, RECORD_OWN_PREFIX, strlen(RECORD_OWN_PREFIX)))
        return invalid(err, "not a key for meta:", key);
    if (strlen(value) > RECORD_META_VALUE_MAX)
        return invalid(err, "value too long for key", key);
    if (record_queue_put(record->queue, RECORD_PUT_META, "tt", key, value) < 0)
        return full(err, key);
    return 0;
}

static int put_limits(struct record *record, int64_t role, int64_t operation,
                      const struct vt_record_limit *limits, size_t n)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < n; i++)
        r = record_queue_put(record->queue, RECORD_PUT_LIMIT, "iiiii", role, operation, (int64_t)i,
                             limits[i].percentile, limits[i].limit_ns);
    return r;
}

/* In the tables operation 0 is the whole role. */
static int put_operations(struct record *record, int64_t id, const struct vt_record_role *role)
{
    int r = put_limits(record, id, 0, role->limits, role->nlimits);

    for (size_t i = 0; r == 0 && i < role->noperations; i++) {
        const struct vt_record_operation *op = &role->operations[i];
        r = record_queue_put(record->queue, RECORD_PUT_OPERATION, "iitiii", id, (int64_t)i + 1,
                             op->name, op->good_limit_ns, op->min_bytes_per_s[0],
                             op->min_bytes_per_s[1]);
        if (r == 0)
            r = put_limits(record, id, (int64_t)i + 1, op->limits, op->nlimits);
    }
    return r;
}

static int check_role(const struct vt_record_role *role, struct vt_error *err)
{
    /* Its name stands beside these keys in a result. */
    if (!record_name_ok(role->role, strlen(role->role)) || !strcmp(role->role, "tile") ||
        !strcmp(role->role, "score"))
        return invalid(err, "not a role's name:", role->role);
    if (role->tile < 1 || role->tile > VT_RECORD_TILES_MAX)
        return vt_error_set(err, VT_KIND_USAGE, -EINVAL,
                            "record: tile %u of role %s is not in 1..%d", role->tile, role->role,
                            VT_RECORD_TILES_MAX);
    if (role->nlimits > VT_RECORD_LIMITS_MAX || role->noperations > VT_RECORD_OPERATIONS_MAX)
        return invalid(err, "too many limits or operations in role", role->role);
    for (size_t i = 0; i < role->noperations; i++) {
        if (!record_name_ok(role->operations[i].name, strlen(role->operations[i].name)))
            return invalid(err, "not an operation's name:", role->operations[i].name);
        if (role->operations[i].nlimits > VT_RECORD_LIMITS_MAX)
            return invalid(err, "too many limits in operation", role->operations[i].name);
    }
    return 0;
}

static int put_shape(struct record *record, const struct vt_record_role *role, struct vt_error *err)
{
    char key[RECORD_META_KEY_MAX];

    snprintf(key, sizeof(key), RECORD_META_SCHEDULE "%s", role->role);
    return record_put_meta(record, key, role->schedule, err);
}

int record_put_role(struct record *record, const struct vt_record_role *role, struct vt_error *err)
{
    struct role_entry *grown;
    int64_t id = (int64_t)record->nroles + 1;
    int r = check_role(role, err);

    if (r < 0)
        return r;
    if (find_role(record, role->tile, role->role) || record->nroles == VT_RECORD_ROLES_MAX)
        return invalid(err, "twice, or one too many: role", role->role);
    grown = realloc(record->roles, (record->nroles + 1) * sizeof(*grown));
    if (!grown)
        return vt_error_no_memory(err, "record: role %s", role->role);
    record->roles = grown;
    grown[record->nroles] =
        (struct role_entry){.tile = role->tile, .second = -1, .row = VT_BUF_INIT(RECORD_BLOB_MAX)};
    vt_text_copy(grown[record->nroles].role, VT_RECORD_NAME_MAX, role->role);
    record->nroles++;
    r = record_queue_put(record->queue, RECORD_PUT_ROLE, "iitiiiiiiiii", id, (int64_t)role->tile,
                         role->role, (int64_t)role->scored, (int64_t)role->driven,
                         (int64_t)role->loop, role->rate, role->divisor, role->weight,
                         role->good_limit_ns, role->error_share_max, role->wake_lag_p99_max_ns);
    if (r == 0)
        r = put_operations(record, id, role);
    if (r < 0)
        return full(err, role->role);
    return *role->schedule ? put_shape(record, role, err) : 0;
}

int record_put_schedule(struct record *record, const struct vt_record_schedule *schedule,
                        struct vt_error *err)
{
    const struct role_entry *entry = find_role(record, schedule->tile, schedule->role);

    if (!entry)
        return invalid(err, "schedule of a role that was not put:", schedule->role);
    if (schedule->from_s < 0 || schedule->to_s < schedule->from_s ||
        schedule->to_s > VT_RECORD_SECONDS_MAX)
        return invalid(err, "window out of range in schedule of", schedule->role);
    if (record_queue_put(record->queue, RECORD_PUT_SCHEDULE, "ibiiii", role_id(record, entry),
                         schedule->hash, sizeof(schedule->hash), (int64_t)schedule->steps,
                         (int64_t)schedule->window_steps, schedule->from_s, schedule->to_s) < 0)
        return full(err, "a schedule");
    return 0;
}

int record_put_agent(struct record *record, const struct vt_record_agent *agent,
                     struct vt_error *err)
{
    if (!record_name_ok(agent->name, strlen(agent->name)) ||
        !record_name_ok(agent->duty, strlen(agent->duty)))
        return invalid(err, "not an agent's name or duty:", agent->name);
    if (record_queue_put(record->queue, RECORD_PUT_AGENT, "ttiii", agent->name, agent->duty,
                         (int64_t)agent->tile, agent->clock_offset_ns, agent->rtt_ns) < 0)
        return full(err, agent->name);
    return 0;
}

int record_put_totals(struct record *record, const struct vt_record_totals *totals,
                      struct vt_error *err)
{
    const struct role_entry *entry = find_role(record, totals->tile, totals->role);

    if (!entry)
        return invalid(err, "totals of a role that was not put:", totals->role);
    if (record_queue_put(record->queue, RECORD_PUT_TOTALS, "iiiiiiiiiit", role_id(record, entry),
                         (int64_t)totals->intended, (int64_t)totals->good, (int64_t)totals->slow,
                         (int64_t)totals->wrong, (int64_t)totals->failed,
                         (int64_t)totals->connections_opened, (int64_t)totals->connections_failed,
                         (int64_t)totals->queue_high, (int64_t)totals->early,
                         totals->first_failure) < 0)
        return full(err, "the generator's totals");
    return 0;
}

/* --- what the bus brings; nothing can be returned, so what fails is counted as lost --- */

static void flush_row(struct record *record, struct role_entry *entry)
{
    if (entry->second < 0)
        return;
    if (entry->row.failed)
        record_queue_lose(record->queue);
    else
        record_queue_put(record->queue, RECORD_PUT_LOAD, "iitib",
                         role_id(record, entry) << RECORD_SECOND_BITS | entry->second,
                         (int64_t)entry->tile, entry->role, entry->second, entry->row.data,
                         entry->row.len);
    entry->second = -1;
}

/* Operations of one second come one after the other; the next second closes the row. */
static void take_load(struct record *record, const struct vt_event *event)
{
    const struct vt_load_second *load = event->load;
    struct role_entry *entry = find_role(record, event->tile, event->role);

    if (!entry || !load || !record_name_ok(load->operation, strlen(load->operation)) ||
        load->second < 0 || load->second >= VT_RECORD_SECONDS_MAX) {
        record_queue_lose(record->queue);
        return;
    }
    if (entry->second != load->second) {
        flush_row(record, entry);
        entry->second = load->second;
        record_row_begin(&entry->row);
    }
    record_row_add(&entry->row, load);
}

/* At most RECORD_TEXT_MAX bytes of a text, cut between characters. */
static const char *cut_text(const char *text, char buf[RECORD_TEXT_MAX + 1])
{
    size_t len;

    if (!text || strlen(text) <= RECORD_TEXT_MAX)
        return text;
    len = RECORD_TEXT_MAX;
    while (len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80)
        len--;
    memcpy(buf, text, len);
    buf[len] = '\0';
    return buf;
}

static void take_words(struct record *record, const struct vt_event *event)
{
    char text[RECORD_TEXT_MAX + 1], code[RECORD_TEXT_MAX + 1];
    bool verdict = event->type == VT_EVENT_VERDICT;

    record_queue_put(record->queue, RECORD_PUT_EVENT, "tiiittttitd",
                     vt_event_type_name(event->type), (int64_t)event->level, event->time_ns,
                     (int64_t)event->tile, event->role, event->phase, event->source,
                     cut_text(event->text, text), event->planned_ns,
                     verdict ? cut_text(event->series, code) : NULL, verdict ? event->value : 0.0);
}

static int64_t find_series(struct record *record, const struct vt_event *event)
{
    const char *words[] = {event->role, event->source, record->phase, event->series};
    char key[4 * RECORD_META_KEY_MAX + 16];
    size_t len = (size_t)snprintf(key, sizeof(key), "%u", event->tile) + 1;
    uint32_t hash = 2166136261U; /* FNV-1a */
    struct series_entry *entry, **bucket;

    for (size_t i = 0; i < VT_COUNT(words); i++) {
        const char *word = words[i] ? words[i] : "";
        if (strlen(word) >= RECORD_META_KEY_MAX)
            return 0;
        memcpy(key + len, word, strlen(word) + 1);
        len += strlen(word) + 1;
    }
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (uint8_t)key[i]) * 16777619U;
    bucket = &record->series[hash % SERIES_BUCKETS];
    for (entry = *bucket; entry; entry = entry->next) {
        if (!memcmp(entry->key, key, len))
            return entry->id;
    }
    if (record->nseries == SERIES_MAX)
        return 0;
    entry = malloc(sizeof(*entry) + sizeof(key)); /* whole keys, so that memcmp stays inside */
    if (!entry)
        return 0;
    memcpy(entry->key, key, len);
    memset(entry->key + len, 0, sizeof(key) - len);
    entry->id = ++record->nseries;
    entry->next = *bucket;
    *bucket = entry;
    record_queue_put(record->queue, RECORD_PUT_SERIES, "iitttt", entry->id, (int64_t)event->tile,
                     event->role, event->source, record->phase, event->series);
    return entry->id;
}

static void take_sample(struct record *record, const struct vt_event *event)
{
    char why[RECORD_TEXT_MAX + 1];
    int64_t series = event->series ? find_series(record, event) : 0;

    if (!series)
        record_queue_lose(record->queue);
    else
        record_queue_put(record->queue, RECORD_PUT_SAMPLE, "iidt", series, event->time_ns,
                         event->value, cut_text(event->text, why));
}

void record_put_log(struct record *record, const struct vt_event *event, const void *bytes,
                    size_t len)
{
    const uint8_t *data = bytes;

    if (!event->series) {
        record_queue_lose(record->queue);
        return;
    }
    do { /* the reader takes no larger blob */
        size_t chunk = len < RECORD_BLOB_MAX ? len : RECORD_BLOB_MAX;
        record_queue_put(record->queue, RECORD_PUT_LOG, "iittttb", event->time_ns,
                         (int64_t)event->tile, event->role, event->source, record->phase,
                         event->series, data, chunk);
        data += chunk;
        len -= chunk;
    } while (len);
}

static void take_event(struct vt_sink *sink, const struct vt_event *event)
{
    struct record *record = (struct record *)sink;

    switch (event->type) {
    case VT_EVENT_PHASE:
        vt_text_copy(record->phase, sizeof(record->phase), event->phase ? event->phase : "");
        take_words(record, event);
        break;
    case VT_EVENT_NOTE:
    case VT_EVENT_AGENT:
    case VT_EVENT_VERDICT:
        take_words(record, event);
        break;
    case VT_EVENT_LOAD:
        take_load(record, event);
        break;
    case VT_EVENT_SAMPLE:
        take_sample(record, event);
        break;
    case VT_EVENT_LOG:
        record_put_log(record, event, event->text ? event->text : "",
                       event->text ? strlen(event->text) : 0);
        break;
    }
}

size_t record_room(struct record *record)
{
    return record_queue_room(record->queue);
}

int record_status(struct record *record, uint64_t *ret_lost, struct vt_error *err)
{
    return record_queue_status(record->queue, ret_lost, err);
}

int record_close(struct record *record, struct vt_error *err)
{
    int r;

    if (!record)
        return 0;
    for (size_t i = 0; i < record->nroles; i++) {
        flush_row(record, &record->roles[i]);
        vt_buf_dispose(&record->roles[i].row);
    }
    for (size_t i = 0; i < SERIES_BUCKETS; i++) {
        while (record->series[i]) {
            struct series_entry *next = record->series[i]->next;
            free(record->series[i]);
            record->series[i] = next;
        }
    }
    r = record_queue_close(record->queue, err);
    free(record->roles);
    free(record);
    return r;
}
