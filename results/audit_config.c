/* SPDX-License-Identifier: Apache-2.0 */
/* What the record discloses of host, guests and client, and whether it stayed until the end. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "results/audit_rules.h"

#define BEGIN RECORD_META_CONFIG
#define END RECORD_META_CONFIG_END
#define SETTINGS "settings."
#define HOST "host.1"

/* What a reviewer needs to know of any machine, by the names that agents and hosts give. */
static const char *const host_facts[] = {"kernel", "cpu", "cpus", "memory", "hypervisor"};
static const char *const agent_facts[] = {"kernel", "cpus", "memory"};

/* No shape of a machine: the first moves with every adjustment of a clock; the second is a NUMA
 * node's total, which a host that is a guest itself may see change, and "memory" has the whole. */
static const char *const moving[] = {"wall_offset_ns", "memory_bytes"};

struct snapshot {
    struct audit_work *work;
    size_t compared, changed, machines;
    bool has_end;
    char first[200]; /* what changed first */
    char lacks[200]; /* what is not disclosed */
};

static int has_fact(struct audit_work *work, const char *who, const char *name, bool *ret)
{
    VT_AUTO_FREE char *value = NULL;
    char key[RECORD_META_KEY_MAX];
    int r;

    snprintf(key, sizeof(key), BEGIN "%s.%s", who, name);
    r = record_read_meta(work->reader, key, &value, work->err);
    *ret = r == 0 && *value && strncmp(value, "not available", 13) != 0;
    return r == -ENOENT ? 0 : r;
}

static int disclose(struct snapshot *snapshot, const char *who, const char *const *facts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool has;
        int r = has_fact(snapshot->work, who, facts[i], &has);

        if (r < 0)
            return r;
        if (!has && !*snapshot->lacks)
            snprintf(snapshot->lacks, sizeof(snapshot->lacks), "%s: %s is not disclosed", who,
                     facts[i]);
    }
    snapshot->machines++;
    return 0;
}

static int on_agent(void *ctx, const struct vt_record_agent *agent)
{
    return disclose(ctx, agent->name, agent_facts, VT_COUNT(agent_facts));
}

static int audit_disclosure(struct snapshot *snapshot)
{
    struct audit_work *work = snapshot->work;
    int r = disclose(snapshot, HOST, host_facts, VT_COUNT(host_facts));

    if (r == 0)
        r = record_walk_agents(work->reader, on_agent, snapshot, work->err);
    if (r < 0)
        return r;
    if (!*snapshot->lacks && snapshot->machines < 3)
        snprintf(snapshot->lacks, sizeof(snapshot->lacks),
                 "of host, guests and client only %zu stand in the record", snapshot->machines);
    audit_add(work, "disclosure", false, *snapshot->lacks ? AUDIT_FAIL : AUDIT_PASS,
              "%s (%zu machines)", *snapshot->lacks ? snapshot->lacks : "host, guests and client",
              snapshot->machines);
    return 0;
}

static bool moves(const char *key)
{
    const char *name = strrchr(key, '.');

    for (size_t i = 0; name && i < VT_COUNT(moving); i++) {
        if (!strcmp(name + 1, moving[i]))
            return true;
    }
    return false;
}

static void differs(struct snapshot *snapshot, const char *key, const char *before,
                    const char *after)
{
    if (snapshot->changed++ == 0)
        snprintf(snapshot->first, sizeof(snapshot->first), "%.60s was '%.50s', then '%.50s'", key,
                 before, after);
}

/* A fact of the end against the same of the begin. */
static int on_end(struct snapshot *snapshot, const char *name, const char *value)
{
    VT_AUTO_FREE char *before = NULL;
    char key[RECORD_META_KEY_MAX];
    int r;

    snapshot->has_end = true;
    if (moves(name))
        return 0;
    snprintf(key, sizeof(key), BEGIN "%s", name);
    r = record_read_meta(snapshot->work->reader, key, &before, snapshot->work->err);
    if (r < 0 && r != -ENOENT)
        return r;
    snapshot->compared++;
    if (r == -ENOENT || strcmp(before, value) != 0)
        differs(snapshot, name, r ? "" : before, value);
    return 0;
}

/* A fact of the begin that the end does not have any more. */
static int on_begin(struct snapshot *snapshot, const char *name, const char *value)
{
    VT_AUTO_FREE char *after = NULL;
    char key[RECORD_META_KEY_MAX];
    int r;

    if (!strncmp(name, SETTINGS, strlen(SETTINGS)) || moves(name) ||
        snprintf(key, sizeof(key), END "%s", name) >= (int)sizeof(key))
        return 0;
    r = record_read_meta(snapshot->work->reader, key, &after, snapshot->work->err);
    if (r == -ENOENT)
        differs(snapshot, name, value, "");
    return r == -ENOENT ? 0 : r;
}

static int on_meta(void *ctx, const char *key, const char *value)
{
    if (!strncmp(key, END, strlen(END)))
        return on_end(ctx, key + strlen(END), value);
    if (!strncmp(key, BEGIN, strlen(BEGIN)))
        return on_begin(ctx, key + strlen(BEGIN), value);
    return 0;
}

static int audit_unchanged(struct snapshot *snapshot)
{
    struct audit_work *work = snapshot->work;
    int r = record_walk_meta(work->reader, on_meta, snapshot, work->err);

    if (r < 0)
        return r;
    if (!snapshot->has_end)
        audit_add(work, "unchanged", false, AUDIT_NOT_APPLICABLE,
                  "the record has no configuration of the end");
    else if (snapshot->changed)
        audit_add(work, "unchanged", false, AUDIT_FAIL, "%zu of %zu facts changed, the first: %s",
                  snapshot->changed, snapshot->compared, snapshot->first);
    else
        audit_add(work, "unchanged", false, AUDIT_PASS,
                  "%zu facts of the machines are the same before and after the load",
                  snapshot->compared);
    return 0;
}

/* Each setting with where it came from. */
static int audit_settings(struct audit_work *work)
{
    VT_AUTO_FREE char *value = NULL;
    int r = record_read_meta(work->reader, BEGIN SETTINGS "load.source", &value, work->err);

    if (r < 0 && r != -ENOENT)
        return r;
    audit_add(work, "settings", false, r == 0 ? AUDIT_PASS : AUDIT_FAIL, "%s%.100s",
              r == 0 ? "each with its source; load by " : "are not in the record",
              r == 0 ? value : "");
    return 0;
}

int audit_configuration(struct audit_work *work)
{
    struct snapshot snapshot = {.work = work};
    int r = audit_disclosure(&snapshot);

    if (r == 0)
        r = audit_unchanged(&snapshot);
    return r < 0 ? r : audit_settings(work);
}
