/* SPDX-License-Identifier: Apache-2.0 */
/* A host's worker against libvirt's own test driver, which keeps its domains in memory. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/host/calls.h"
#include "orchestrator/host/host.h"
#include "orchestrator/host/vir_loop.h"

#define URI "test:///default"

/* What the callbacks saw, in order. */
struct answer {
    int code;
    char text[256];
    size_t ndomains, nstats;
    struct host_domain domain;
    struct host_info info;
    pthread_t thread;
    int order;
};
struct fixture {
    char stopped[32][37]; /* UUIDs, in order */
    int nstopped;
    struct vt_loop loop;
    struct host *host;
    struct answer answers[64];
    int n;
    bool closed;
};

/* A call of libvirt that hangs until it is let go. */
static struct {
    _Atomic(const char *) call;
    atomic_bool hanging, release;
} stuck;
static atomic_int points;

static void hook(const char *call, bool before)
{
    const char *hang = atomic_load(&stuck.call);

    atomic_fetch_add(&points, 1);
    if (!before || !hang || strcmp(call, hang) != 0)
        return;
    atomic_store(&stuck.hanging, true);
    while (!atomic_load(&stuck.release))
        usleep(1000);
    atomic_store(&stuck.hanging, false);
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    stuck.call = NULL;
    stuck.release = stuck.hanging = false;
    assert_int_equal(vt_loop_init(&f->loop, NULL), 0);
    assert_int_equal(vir_loop_init(&f->loop, NULL), 0);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    vir_loop_dispose();
    vt_loop_dispose(&f->loop);
    free(f);
    return 0;
}

static void on_done(struct host *host, void *ctx, const struct host_reply *reply)
{
    struct fixture *f = ctx;
    struct answer *answer = &f->answers[f->n];

    (void)host;
    assert_true(f->n < (int)VT_COUNT(f->answers));
    answer->order = f->n++;
    answer->code = reply->code;
    vt_text_copy(answer->text, sizeof(answer->text), reply->err.text);
    answer->ndomains = reply->ndomains;
    answer->nstats = reply->nstats;
    if (reply->ndomains)
        answer->domain = reply->domains[0];
    if (reply->info)
        answer->info = *reply->info;
    answer->thread = pthread_self();
}

static void on_closed(void *ctx)
{
    ((struct fixture *)ctx)->closed = true;
}

static void run_until(struct fixture *f, int answers)
{
    while (f->n < answers)
        if (!uv_run(&f->loop.uv, UV_RUN_ONCE))
            break;
    assert_int_equal(f->n, answers);
}

static void on_stopped(void *ctx, const char *uuid)
{
    struct fixture *f = ctx;

    assert_true(f->nstopped < (int)VT_COUNT(f->stopped));
    vt_text_copy(f->stopped[f->nstopped++], sizeof(f->stopped[0]), uuid);
}

static void open_host(struct fixture *f, int64_t deadline_ns)
{
    struct host_settings settings = {
        .uri = URI, .deadline_ns = deadline_ns, .stopped = on_stopped, .ctx = f};

    assert_int_equal(host_open(&f->loop, &settings, on_done, f, &f->host, NULL), 0);
    assert_int_equal(host_state(f->host), HOST_OPENING);
    run_until(f, 1);
    assert_int_equal(f->answers[0].code, 0);
    assert_int_equal(host_state(f->host), HOST_OPEN);
    f->n = 0;
}

static void close_host(struct fixture *f)
{
    host_close(f->host, on_closed, f);
    while (!f->closed)
        assert_true(uv_run(&f->loop.uv, UV_RUN_ONCE) || f->closed);
}

static char *domain_xml(unsigned tile, const char *run)
{
    struct vt_domain d = {.tile = tile,
                          .vcpus = 1,
                          .memory_bytes = 128 << 20,
                          .accel = VT_ACCEL_TEST,
                          .controller = "c0ffee",
                          .role = "web"};
    char *xml = NULL;

    snprintf(d.name, sizeof(d.name), "vt-1a2b3c-%03u-web", tile);
    vt_text_copy(d.run, sizeof(d.run), run);
    assert_int_equal(xml_write_domain(&d, NULL, &xml, NULL), 0);
    return xml;
}

static void start_domain(struct fixture *f, unsigned tile)
{
    VT_AUTO_FREE char *xml = domain_xml(tile, "1a2b3c4d5e6f");

    f->n = 0;
    assert_int_equal(host_define_start(f->host, xml, on_done, f, NULL), 0);
    run_until(f, 1);
    assert_string_equal(f->answers[0].text, "");
    assert_int_equal(f->answers[0].code, 0);
    f->n = 0;
}

