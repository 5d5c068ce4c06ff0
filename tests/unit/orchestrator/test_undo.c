/* SPDX-License-Identifier: Apache-2.0 */
/* What each kind of entry needs to be taken back, and that nothing else goes with it. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/host/host.h"
#include "orchestrator/host/undo.h"
#include "orchestrator/host/vir_loop.h"

struct fixture {
    char folder[64];
    struct vt_loop loop;
    struct vt_journal *journal;
    bool done;
    size_t left;
    struct vt_error err;
    char seen[16][64]; /* objects taken back, in order */
    size_t nseen;
    struct host *host;
};

static const char *below(struct fixture *f, const char *name)
{
    static char path[8][128];
    static unsigned turn;
    char *at = path[turn++ % 8];

    snprintf(at, sizeof(path[0]), "%s/%s", f->folder, name);
    return at;
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    vt_text_copy(f->folder, sizeof(f->folder), "/tmp/vt-undo-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    assert_int_equal(vt_loop_init(&f->loop, NULL), 0);
    assert_int_equal(vt_journal_open(below(f, "j"), &f->journal, NULL), 0);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    struct vt_journal_entry all = {
        .kind = UNDO_TREE, .object = f->folder, .original = "", .value = ""};
    struct undo_context context = {0};

    vt_journal_close(f->journal);
    vt_loop_dispose(&f->loop);
    assert_int_equal(undo_entry(&context, &all, NULL), 0);
    assert_int_equal(access(f->folder, F_OK), -1);
    free(f);
    return 0;
}

static void make_file(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);

    assert_true(fd >= 0);
    close(fd);
}

static uint64_t intend(struct fixture *f, const char *kind, const char *object, const char *value)
{
    uint64_t id;

    assert_int_equal(vt_journal_intent(f->journal, kind, object, "", value, &id, NULL), 0);
    assert_int_equal(vt_journal_sync(f->journal, NULL), 0);
    return id;
}

static void on_undone(void *ctx, const struct vt_journal_entry *entry)
{
    struct fixture *f = ctx;

    snprintf(f->seen[f->nseen++], sizeof(f->seen[0]), "%s", entry->object);
}

static void on_done(void *ctx, size_t left, const struct vt_error *err)
{
    struct fixture *f = ctx;

    assert_false(f->done);
    f->done = true;
    f->left = left;
    if (err)
        f->err = *err;
}

static struct host *host_of(void *ctx, const char *uri, struct vt_error *err)
{
    struct fixture *f = ctx;

    if (f->host && !strcmp(uri, "test:///default"))
        return f->host;
    vt_error_set(err, VT_KIND_INFRA, -ENOTCONN, "no way to %s", uri);
    return NULL;
}

static void undo_all(struct fixture *f, uint64_t from_id)
{
    struct undo_context context = {.host = host_of, .ctx = f, .undone = on_undone};

    f->done = false;
    assert_int_equal(undo_start(&f->loop, f->journal, from_id, &context, on_done, f, NULL), 0);
    assert_false(f->done); /* never from inside */
    while (!f->done)
        assert_true(uv_run(&f->loop.uv, UV_RUN_ONCE) || f->done);
}

static void last_made_goes_first_and_is_marked(void **state)
{
    struct fixture *f = *state;

    intend(f, UNDO_FILE, below(f, "a"), "");
    make_file(below(f, "a"));
    uint64_t second = intend(f, UNDO_FOLDER, below(f, "d"), "");
    assert_int_equal(mkdir(below(f, "d"), 0700), 0);
    intend(f, UNDO_FILE, below(f, "d/b"), "");
    make_file(below(f, "d/b"));
    intend(f, UNDO_FILE, below(f, "never-made"), "");

    undo_all(f, second); /* from the second on: what one phase made */
    assert_int_equal(f->left, 0);
    assert_int_equal(f->nseen, 3);
    assert_string_equal(f->seen[0], below(f, "never-made"));
    assert_string_equal(f->seen[1], below(f, "d/b"));
    assert_string_equal(f->seen[2], below(f, "d"));
    assert_int_equal(access(below(f, "a"), F_OK), 0);
    assert_false(vt_journal_all_undone(f->journal));

    undo_all(f, 0);
    assert_int_equal(f->nseen, 4);
    assert_int_equal(access(below(f, "a"), F_OK), -1);
    assert_true(vt_journal_all_undone(f->journal));
    undo_all(f, 0); /* again: nothing to do */
    assert_int_equal(f->nseen, 4);
    assert_int_equal(f->left, 0);
}

static void failure_is_told_and_the_rest_goes_on(void **state)
{
    struct fixture *f = *state;

    intend(f, UNDO_FILE, below(f, "a"), "");
    make_file(below(f, "a"));
    intend(f, UNDO_FILE, below(f, "folder"), ""); /* a folder where a file is meant */
    assert_int_equal(mkdir(below(f, "folder"), 0700), 0);
    intend(f, "no-such-kind", "x", "");
    undo_all(f, 0);
    assert_int_equal(f->left, 2);
    assert_non_null(strstr(f->err.text, "no-such-kind"));
    assert_int_equal(access(below(f, "a"), F_OK), -1);
    assert_int_equal(access(below(f, "folder"), F_OK), 0);
    assert_false(vt_journal_all_undone(f->journal));
}

