/* SPDX-License-Identifier: Apache-2.0 */
#include "hub_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"

static char dir[64];
struct vt_ca *ca, *other_ca;
struct vt_loop loop;
struct hub *hub;
char token[HUB_TOKEN_CHARS + 1], client_token[HUB_TOKEN_CHARS + 1];
struct fake_agent one, two;
struct vt_identity identity, client_identity;

struct seen seen;

static void agent_up(void *ctx, const char *agent)
{
    (void)ctx;
    seen.up++;
    vt_text_copy(seen.agent, sizeof seen.agent, agent);
}

static void agent_lost(void *ctx, const char *agent, const struct vt_error *err)
{
    (void)ctx;
    (void)agent;
    seen.lost++;
    seen.done_when_lost = seen.done;
    vt_text_copy(seen.text, sizeof seen.text, err->text);
}

static void agent_event(void *ctx, const char *agent, const char *kind, const char *text,
                        const json_t *data)
{
    (void)ctx;
    (void)agent;
    assert_true(json_is_object(data));
    seen.events++;
    vt_text_copy(seen.kind, sizeof seen.kind, kind);
    vt_text_copy(seen.text, sizeof seen.text, text);
}

static void sample(void *ctx, const char *agent, int64_t time_ns, const char *series, double value)
{
    (void)ctx;
    (void)agent;
    seen.samples++;
    seen.sample_ns = time_ns;
    seen.value = value;
    vt_text_copy(seen.kind, sizeof seen.kind, series);
}

static void load(void *ctx, const char *agent, unsigned tile, const char *role,
                 const struct vt_load_second *second)
{
    (void)ctx;
    (void)agent;
    seen.loads++;
    assert_int_equal(tile, 1);
    assert_string_equal(role, "web");
    seen.intended += second->intended;
    vt_text_copy(seen.operation, sizeof seen.operation, second->operation);
}

static void log_piece(void *ctx, const char *agent, const char *name, const uint8_t *data,
                      size_t len)
{
    (void)ctx;
    (void)agent;
    seen.logs++;
    snprintf(seen.log, sizeof seen.log, "%s:%.*s", name, (int)len, (const char *)data);
}

static void refused(void *ctx, const char *peer, const struct vt_error *err)
{
    (void)ctx;
    vt_text_copy(seen.peer, sizeof seen.peer, peer);
    seen.refused++;
    vt_text_copy(seen.text, sizeof seen.text, err->text);
}

const struct hub_events hub_rig_events = {agent_up, agent_lost, agent_event, sample,
                                          load,     log_piece,  refused};

void hub_rig_done(void *ctx, const json_t *result, const struct vt_error *err)
{
    assert_ptr_equal(ctx, &seen);
    assert_true((result != NULL) == (err == NULL));
    seen.done++;
    if (err)
        seen.err = *err;
    const char *text = json_string_value(json_object_get(result, "text"));
    vt_text_copy(seen.result, sizeof seen.result, text ? text : "");
}

void hub_rig_closed(void *ctx)
{
    (void)ctx;
    seen.hub_closed++;
}

int hub_rig_setup_all(void **state)
{
    (void)state;
    char other[80];
    vt_text_copy(dir, sizeof dir, "/tmp/vt-test-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(other, sizeof other, "%s/other", dir);
    assert_int_equal(mkdir(other, 0700), 0);
    assert_int_equal(vt_ca_open(dir, &ca, NULL), 0);
    assert_int_equal(vt_ca_open(other, &other_ca, NULL), 0);
    return 0;
}

int hub_rig_teardown_all(void **state)
{
    (void)state;
    char path[96];
    vt_ca_free(ca);
    vt_ca_free(other_ca);
    snprintf(path, sizeof path, "%s/other/ca.pem", dir);
    unlink(path);
    snprintf(path, sizeof path, "%s/other", dir);
    rmdir(path);
    snprintf(path, sizeof path, "%s/ca.pem", dir);
    unlink(path);
    return rmdir(dir);
}

int hub_rig_setup(void **state)
{
    (void)state;
    memset(&seen, 0, sizeof seen);
    assert_int_equal(vt_loop_init(&loop, NULL), 0);
    struct hub_config config = {.loop = &loop,
                                .ca = ca,
                                .address = "127.0.0.1",
                                .run_ns = 60 * VT_NS_PER_S,
                                .heartbeat_ns = 20 * VT_NS_PER_MS,
                                .silence_ns = 5 * VT_NS_PER_S};
    assert_int_equal(hub_new(&config, &hub_rig_events, &seen, &hub, NULL), 0);
    assert_int_equal(hub_make_token(token, NULL), 0);
    assert_int_equal(hub_make_token(client_token, NULL), 0);
    struct hub_expected guest = {"web-1", HUB_GUEST, token, "127.0.0.1", "web"};
    struct hub_expected client = {"client", HUB_CLIENT, client_token, "127.0.0.1", NULL};
    assert_int_equal(hub_expect(hub, &guest, NULL), 0);
    assert_int_equal(hub_expect(hub, &client, NULL), 0);
    return 0;
}

int hub_rig_teardown(void **state)
{
    (void)state;
    hub_close(hub, hub_rig_closed, NULL);
    run_until(&loop, &seen.hub_closed, 1);
    fake_end(&one);
    fake_end(&two);
    vt_identity_dispose(&identity);
    vt_identity_dispose(&client_identity);
    vt_loop_dispose(&loop);
    return 0;
}

void hub_rig_dial(struct fake_agent *agent, const struct vt_identity *id)
{
    fake_dial(agent, &loop, hub_port(hub), vt_ca_cert(ca), id);
    run_until(&loop, &agent->opened, 1);
}

void hub_rig_enrol(const char *name, const char *with_token, struct vt_identity *ret)
{
    struct fake_agent greeter;
    EVP_PKEY *key;
    assert_int_equal(vt_key_make(&key, NULL), 0);
    hub_rig_dial(&greeter, NULL);
    fake_send_enrol(&greeter, name, with_token, key);
    fake_take_cert(&greeter, key, ret);
    fake_end(&greeter);
}

void hub_rig_come_up(void)
{
    hub_rig_enrol("web-1", token, &identity);
    hub_rig_dial(&one, &identity);
    fake_send_hello(&one, "web-1", "guest");
    run_until(&loop, &seen.up, 1);
    run_until(&loop, &one.frames, 1);
    assert_int_equal(one.last_type, WIRE_WELCOME);
}

void hub_rig_client_comes_up(void)
{
    hub_rig_enrol("client", client_token, &client_identity);
    hub_rig_dial(&one, &client_identity);
    fake_send_hello(&one, "client", "client");
    run_until(&loop, &seen.up, 1);
}