static void host_tells_who_it_is(void **state)
{
    struct fixture *f = *state;
    struct host_settings settings = {.uri = URI};

    assert_int_equal(host_open(&f->loop, &settings, on_done, f, &f->host, NULL), 0);
    run_until(f, 1);
    assert_int_equal(f->answers[0].code, 0);
    assert_string_equal(f->answers[0].info.driver, "TEST");
    assert_int_equal(f->answers[0].info.accel, VT_ACCEL_TEST);
    /* the test driver's fixed node: 16 CPUs, 3 GiB */
    assert_int_equal(f->answers[0].info.cpus, 16);
    assert_int_equal(f->answers[0].info.memory_bytes, 3ULL << 30);
    assert_true(pthread_equal(f->answers[0].thread, pthread_self()));
    assert_true(atomic_load(&points) > 0 && atomic_load(&points) % 2 == 0);
    close_host(f);
}

/* More at once than there are threads for it; one is not there, which is success, too. */
static void domains_go_side_by_side_and_each_end_is_told(void **state)
{
    enum { N = 2 * HOST_DESTROY_AT_ONCE + 1 };
    struct fixture *f = *state;
    char uuids[N + 1][37];

    open_host(f, 0);
    for (unsigned i = 0; i < N; i++) {
        VT_AUTO_FREE char *xml = domain_xml(i + 1, "1a2b3c4d5e6f");

        f->n = 0;
        assert_int_equal(host_define_start(f->host, xml, on_done, f, NULL), 0);
        run_until(f, 1);
        vt_text_copy(uuids[i], sizeof(uuids[i]), f->answers[0].domain.uuid);
    }
    vt_text_copy(uuids[N], sizeof(uuids[N]), "6b7f4c1e-9a52-4d0e-8f3b-000000000001");
    assert_int_equal(f->nstopped, 0);
    f->n = 0;
    assert_int_equal(host_destroy_all(f->host, (const char(*)[37])uuids, N + 1, on_done, f, NULL),
                     0);
    assert_int_equal(host_list_ours(f->host, NULL, on_done, f, NULL), 0);
    run_until(f, 2);
    assert_int_equal(f->answers[0].code, 0);
    assert_int_equal(f->answers[1].ndomains, 0);
    while (f->nstopped < N)
        assert_true(uv_run(&f->loop.uv, UV_RUN_ONCE) || f->nstopped == N);
    for (int i = 0; i < N; i++) {
        int told = 0;

        for (int j = 0; j < N; j++)
            told += !strcmp(uuids[i], f->stopped[j]);
        assert_int_equal(told, 1);
    }
    close_host(f);
}

static void unknown_host_fails_once_and_closes(void **state)
{
    struct fixture *f = *state;
    struct host_settings settings = {.uri = "test:///no/such/file.xml"};
    struct vt_error err = VT_ERROR_INIT;

    assert_int_equal(host_open(&f->loop, &settings, on_done, f, &f->host, NULL), 0);
    /* queued while it opens: answered, not forgotten */
    assert_int_equal(host_list_ours(f->host, NULL, on_done, f, NULL), 0);
    run_until(f, 2);
    assert_true(f->answers[0].code < 0);
    assert_non_null(strstr(f->answers[0].text, "test:///no/such/file.xml"));
    assert_int_equal(f->answers[1].code, -EHOSTDOWN);
    assert_int_equal(host_state(f->host), HOST_FAILED);
    assert_int_equal(host_list_ours(f->host, NULL, on_done, f, &err), -EHOSTDOWN);
    close_host(f);
}