static int undo_one(const char *kind, const char *object, const char *original, const char *value)
{
    struct undo_context context = {0};
    struct vt_journal_entry entry = {
        .id = 1, .kind = kind, .object = object, .original = original, .value = value};

    return undo_entry(&context, &entry, NULL);
}

static void folder_in_use_stays(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(mkdir(below(f, "d"), 0700), 0);
    make_file(below(f, "d/others"));
    assert_int_equal(undo_one(UNDO_FOLDER, below(f, "d"), "", ""), 0);
    assert_int_equal(access(below(f, "d/others"), F_OK), 0);
}

static void tree_goes_but_links_are_not_followed(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(mkdir(below(f, "keep"), 0700), 0);
    make_file(below(f, "keep/mine"));
    assert_int_equal(mkdir(below(f, "t"), 0700), 0);
    assert_int_equal(mkdir(below(f, "t/u"), 0700), 0);
    make_file(below(f, "t/u/x"));
    assert_int_equal(symlink(below(f, "keep"), below(f, "t/link")), 0);
    assert_int_equal(mkfifo(below(f, "t/fifo"), 0600), 0);
    assert_int_equal(undo_one(UNDO_TREE, below(f, "t"), "", ""), 0);
    assert_int_equal(access(below(f, "t"), F_OK), -1);
    assert_int_equal(access(below(f, "keep/mine"), F_OK), 0);
    /* nor where the tree itself is a link */
    assert_int_equal(symlink(below(f, "keep"), below(f, "t")), 0);
    assert_int_equal(undo_one(UNDO_TREE, below(f, "t"), "", ""), -ENOTDIR);
    assert_int_equal(access(below(f, "keep/mine"), F_OK), 0);
}

static void hostile_entries_are_refused(void **state)
{
    struct fixture *f = *state;
    char way_up[256];

    assert_int_equal(undo_one(UNDO_TREE, "/", "", ""), -EBADMSG);
    assert_int_equal(undo_one(UNDO_TREE, "/no-such-folder-here", "", ""), -EBADMSG);
    assert_int_equal(undo_one(UNDO_TREE, "relative/path", "", ""), -EBADMSG);
    snprintf(way_up, sizeof(way_up), "%s/..", f->folder);
    assert_int_equal(undo_one(UNDO_TREE, way_up, "", ""), -EBADMSG);
    snprintf(way_up, sizeof(way_up), "%s/../x", f->folder);
    assert_int_equal(undo_one(UNDO_FILE, way_up, "", ""), -EBADMSG);
    assert_int_equal(undo_one(UNDO_FILE, "", "", ""), -EBADMSG);
    assert_int_equal(undo_one(UNDO_NETNS, "/run/netns/other", "", ""), -EBADMSG);
    assert_int_equal(undo_one(UNDO_NETNS, "/run/netns/vt-/../../etc", "", ""), -EBADMSG);
    assert_int_equal(undo_one(UNDO_PROCESS, "x", "", "1 5"), -EBADMSG);
    assert_int_equal(undo_one(UNDO_PROCESS, "x", "", "-1 5"), -EBADMSG);
    assert_int_equal(undo_one(UNDO_PROCESS, "x", "", "77"), -EBADMSG);
    assert_int_equal(undo_one(UNDO_PROCESS, "x", "", "77 5 9"), -EBADMSG);
    assert_int_equal(undo_one(UNDO_DOMAIN, "x", "", "not a uuid"), -ENOTSUP);
    /* a file that had contents: only who knows them may put them back */
    make_file(below(f, "kept"));
    assert_int_equal(undo_one(UNDO_FILE, below(f, "kept"), "before", ""), -ENOTSUP);
    assert_int_equal(access(below(f, "kept"), F_OK), 0);
}

static pid_t start_sleeper(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        pause();
        _exit(0);
    }
    return pid;
}

static void process_ends_only_when_it_is_ours(void **state)
{
    char value[64], other[96];
    pid_t pid = start_sleeper();
    int status;

    (void)state;
    assert_int_equal(undo_process_value(pid, value, sizeof(value)), 0);
    /* same number, another start: recycled */
    snprintf(other, sizeof(other), "%d 1", (int)pid);
    assert_int_equal(undo_one(UNDO_PROCESS, "client", "", other), 0);
    assert_int_equal(undo_one(UNDO_PROCESS, "client", "", ""), 0);
    assert_int_equal(kill(pid, 0), 0);
    assert_int_equal(waitpid(pid, &status, WNOHANG), 0);

    assert_int_equal(undo_one(UNDO_PROCESS, "client", "", value), 0);
    assert_int_equal(kill(pid, 0), -1); /* gone and reaped, as it is our child */
    assert_int_equal(undo_one(UNDO_PROCESS, "client", "", value), 0);
    assert_int_equal(undo_process_value(pid, value, sizeof(value)), -ESRCH);
}

