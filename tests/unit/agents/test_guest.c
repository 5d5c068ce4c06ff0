/* SPDX-License-Identifier: Apache-2.0 */
/* A guest's agent in a process of its own, with a small role, under a real hub. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "agents/duty.h"
#include "base/clock.h"
#include "rig.h"
#include "tiles/roles/server.h"

/* --- the role --- */
#define LOG_BYTES 1500000

static int prepare(struct role_guest *guest, struct vt_error *err)
{
    char path[600];
    if (guest->seed == 666)
        return vt_error_set(err, VT_KIND_CONFIG, -EINVAL, "unlucky seed");
    snprintf(path, sizeof path, "%s/contents", guest->data_dir);
    FILE *out = fopen(path, "w");
    if (!out)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "create %s", path);
    fprintf(out, "%llu %u %d", (unsigned long long)guest->seed, guest->vcpus, guest->log_requests);
    fclose(out);
    snprintf(path, sizeof path, "%s/big.log", guest->run_dir);
    out = fopen(path, "w");
    for (int i = 0; out && i < LOG_BYTES; i++)
        fputc('a' + i % 26, out);
    return out && fclose(out) == 0 ? 0 : -EIO;
}

static int start(struct role_guest *guest, struct vt_error *err)
{
    const char *const argv[] = {"sleep", "1000", NULL};
    return server_start(guest, "sleeper", argv, err);
}

static int ready(struct role_guest *guest, struct vt_error *err)
{
    static int looks;
    (void)guest;
    return ++looks < 4 ? vt_error_set(err, VT_KIND_INFRA, -EAGAIN, "look %d", looks) : 0;
}

static int never_ready(struct role_guest *guest, struct vt_error *err)
{
    (void)guest;
    return vt_error_set(err, VT_KIND_INFRA, -EAGAIN, "connection refused");
}

/* Mostly zeros, as a bitmap is, and longer than a log may be in the test. */
#define KEPT_BYTES 150000

static void write_kept(const struct role_guest *guest, const char *name)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", guest->run_dir, name);
    FILE *out = fopen(path, "w");
    for (int i = 0; out && i < KEPT_BYTES; i++)
        fputc(i % 1000 ? 0 : i / 1000, out);
    if (out)
        fclose(out);
}

static int check(struct role_guest *guest, json_t *facts, struct vt_error *err)
{
    (void)err;
    write_kept(guest, "kept.test.1.bits");
    write_kept(guest, "kept.test.1.bits.tmp");
    write_kept(guest, "kept.a b.1.bits");
    json_object_set_new(facts, "pid", json_integer(guest->children[0].pid));
    return 0;
}

static const struct role_log logs[] = {{"big", "big.log"}, {"absent", "absent.log"}, {NULL, NULL}};
static const struct role_guest_ops ops = {
    .prepare = prepare, .start = start, .ready = ready, .check = check, .logs = logs};
static const struct role_guest_ops slow_ops = {
    .prepare = prepare, .start = start, .ready = never_ready, .check = check, .logs = logs};
static const struct role role = {.name = "test", .guest = &ops};
static const struct role slow_role = {.name = "test", .guest = &slow_ops};

static int run_guest(const char *variant, const struct vt_confdisk *conf)
{
    return duty_guest(conf, !strcmp(variant, "slow") ? &slow_role : &role, false, NULL);
}

static struct rig rig;

static int setup(void **state)
{
    (void)state;
    rig_start(&rig, "test-1", "test", HUB_GUEST);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rig_finish(&rig);
    return 0;
}

static void come_up(const char *variant)
{
    rig_run_agent(&rig, variant);
    rig_run_until(&rig, &rig.up, 1);
}

static void expect_ok(void)
{
    if (rig.err.code != 0)
        fail_msg("%s", rig.err.text);
}

static void read_file(const char *name, char *text, size_t size)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", rig.dir, name);
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    text[fread(text, 1, size - 1, in)] = '\0';
    fclose(in);
}