static void domain_starts_is_listed_and_goes(void **state)
{
    struct fixture *f = *state;
    struct xml_mark other = {.run = "ffffffffffff", .controller = "c0ffee"};
    struct xml_mark mine = {.run = "1a2b3c4d5e6f", .controller = "c0ffee"};

    open_host(f, 0);
    start_domain(f, 1);
    start_domain(f, 2);
    /* The driver has a domain of its own, "test", which is not ours. */
    assert_int_equal(host_list_ours(f->host, NULL, on_done, f, NULL), 0);
    assert_int_equal(host_list_ours(f->host, "c0ffee", on_done, f, NULL), 0);
    assert_int_equal(host_list_ours(f->host, "another", on_done, f, NULL), 0);
    run_until(f, 3);
    assert_int_equal(f->answers[0].ndomains, 2);
    assert_int_equal(f->answers[1].ndomains, 2);
    assert_int_equal(f->answers[2].ndomains, 0);
    assert_string_equal(f->answers[0].domain.mark.run, "1a2b3c4d5e6f");
    assert_true(f->answers[0].domain.active);
    assert_false(f->answers[0].domain.persistent);

    f->n = 0;
    assert_int_equal(host_destroy(f->host, "vt-1a2b3c-001-web", &other, on_done, f, NULL), 0);
    assert_int_equal(host_destroy(f->host, "test", &mine, on_done, f, NULL), 0);
    assert_int_equal(host_destroy(f->host, "vt-1a2b3c-001-web", &mine, on_done, f, NULL), 0);
    assert_int_equal(host_destroy(f->host, f->answers[0].domain.uuid, NULL, on_done, f, NULL), 0);
    assert_int_equal(host_destroy(f->host, "vt-1a2b3c-001-web", &mine, on_done, f, NULL), 0);
    assert_int_equal(host_destroy(f->host, "vt-1a2b3c-002-web", &mine, on_done, f, NULL), 0);
    assert_int_equal(host_list_ours(f->host, NULL, on_done, f, NULL), 0);
    run_until(f, 7);
    assert_int_equal(f->answers[0].code, -EPERM);
    assert_int_equal(f->answers[1].code, -EPERM);
    for (int i = 2; i < 7; i++)
        assert_int_equal(f->answers[i].code, 0);
    assert_int_equal(f->answers[6].ndomains, 0);
    close_host(f);
}

static void wrong_definition_is_refused(void **state)
{
    struct fixture *f = *state;
    VT_AUTO_FREE char *xml = domain_xml(1, "1a2b3c4d5e6f");

    open_host(f, 0);
    start_domain(f, 1);
    assert_int_equal(host_define_start(f->host, xml, on_done, f, NULL), 0);
    assert_int_equal(host_define_start(f->host, "<domain type='test'/>", on_done, f, NULL), 0);
    assert_int_equal(host_define_start(f->host, "no XML", on_done, f, NULL), 0);
    run_until(f, 3);
    assert_true(f->answers[0].code < 0);
    assert_non_null(strstr(f->answers[0].text, "start domain vt-1a2b3c-001-web: "));
    assert_true(f->answers[1].code < 0);
    assert_true(f->answers[2].code < 0);
    close_host(f);
}

static void statistics_are_of_our_domains_only(void **state)
{
    struct fixture *f = *state;

    open_host(f, 0);
    assert_int_equal(host_stats(f->host, 0, on_done, f, NULL), 0);
    run_until(f, 1);
    assert_int_equal(f->answers[0].code, 0);
    assert_int_equal(f->answers[0].nstats, 0);
    start_domain(f, 1);
    assert_int_equal(host_stats(f->host, VIR_DOMAIN_STATS_STATE, on_done, f, NULL), 0);
    run_until(f, 1);
    assert_int_equal(f->answers[0].code, 0);
    assert_true(f->answers[0].nstats >= 1);
    close_host(f);
}

static void on_counted(struct host *host, void *ctx, const struct host_reply *reply)
{
    (void)host;
    assert_int_equal(reply->code, 0);
    ++*(int *)ctx;
}

static void queue_is_bounded(void **state)
{
    struct fixture *f = *state;
    struct vt_error err = VT_ERROR_INIT;
    int accepted = 0, answers = 0;

    open_host(f, 0);
    stuck.call = "virConnectListAllDomains";
    assert_int_equal(host_list_ours(f->host, NULL, on_done, f, NULL), 0);
    while (!atomic_load(&stuck.hanging))
        usleep(1000);
    while (accepted < 2 * HOST_QUEUE_MAX &&
           host_destroy(f->host, "none", NULL, on_counted, &answers, &err) == 0)
        accepted++;
    assert_int_equal(accepted, HOST_QUEUE_MAX);
    assert_int_equal(err.code, -EBUSY);
    atomic_store(&stuck.call, NULL);
    atomic_store(&stuck.release, true);
    while (answers < HOST_QUEUE_MAX)
        assert_true(uv_run(&f->loop.uv, UV_RUN_ONCE) || answers == HOST_QUEUE_MAX);
    assert_int_equal(f->n, 1); /* the listing came first */
    close_host(f);
}