/* The start time is the one that ps tells. */
static void start_time_is_read_past_strange_names(void **state)
{
    char value[64], program[128];
    int status;
    pid_t pid;
    struct fixture *f = *state;

    /* a program whose name holds spaces and parentheses */
    snprintf(program, sizeof(program), "%s", below(f, "a) S 1 (b"));
    assert_int_equal(symlink("/bin/sleep", program), 0);
    pid = fork();
    if (pid == 0) {
        execl(program, program, "60", (char *)NULL);
        _exit(127);
    }
    char path[64], comm[64] = "";
    snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
    for (; strncmp(comm, "a) S 1 (b", 9) != 0; usleep(1000)) {
        VT_AUTO_FCLOSE FILE *file = fopen(path, "r");
        assert_non_null(file);
        if (!fgets(comm, sizeof(comm), file))
            comm[0] = 0;
    }
    assert_int_equal(undo_process_value(pid, value, sizeof(value)), 0);
    unsigned long long start;
    int seen;
    assert_int_equal(sscanf(value, "%d %llu", &seen, &start), 2);
    assert_int_equal(seen, pid);
    /* in ticks since boot: not after now, and less than a minute ago */
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    double age = (double)now.tv_sec - (double)start / (double)sysconf(_SC_CLK_TCK);
    assert_true(age > -2 && age < 60);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
}

static void on_host(struct host *host, void *ctx, const struct host_reply *reply)
{
    struct fixture *f = ctx;

    (void)host;
    assert_int_equal(reply->code, 0);
    f->done = true;
}

static void on_none_listed(struct host *host, void *ctx, const struct host_reply *reply)
{
    on_host(host, ctx, reply);
    assert_int_equal(reply->ndomains, 0);
}

static void on_closed(void *ctx)
{
    ((struct fixture *)ctx)->done = true;
}

static void wait_done(struct fixture *f)
{
    while (!f->done)
        uv_run(&f->loop.uv, UV_RUN_ONCE);
    f->done = false;
}

static void domains_go_through_their_host(void **state)
{
    struct fixture *f = *state;
    struct host_settings settings = {.uri = "test:///default"};
    struct vt_domain d = {.name = "vt-1a2b3c-001-web",
                          .uuid = "6b7f4c1e-9a52-4d0e-8f3b-000000000077",
                          .run = "1a2b3c4d5e6f",
                          .controller = "c",
                          .role = "web",
                          .tile = 1,
                          .accel = VT_ACCEL_TEST,
                          .vcpus = 1,
                          .memory_bytes = 64 << 20};
    VT_AUTO_FREE char *xml = NULL;
    uint64_t host_down;

    assert_int_equal(vir_loop_init(&f->loop, NULL), 0);
    assert_int_equal(host_open(&f->loop, &settings, on_host, f, &f->host, NULL), 0);
    wait_done(f);
    assert_int_equal(xml_write_domain(&d, NULL, &xml, NULL), 0);
    assert_int_equal(host_define_start(f->host, xml, on_host, f, NULL), 0);
    wait_done(f);

    intend(f, UNDO_DOMAIN, "vt-1a2b3c-001-web",
           "6b7f4c1e-9a52-4d0e-8f3b-000000000077 test:///default");
    intend(f, UNDO_DOMAIN, "vt-1a2b3c-002-web",
           "6b7f4c1e-9a52-4d0e-8f3b-000000000078 test:///default"); /* never started */
    host_down = intend(f, UNDO_DOMAIN, "vt-1a2b3c-003-web",
                       "6b7f4c1e-9a52-4d0e-8f3b-000000000079 qemu+ssh://elsewhere/system");
    intend(f, UNDO_DOMAIN, "vt-1a2b3c-004-web", "damaged");
    undo_all(f, 0);
    assert_int_equal(f->left, 2);
    assert_int_equal(f->nseen, 2);
    for (size_t i = 0; i < vt_journal_count(f->journal); i++) {
        const struct vt_journal_entry *entry = vt_journal_entry_at(f->journal, i);
        assert_int_equal(entry->state == VT_JOURNAL_UNDONE, entry->id < host_down);
    }
    f->done = false;
    assert_int_equal(host_list_ours(f->host, NULL, on_none_listed, f, NULL), 0);
    wait_done(f);
    host_close(f->host, on_closed, f);
    wait_done(f);
    vir_loop_dispose();
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(last_made_goes_first_and_is_marked),
        T(failure_is_told_and_the_rest_goes_on),
        T(folder_in_use_stays),
        T(tree_goes_but_links_are_not_followed),
        T(hostile_entries_are_refused),
        T(process_ends_only_when_it_is_ours),
        T(start_time_is_read_past_strange_names),
        T(domains_go_through_their_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