static void test_life_of_a_guest(void **state)
{
    (void)state;
    char text[64] = "";
    come_up("quick");
    assert_int_equal(rig.refused, 0);
    rig_call(&rig, "prepare",
             json_pack("{s:i,s:i,s:i,s:b}", "seed", 7, "data_bytes", 100, "vcpus", 3,
                       "log_requests", 1));
    expect_ok();
    read_file("data_dir/contents", text, sizeof text);
    assert_string_equal(text, "7 3 1");
    rig_call(&rig, "start", NULL);
    expect_ok();
    rig_call(&rig, "ready", json_pack("{s:I}", "timeout_ns", (json_int_t)(20 * VT_NS_PER_S)));
    expect_ok();
    rig_call(&rig, "check", NULL);
    expect_ok();
    pid_t server = (pid_t)json_integer_value(json_object_get(rig.result, "pid"));
    assert_int_equal(kill(server, 0), 0);

    /* Servers end with their agent. */
    rig_end_agent(&rig);
    int64_t until_ns = vt_clock_now_ns() + 10 * VT_NS_PER_S;
    while (kill(server, 0) == 0 && vt_clock_now_ns() < until_ns)
        usleep(1000);
    assert_int_equal(kill(server, 0), -1);
}

static void test_failure_keeps_kind_and_words(void **state)
{
    (void)state;
    come_up("quick");
    rig_call(&rig, "prepare", json_pack("{s:i}", "seed", 666));
    assert_int_equal(rig.err.code, -EINVAL);
    assert_int_equal(rig.err.kind, VT_KIND_CONFIG);
    assert_string_equal(rig.err.text, "prepare of test-1: unlucky seed");
    rig_call(&rig, "prepare", json_pack("{s:i}", "seed", 7)); /* may be called again */
    expect_ok();
    rig_call(&rig, "prepare", json_pack("{s:s}", "seed", "x"));
    assert_int_equal(rig.err.code, -EBADMSG);
    rig_call(&rig, "dance", NULL);
    assert_int_equal(rig.err.code, -ENOSYS);
    rig_end_agent(&rig);
}

static void test_not_ready_says_what_it_last_saw(void **state)
{
    (void)state;
    come_up("slow");
    rig_call(&rig, "ready", json_pack("{s:I}", "timeout_ns", (json_int_t)(200 * VT_NS_PER_MS)));
    assert_int_equal(rig.err.code, -EAGAIN);
    assert_non_null(strstr(rig.err.text, "connection refused"));
    rig_end_agent(&rig);
}

static void not_answered(void *ctx, const json_t *result, const struct vt_error *err)
{
    (void)ctx;
    assert_null(result);
    assert_int_equal(err->code, -ECONNRESET);
}

/* A call that blocks holds up neither heartbeat nor the end. */
static void test_end_does_not_wait_for_a_long_call(void **state)
{
    (void)state;
    come_up("slow");
    json_t *params = json_pack("{s:I}", "timeout_ns", (json_int_t)(3000 * VT_NS_PER_S));
    assert_int_equal(
        hub_call(rig.hub, "test-1", "ready", params, 3000 * VT_NS_PER_S, not_answered, &rig, NULL),
        0);
    json_decref(params);
    rig_call(&rig, "config", NULL); /* answered meanwhile */
    expect_ok();
    rig_end_agent(&rig);
    rig_run_until(&rig, &rig.lost, 1);
}

static void test_a_server_that_dies_is_told(void **state)
{
    (void)state;
    come_up("quick");
    rig_call(&rig, "start", NULL);
    expect_ok();
    rig_call(&rig, "check", NULL);
    pid_t server = (pid_t)json_integer_value(json_object_get(rig.result, "pid"));
    assert_int_equal(kill(server, SIGKILL), 0);
    rig_run_until(&rig, &rig.events, 1);
    assert_string_equal(rig.kind, "server_died");
    assert_non_null(strstr(rig.text, "sleeper"));
    assert_non_null(strstr(rig.text, "signal 9"));
    /* Started again, watched again. */
    rig_call(&rig, "start", NULL);
    expect_ok();
    rig_call(&rig, "check", NULL);
    pid_t again = (pid_t)json_integer_value(json_object_get(rig.result, "pid"));
    assert_int_not_equal(again, server);
    assert_int_equal(kill(again, SIGTERM), 0);
    rig_run_until(&rig, &rig.events, 2);
    rig_end_agent(&rig);
}