static void closing_cancels_what_waits(void **state)
{
    struct fixture *f = *state;

    open_host(f, 0);
    stuck.call = "virConnectListAllDomains";
    assert_int_equal(host_list_ours(f->host, NULL, on_done, f, NULL), 0);
    while (!atomic_load(&stuck.hanging))
        usleep(1000);
    assert_int_equal(host_list_ours(f->host, NULL, on_done, f, NULL), 0);
    assert_int_equal(host_list_ours(f->host, NULL, on_done, f, NULL), 0);
    host_close(f->host, on_closed, f);
    assert_int_equal(host_list_ours(f->host, NULL, on_done, f, NULL), -ESHUTDOWN);
    run_until(f, 2);
    assert_int_equal(f->answers[0].code, -ECANCELED);
    assert_int_equal(f->answers[1].code, -ECANCELED);
    assert_false(f->closed);
    atomic_store(&stuck.release, true);
    while (!f->closed)
        uv_run(&f->loop.uv, UV_RUN_ONCE);
    assert_int_equal(f->n, 3);
    assert_int_equal(f->answers[2].code, 0);
}

static void missed_deadline_loses_the_host(void **state)
{
    struct fixture *f = *state;
    struct vt_error err = VT_ERROR_INIT;

    open_host(f, 100 * VT_NS_PER_MS);
    stuck.call = "virConnectListAllDomains";
    assert_int_equal(host_list_ours(f->host, NULL, on_done, f, NULL), 0);
    assert_int_equal(host_destroy(f->host, "none", NULL, on_done, f, NULL), 0);
    run_until(f, 2);
    assert_int_equal(f->answers[0].code, -ETIMEDOUT);
    assert_non_null(strstr(f->answers[0].text, URI " is lost: listing domains had no answer"));
    assert_non_null(strstr(f->answers[0].text, "in virConnectListAllDomains"));
    assert_int_equal(f->answers[1].code, -EHOSTDOWN);
    assert_int_equal(host_state(f->host), HOST_LOST);
    assert_int_equal(host_list_ours(f->host, NULL, on_done, f, &err), -EHOSTDOWN);
    close_host(f); /* does not wait for the stuck thread */
    assert_true(atomic_load(&stuck.hanging));
    /* The thread comes back late and frees what it held: the sanitizer looks. */
    atomic_store(&stuck.release, true);
    while (atomic_load(&stuck.hanging))
        usleep(1000);
    assert_int_equal(f->n, 2);
}

static void on_done_close(struct host *host, void *ctx, const struct host_reply *reply)
{
    on_done(host, ctx, reply);
    host_close(host, on_closed, ctx);
}

static void callback_may_close_its_host(void **state)
{
    struct fixture *f = *state;
    struct host_settings settings = {.uri = URI};

    assert_int_equal(host_open(&f->loop, &settings, on_done_close, f, &f->host, NULL), 0);
    while (!f->closed)
        uv_run(&f->loop.uv, UV_RUN_ONCE);
    assert_int_equal(f->n, 1);
}

static void idle_host_does_not_hold_the_loop(void **state)
{
    struct fixture *f = *state;

    open_host(f, 0);
    uv_run(&f->loop.uv, UV_RUN_DEFAULT); /* returns */
    close_host(f);
}

static void uri_is_chosen(void **state)
{
    struct vt_error err = VT_ERROR_INIT;
    char uri[128], path[64] = "/tmp/vt-test-XXXXXX";

    (void)state;
    assert_int_equal(host_choose_uri("embed", "/x/embed", uri, sizeof(uri), NULL), 0);
    assert_string_equal(uri, "qemu:///embed?root=/x/embed");
    assert_int_equal(host_choose_uri("qemu:///embed", "/x", uri, sizeof(uri), NULL), 0);
    assert_string_equal(uri, "qemu:///embed?root=/x");
    assert_int_equal(host_choose_uri("qemu:///embed?root=/x", "/x", uri, sizeof(uri), NULL), 0);
    assert_string_equal(uri, "qemu:///embed?root=/x");
    /* Lock, journals and clean would look elsewhere. */
    assert_int_equal(host_choose_uri("qemu:///embed?root=/y", "/x", uri, sizeof(uri), &err),
                     -EINVAL);
    assert_int_equal(host_choose_uri("qemu:///embed?x=/x", "/x", uri, sizeof(uri), &err), -EINVAL);
    assert_int_equal(host_choose_uri(URI, "/x", uri, sizeof(uri), NULL), 0);
    assert_string_equal(uri, URI);
    assert_int_equal(host_choose_uri("somewhere", "/x", uri, sizeof(uri), &err), -EINVAL);
    assert_int_equal(vt_error_exit_code(&err), 2);
    assert_int_equal(host_choose_uri("embed", "/x", uri, 10, &err), -ENAMETOOLONG);
    assert_true(host_uri_is_embed("qemu:///embed"));
    assert_true(host_uri_is_embed("qemu:///embed?root=/a"));
    assert_false(host_uri_is_embed("qemu:///embedded"));
    assert_false(host_uri_is_embed("qemu:///system"));
    assert_true(host_uri_is_system("qemu:///system"));
    assert_true(host_uri_is_system("qemu+unix:///system?socket=/x"));
    assert_false(host_uri_is_system("qemu:///session"));
    assert_false(host_uri_is_system("qemu+ssh://far/system"));
    assert_false(host_uri_is_system("qemu:///embed?root=/a"));
    assert_false(host_uri_is_system("test:///default"));

    /* A socket that somebody listens on answers; its file alone does not. */
    assert_non_null(mkdtemp(path));
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/sock", path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_false(host_daemon_answers(address.sun_path));
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_false(host_daemon_answers(address.sun_path));
    assert_int_equal(listen(fd, 1), 0);
    assert_true(host_daemon_answers(address.sun_path));
    close(fd);
    assert_false(host_daemon_answers(address.sun_path));
    unlink(address.sun_path);
    rmdir(path);
}

