/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config: what machines a run is made of: asked of the host when it is opened, of every agent
 * before load begins, as "config.<who>.<name>"; and of all once more after it has ended, as
 * "config_end.<who>.<name>", so that an audit can tell whether they stayed what they were.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/run/steps.h"

#define CONFIG_TIMEOUT_NS (120 * VT_NS_PER_S)
#define CONFIG_HOST "host.1" /* a run has one host */

struct run_config {
    struct run *run;
    const char *prefix;
    void (*done)(struct run *run);
    int phase;        /* that asked */
    unsigned waiting; /* answers; one is held while questions are asked */
    struct config_agent {
        struct run_config *config;
        const char *name;
    } agents[];
};

static void one_less(struct run_config *config)
{
    if (--config->waiting == 0 && config->phase == config->run->phases.current)
        config->done(config->run);
}

static const char *print_value(const json_t *value, char *word, size_t size)
{
    if (json_is_integer(value))
        snprintf(word, size, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(word, size, "%.9g", json_real_value(value));
    else
        vt_text_copy(word, size, json_is_true(value) ? "true" : "false");
    return word;
}

void run_put_answer(struct run *run, const char *prefix, const char *who, const json_t *answer)
{
    const char *key;
    const json_t *value;

    json_object_foreach((json_t *)answer, key, value) {
        char name[RECORD_META_KEY_MAX], word[32];
        const char *text = json_string_value(value);

        if (!text)
            text = print_value(value, word, sizeof(word));
        if (snprintf(name, sizeof(name), "%s%s.%s", prefix, who, key) < (int)sizeof(name))
            record_put_meta(run->record, name, text, NULL);
        else if (!strncmp(key, "wrong.", 6)) /* the verdict would not see it */
            run_reason(run, "facts-missing", 1, "%s: the name of a fact is too long: %.64s", who,
                       key);
    }
}

/* A machine that cannot answer is a fact too, not the end of the run. */
static void agent_answered(void *ctx, const json_t *result, const struct vt_error *err)
{
    struct config_agent *agent = ctx;
    struct run *run = agent->config->run;

    if (!run->record || run->phases.undoing)
        return;
    if (err && run_lost_is(run, agent->name))
        run_note(run, VT_LEVEL_WARNING, "%s: config: %s", agent->name, err->text);
    else if (err)
        run_reason(run, "check-failed", 1, "%s: config: %s", agent->name, err->text);
    else
        run_put_answer(run, agent->config->prefix, agent->name, result);
    one_less(agent->config);
}

static void put_fact(struct run *run, const char *prefix, const char *name, const char *value)
{
    char key[RECORD_META_KEY_MAX];

    if (snprintf(key, sizeof(key), "%s" CONFIG_HOST ".%s", prefix, name) < (int)sizeof(key))
        record_put_meta(run->record, key, value, NULL);
}

static void put_facts(struct run *run, const char *prefix, const struct host_reply *reply)
{
    char why[VT_ERROR_TEXT_MAX + 32];

    if (reply->code < 0) {
        snprintf(why, sizeof(why), "not available, because %s", reply->err.text);
        put_fact(run, prefix, "kernel", why);
        return;
    }
    for (size_t i = 0; i < reply->facts->n; i++)
        put_fact(run, prefix, reply->facts->all[i].name, reply->facts->all[i].value);
}

static void opened_host_answered(struct host *host, void *ctx, const struct host_reply *reply)
{
    struct run *run = ctx;

    (void)host;
    if (run->record)
        put_facts(run, RECORD_META_CONFIG, reply);
}

int run_ask_facts(struct run *run, struct vt_error *err)
{
    return host_ask_facts(run->host, opened_host_answered, run, err);
}

static void host_answered(struct host *host, void *ctx, const struct host_reply *reply)
{
    struct run_config *config = ctx;

    (void)host;
    if (!config->run->record || config->run->phases.undoing)
        return;
    put_facts(config->run, config->prefix, reply);
    one_less(config);
}

static void ask_agent(struct config_agent *agent)
{
    struct vt_error err = VT_ERROR_INIT;

    agent->config->waiting++;
    if (hub_call(agent->config->run->hub, agent->name, "config", NULL, CONFIG_TIMEOUT_NS,
                 agent_answered, agent, &err) < 0)
        agent_answered(agent, NULL, &err);
}

static void ask_host(struct run_config *config)
{
    struct vt_error err = VT_ERROR_INIT;

    config->waiting++;
    if (host_ask_facts(config->run->host, host_answered, config, &err) < 0) {
        run_reason(config->run, "check-failed", 1, CONFIG_HOST ": config: %s", err.text);
        config->waiting--;
    }
}

void run_ask_config(struct run *run, bool end, void (*done)(struct run *run))
{
    unsigned n = run->nvms + (run->nloads > 0);
    struct run_config *config = calloc(1, sizeof(*config) + n * sizeof(config->agents[0]));
    struct vt_error err = VT_ERROR_INIT;

    if (!config) {
        vt_error_no_memory(&err, "ask for configurations");
        phases_done(&run->phases, &err);
        return;
    }
    run->configs[end] = config;
    config->run = run;
    config->prefix = end ? RECORD_META_CONFIG_END : RECORD_META_CONFIG;
    config->done = done;
    config->phase = run->phases.current;
    config->waiting = 1;
    for (unsigned i = 0; i < n; i++) {
        config->agents[i].config = config;
        config->agents[i].name = i < run->nvms ? run->vms[i].agent : RUN_CLIENT_AGENT;
        ask_agent(&config->agents[i]);
    }
    if (end)
        ask_host(config);
    one_less(config);
}