static void test_logs_arrive_whole_and_bounded(void **state)
{
    (void)state;
    come_up("quick");
    rig_call(&rig, "prepare", json_pack("{s:i}", "seed", 7));
    rig_call(&rig, "logs", NULL);
    expect_ok();
    assert_string_equal(rig.log_name, "big");
    assert_int_equal(rig.log.len, LOG_BYTES);
    for (size_t i = 0; i < rig.log.len; i++)
        if (rig.log.data[i] != (char)('a' + i % 26))
            fail_msg("byte %zu differs", i);
    vt_buf_reset(&rig.log);
    rig_call(&rig, "logs", json_pack("{s:i}", "max_bytes", 100000));
    expect_ok();
    assert_int_equal(rig.log.len, 100000);
    json_t *told = json_object_get(rig.result, "logs"), *entry = NULL;
    for (size_t i = 0; i < json_array_size(told); i++)
        if (!strcmp(json_string_value(json_object_get(json_array_get(told, i), "name")), "big"))
            entry = json_array_get(told, i);
    assert_int_equal(json_integer_value(json_object_get(entry, "bytes")), 100000);
    assert_true(json_is_true(json_object_get(entry, "cut")));
    rig_end_agent(&rig);
}

/* What check has left goes along, whole, zeros too. */
static void test_kept_bits_arrive_whole(void **state)
{
    (void)state;
    come_up("quick");
    rig_call(&rig, "prepare", json_pack("{s:i}", "seed", 7));
    rig_call(&rig, "start", NULL);
    rig_call(&rig, "check", NULL);
    expect_ok();
    rig_call(&rig, "logs", json_pack("{s:i}", "max_bytes", 1000));
    expect_ok();
    assert_string_equal(rig.log_name, "kept.test.1.bits");
    assert_int_equal(rig.log.len, 1000 + KEPT_BYTES);
    for (int i = 0; i < KEPT_BYTES; i++)
        if ((unsigned char)rig.log.data[1000 + i] != (i % 1000 ? 0 : i / 1000))
            fail_msg("byte %d differs", i);
    rig_end_agent(&rig);
}

static void test_samples_and_facts(void **state)
{
    (void)state;
    come_up("quick");
    rig_call(&rig, "prepare", NULL);
    expect_ok();
    rig_call(&rig, "ready", NULL);
    expect_ok();
    assert_int_equal(rig.samples, 0); /* nobody asked yet */
    rig_call(&rig, "sample", NULL);
    expect_ok();
    rig_call(&rig, "sample", NULL); /* does no harm */
    expect_ok();
    rig_run_until(&rig, &rig.samples, 1);
    while (!json_object_get(rig.seen_series, "cpu.idle"))
        rig_run_until(&rig, &rig.samples, rig.samples + 1);
    double idle = json_number_value(json_object_get(rig.seen_series, "cpu.idle"));
    double memory = json_number_value(json_object_get(rig.seen_series, "mem.available_bytes"));
    double cpus = (double)sysconf(_SC_NPROCESSORS_ONLN);
    assert_true(idle >= 0 && idle <= cpus * 1.1);
    assert_true(memory > 0 &&
                memory <= (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE));
    assert_true(json_number_value(json_object_get(rig.seen_series, "agent.cpu")) < 0.5);
    rig_call(&rig, "config", NULL);
    expect_ok();
    assert_non_null(json_string_value(json_object_get(rig.result, "kernel")));
    rig_end_agent(&rig);
}

/* The certificate stays on the guest's disk: an agent that is started anew needs no token. */
static void test_restarted_agent_comes_back(void **state)
{
    (void)state;
    come_up("quick");
    kill(rig.agent, SIGKILL);
    waitpid(rig.agent, NULL, 0);
    rig_run_until(&rig, &rig.lost, 1);
    rig_run_agent(&rig, "quick");
    rig_run_until(&rig, &rig.up, 2);
    assert_int_equal(rig.refused, 0);
    rig_end_agent(&rig);
}