static void capabilities_are_read(void **state)
{
    struct host_info info = {.emulator = "old"};

    (void)state;
    assert_int_equal(
        calls_parse_capabilities(
            "<capabilities><guest><os_type>hvm</os_type><arch name='i686'>"
            "<emulator>/usr/bin/qemu-system-i386</emulator><domain type='kvm'/></arch></guest>"
            "<guest><os_type>hvm</os_type><arch name='x86_64'><wordsize>64</wordsize>"
            "<emulator>/usr/bin/qemu-system-x86_64</emulator><domain type='qemu'/></arch></guest>"
            "</capabilities>",
            &info, NULL),
        0);
    assert_string_equal(info.emulator, "/usr/bin/qemu-system-x86_64");
    assert_false(info.kvm_listed);
    assert_int_equal(calls_parse_capabilities("<capabilities><guest><arch name='x86_64'>"
                                              "<domain type='qemu'/><domain type='kvm'/>"
                                              "</arch></guest></capabilities>",
                                              &info, NULL),
                     0);
    assert_string_equal(info.emulator, "");
    assert_true(info.kvm_listed);
    assert_false(info.user_known);
    /* As a daemon of Debian tells it. */
    assert_int_equal(
        calls_parse_capabilities(
            "<capabilities><host><secmodel><model>apparmor</model><doi>0</doi></secmodel>"
            "<secmodel><model>dac</model><doi>0</doi><baselabel type='kvm'>+64055:+108</baselabel>"
            "<baselabel type='qemu'>+64055:+108</baselabel></secmodel></host></capabilities>",
            &info, NULL),
        0);
    assert_true(info.user_known);
    assert_int_equal(info.user, 64055);
    assert_int_equal(info.group, 108);
    assert_int_equal(calls_parse_capabilities(
                         "<capabilities><host><secmodel><model>dac</model><baselabel>qemu:qemu"
                         "</baselabel></secmodel></host></capabilities>",
                         &info, NULL),
                     0);
    assert_false(info.user_known);
    assert_int_equal(calls_parse_capabilities("<capab", &info, NULL), -EBADMSG);
}

static void device_that_is_no_kvm_does_not_run(void **state)
{
    char why[128];

    (void)state;
    assert_false(host_kvm_runs("/dev/null", why, sizeof(why)));
    assert_non_null(strstr(why, "no KVM device"));
    assert_false(host_kvm_runs("/no/such/device", why, sizeof(why)));
    assert_non_null(strstr(why, "No such file"));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(host_tells_who_it_is),
        T(unknown_host_fails_once_and_closes),
        T(domains_go_side_by_side_and_each_end_is_told),
        T(domain_starts_is_listed_and_goes),
        T(wrong_definition_is_refused),
        T(statistics_are_of_our_domains_only),
        T(queue_is_bounded),
        T(closing_cancels_what_waits),
        T(missed_deadline_loses_the_host),
        T(callback_may_close_its_host),
        T(idle_host_does_not_hold_the_loop),
        cmocka_unit_test(uri_is_chosen),
        cmocka_unit_test(capabilities_are_read),
        cmocka_unit_test(device_that_is_no_kvm_does_not_run),
    };
    host_call_hook = hook;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