/* Two agents with one configuration: the second finds the token used. */
static void test_second_agent_with_the_same_token_is_refused(void **state)
{
    (void)state;
    char cert[128];
    come_up("quick");
    pid_t first = rig.agent;
    snprintf(cert, sizeof cert, "%s/run_dir/cert.pem", rig.dir);
    assert_int_equal(unlink(cert), 0);
    snprintf(cert, sizeof cert, "%s/run_dir/key.pem", rig.dir);
    assert_int_equal(unlink(cert), 0);
    rig_run_agent(&rig, "quick");
    rig_run_until(&rig, &rig.refused, 1);
    assert_non_null(strstr(rig.text, "has been used"));
    assert_int_equal(rig.up, 1);
    assert_int_equal(rig.lost, 0);
    rig_end_agent(&rig);
    rig.agent = first;
    rig_end_agent(&rig);
}

static void test_lost_connection_is_made_anew(void **state)
{
    (void)state;
    come_up("quick");
    kill(rig.agent, SIGSTOP);
    assert_int_equal(hub_rearm(rig.hub, "test-1", NULL), 0); /* cuts it */
    rig_run_until(&rig, &rig.lost, 1);
    kill(rig.agent, SIGCONT);
    /* Its certificate is good no more, and it keeps to it: refused, again and again, with pauses.
     */
    rig_run_until(&rig, &rig.refused, 2);
    assert_non_null(strstr(rig.text, "not the one"));
    rig_end_agent(&rig);
}

static void test_power_off_only_in_a_guest(void **state)
{
    (void)state;
    come_up("quick");
    rig_call(&rig, "poweroff", NULL);
    assert_int_equal(rig.err.code, -EPERM);
    rig_end_agent(&rig);
}

/* No controller at all: it brings its role up with a certificate signed by itself. */
static void test_unattended(void **state)
{
    (void)state;
    char path[128];
    struct stat st;
    rig.conf.unattended = true;
    rig.conf.controller[0] = '\0';
    rig.conf.token[0] = '\0';
    rig.conf.ca[0] = '\0';
    struct vt_confdisk_param *seed = &rig.conf.params[rig.conf.n_params++];
    vt_text_copy(seed->name, sizeof seed->name, "seed");
    vt_text_copy(seed->value, sizeof seed->value, "11");
    rig_run_agent(&rig, "quick");
    snprintf(path, sizeof path, "%s/data_dir/contents", rig.dir);
    int64_t until_ns = vt_clock_now_ns() + 20 * VT_NS_PER_S;
    while (stat(path, &st) < 0 && vt_clock_now_ns() < until_ns)
        usleep(1000);
    assert_int_equal(stat(path, &st), 0);
    struct vt_identity id = VT_IDENTITY_INIT;
    char cert[128], key[128];
    snprintf(cert, sizeof cert, "%s/run_dir/cert.pem", rig.dir);
    snprintf(key, sizeof key, "%s/run_dir/key.pem", rig.dir);
    assert_int_equal(vt_identity_load(cert, key, &id, NULL), 0);
    assert_true(vt_cert_has_name(id.cert, "test-1"));
    vt_identity_dispose(&id);
    rig_end_agent(&rig);
}

#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(int argc, char **argv)
{
    if (argc == 4)
        return rig_agent_main(argv, run_guest);
    const struct CMUnitTest tests[] = {
        T(test_life_of_a_guest),
        T(test_failure_keeps_kind_and_words),
        T(test_not_ready_says_what_it_last_saw),
        T(test_end_does_not_wait_for_a_long_call),
        T(test_a_server_that_dies_is_told),
        T(test_logs_arrive_whole_and_bounded),
        T(test_kept_bits_arrive_whole),
        T(test_samples_and_facts),
        T(test_restarted_agent_comes_back),
        T(test_second_agent_with_the_same_token_is_refused),
        T(test_lost_connection_is_made_anew),
        T(test_power_off_only_in_a_guest),
        T(test_unattended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
