/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal on a disk that is full, slow to take all bytes or failing, without memory, and killed
 * between any two steps. Its sources are compiled here with calls that fail on request; what is
 * left is then read back with calls that do not.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/scope.h"
#include "base/text.h"

/* The Nth call from now fails; 0: none does. */
static long calls_until_failure;
static bool failed_once;
static bool write_in_pieces;

static bool fails(void)
{
    if (calls_until_failure == 0 || --calls_until_failure > 0)
        return false;
    failed_once = true;
    return true;
}

static void *fake_malloc(size_t size)
{
    return fails() ? NULL : malloc(size);
}

static void *fake_calloc(size_t n, size_t size)
{
    return fails() ? NULL : calloc(n, size);
}

static void *fake_realloc(void *old, size_t size)
{
    return fails() ? NULL : realloc(old, size);
}

static char *fake_strdup(const char *text)
{
    return fails() ? NULL : strdup(text);
}

static int fail_with(int errnum)
{
    errno = errnum;
    return -1;
}

/* A failing write first takes some bytes, as a disk does that fills up. */
static ssize_t fake_write(int fd, const char *data, size_t len)
{
    static unsigned turn;

    if (fails()) {
        if (write(fd, data, len / 2) != (ssize_t)(len / 2))
            return -1;
        return fail_with(ENOSPC);
    }
    if (write_in_pieces && turn++ % 3 == 0)
        return fail_with(EINTR);
    return write(fd, data, write_in_pieces && len > 7 ? 7 : len);
}

static ssize_t fake_pread(int fd, char *data, size_t len, off_t at)
{
    if (fails())
        return fail_with(EIO);
    return pread(fd, data, write_in_pieces && len > 5 ? 5 : len, at);
}

#define malloc fake_malloc
#define calloc fake_calloc
#define realloc fake_realloc
#define strdup fake_strdup
#define write fake_write
#define pread fake_pread
#define fsync(fd) (fails() ? fail_with(EIO) : fsync(fd))
#define fdatasync(fd) (fails() ? fail_with(EIO) : fdatasync(fd))
#define ftruncate(fd, len) (fails() ? fail_with(EIO) : ftruncate(fd, len))
/* The analyzer reads the two on their own; through these fakes it loses its way. */
#ifdef __clang_analyzer__
#include "base/journal_entries.h"
#else
#include "base/file.c"
#include "base/journal_entries.c"
#include "base/journal.c"
#endif
#undef malloc
#undef calloc
#undef realloc
#undef strdup
#undef write
#undef pread
#undef fsync
#undef fdatasync
#undef ftruncate

static char test_folder[64], test_path[80];

static int make_folder(void **state)
{
    (void)state;
    snprintf(test_folder, sizeof(test_folder), "/tmp/vtile-journal-XXXXXX");
    if (!mkdtemp(test_folder))
        return -1;
    snprintf(test_path, sizeof(test_path), "%s/j", test_folder);
    calls_until_failure = 0;
    failed_once = write_in_pieces = false;
    vt_journal_step_hook = NULL;
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(test_path);
    return rmdir(test_folder);
}

/* --- the Nth call fails --- */

struct progress {
    unsigned intents, applied, undone; /* calls that returned 0 */
    bool failed;
};

/* Three changes, one of them undone. go_on: past an error. */
static void change_things(struct progress *p, bool go_on)
{
    struct vt_journal *journal = NULL;
    uint64_t id;

    if (vt_journal_open(test_path, &journal, NULL) < 0) {
        p->failed = true;
        return;
    }
    for (int i = 0; i < 3; i++) {
        if (vt_journal_intent(journal, "file", "/sys/x", "old", "new", &id, NULL) < 0) {
            p->failed = true;
            if (!go_on)
                goto out;
            continue;
        }
        assert_int_equal(id, p->intents + 1);
        p->intents++;
    }
    if (vt_journal_sync(journal, NULL) < 0) {
        p->failed = true;
        goto out;
    }
    for (unsigned i = 1; i <= p->intents; i++) {
        if (vt_journal_mark(journal, i, VT_JOURNAL_APPLIED, "newer", NULL) == 0)
            p->applied++;
        else
            p->failed = true;
        if (p->failed && !go_on)
            goto out;
    }
    if (p->intents > 0 && vt_journal_mark(journal, 1, VT_JOURNAL_UNDONE, NULL, NULL) == 0)
        p->undone++;
out:
    vt_journal_close(journal);
}

static unsigned count_at_least(const struct vt_journal *journal, enum vt_journal_state state)
{
    unsigned n = 0;

    for (size_t i = 0; i < vt_journal_count(journal); i++)
        n += vt_journal_entry_at(journal, i)->state >= state;
    return n;
}

/* Whatever failed: what a call said was done is in the file, and the file can be read. */
static void check_file(const struct progress *p)
{
    struct vt_error err = VT_ERROR_INIT;
    struct vt_journal *journal = NULL;
    char text[VT_ERROR_TEXT_MAX + VT_ERROR_FILE_MAX + 32];
    int r = vt_journal_open(test_path, &journal, &err);

    if (r < 0)
        print_error("%s\n", vt_error_print(&err, text, sizeof(text)));
    assert_int_equal(r, 0);
    assert_true(vt_journal_count(journal) >= p->intents);
    assert_true(vt_journal_count(journal) <= 3);
    assert_true(count_at_least(journal, VT_JOURNAL_APPLIED) >= p->applied);
    assert_true(count_at_least(journal, VT_JOURNAL_UNDONE) >= p->undone);
    vt_journal_close(journal);
}

static void each_failing_call_leaves_a_readable_file(void **state)
{
    long n;

    (void)state;
    for (int go_on = 0; go_on < 2; go_on++) {
        for (n = 1; n < 1000; n++) {
            struct progress p = {0};

            unlink(test_path);
            failed_once = false;
            calls_until_failure = n;
            change_things(&p, go_on);
            calls_until_failure = 0;
            if (!failed_once) {
                assert_false(p.failed);
                assert_int_equal(p.intents, 3);
                assert_int_equal(p.applied, 3);
                assert_int_equal(p.undone, 1);
                break;
            }
            check_file(&p);
        }
        assert_true(n > 25 && n < 1000);
    }
}

/* The same on a journal that exists, with a cut tail: opening reads and repairs. */
static void each_failing_call_of_reopening_leaves_a_readable_file(void **state)
{
    struct progress done = {0};
    VT_AUTO_CLOSE int fd = -1;
    long n;

    (void)state;
    change_things(&done, false);
    assert_false(done.failed);
    fd = open(test_path, O_WRONLY | O_APPEND | O_CLOEXEC);
    assert_true(fd >= 0);
    for (n = 1; n < 1000; n++) {
        struct vt_journal *journal = NULL;
        int r;

        assert_int_equal(write(fd, "12345678 {\"op\"", 14), 14);
        failed_once = false;
        calls_until_failure = n;
        r = vt_journal_open(test_path, &journal, NULL);
        calls_until_failure = 0;
        if (r == 0)
            vt_journal_close(journal);
        assert_int_equal(r < 0, failed_once);
        check_file(&done);
        if (!failed_once)
            break;
    }
    assert_true(n > 5 && n < 1000);
}

/* After a sync that failed nothing is believed any more, whatever the next one would say. */
static void a_failed_sync_is_final(void **state)
{
    struct vt_journal *journal = NULL;
    struct vt_error err = VT_ERROR_INIT;
    uint64_t id;

    (void)state;
    assert_int_equal(vt_journal_open(test_path, &journal, &err), 0);
    assert_int_equal(vt_journal_intent(journal, "k", "o", "", "", &id, &err), 0);
    calls_until_failure = 1;
    assert_int_equal(vt_journal_sync(journal, &err), -EIO);
    assert_true(failed_once);
    assert_int_equal(vt_journal_sync(journal, &err), -EIO);
    assert_int_equal(vt_journal_intent(journal, "k", "o", "", "", &id, &err), -EIO);
    assert_int_equal(vt_journal_mark(journal, 1, VT_JOURNAL_APPLIED, NULL, &err), -EIO);
    assert_int_equal(vt_journal_count(journal), 1);
    vt_journal_close(journal);
}

static void writes_and_reads_in_pieces_are_whole(void **state)
{
    struct progress p = {0};

    (void)state;
    write_in_pieces = true;
    change_things(&p, false);
    assert_false(p.failed);
    check_file(&p);
    write_in_pieces = false;
    check_file(&p);
}

/* --- a disk that is full --- */

static void set_limit(off_t size)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = size < 0 ? limit.rlim_max : (rlim_t)size;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* The kernel takes the bytes up to the limit, then refuses: a short write at every few bytes. */
static void fill_up_to_the_limit(void)
{
    struct vt_journal *journal = NULL, *seen = NULL;
    struct vt_error err = VT_ERROR_INIT;
    struct stat before, after;
    uint64_t id = 0;

    assert_int_equal(vt_journal_open(test_path, &journal, &err), 0);
    assert_int_equal(vt_journal_intent(journal, "file", "/sys/x", "old", "new", &id, &err), 0);
    assert_int_equal(vt_journal_sync(journal, &err), 0);
    assert_int_equal(stat(test_path, &before), 0);
    for (off_t room = 0; room < 60; room += 7) {
        set_limit(before.st_size + room);
        assert_true(
            vt_journal_intent(journal, "file", "/sys/a long name", "old", "new", &id, &err) < 0);
        assert_true(err.code == -EFBIG || err.code == -ENOSPC);
        assert_non_null(strstr(err.text, "append"));
        assert_int_equal(stat(test_path, &after), 0);
        assert_int_equal(after.st_size, before.st_size);
        assert_int_equal(vt_journal_count(journal), 1);
        assert_int_equal(vt_journal_read(test_path, &seen, &err), 0);
        assert_int_equal(vt_journal_count(seen), 1);
        vt_journal_close(seen);
    }
    set_limit(before.st_size);
    assert_true(vt_journal_mark(journal, 1, VT_JOURNAL_APPLIED, "v", &err) < 0);
    assert_int_equal(vt_journal_entry_at(journal, 0)->state, VT_JOURNAL_INTENT);
    assert_string_equal(vt_journal_entry_at(journal, 0)->value, "new");
    set_limit(-1);
    assert_int_equal(vt_journal_mark(journal, 1, VT_JOURNAL_APPLIED, "v", &err), 0);
    assert_int_equal(vt_journal_intent(journal, "file", "/sys/x", "old", "new", &id, &err), 0);
    assert_int_equal(id, 2);
    vt_journal_close(journal);
    assert_int_equal(vt_journal_open(test_path, &journal, &err), 0);
    assert_int_equal(vt_journal_count(journal), 2);
    assert_string_equal(vt_journal_entry_at(journal, 0)->value, "v");
    vt_journal_close(journal);
}

static void a_file_size_limit_loses_nothing(void **state)
{
    void (*before)(int) = signal(SIGXFSZ, SIG_IGN);

    (void)state;
    fill_up_to_the_limit();
    signal(SIGXFSZ, before);
}

/* A file beside the journal takes all the space that is left. */
static void take_all_space(const char *filler_path)
{
    static char zeros[4096];
    int fd = open(filler_path, O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND, 0600);

    assert_true(fd >= 0);
    while (write(fd, zeros, sizeof(zeros)) > 0)
        ;
    assert_int_equal(errno, ENOSPC);
    close(fd);
}

static void run_on_full_tmpfs(void)
{
    struct vt_journal *journal = NULL;
    struct vt_error err = VT_ERROR_INIT;
    char filler_path[100];
    unsigned intents = 0;
    uint64_t id;
    int r;

    snprintf(filler_path, sizeof(filler_path), "%s/filler", test_folder);
    assert_int_equal(vt_journal_open(test_path, &journal, &err), 0);
    take_all_space(filler_path);
    /* The last page of the journal itself still has room. */
    while ((r = vt_journal_intent(journal, "file", "/sys/x", "old", "new", &id, &err)) == 0)
        intents++;
    assert_int_equal(r, -ENOSPC);
    assert_true(intents > 10 && intents < 100);
    assert_int_equal(vt_journal_count(journal), intents);
    assert_int_equal(vt_journal_sync(journal, &err), 0);
    assert_int_equal(unlink(filler_path), 0);
    assert_int_equal(vt_journal_mark(journal, intents, VT_JOURNAL_APPLIED, NULL, &err), 0);
    vt_journal_close(journal);
    assert_int_equal(vt_journal_open(test_path, &journal, &err), 0);
    assert_int_equal(vt_journal_count(journal), intents);
    vt_journal_close(journal);
}

static void a_full_disk_loses_nothing(void **state)
{
    int status;
    pid_t pid = fork();

    (void)state;
    if (pid == 0) {
        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("tmpfs", test_folder, "tmpfs", 0, "size=64k") < 0)
            _exit(77);
        run_on_full_tmpfs();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        print_message("skipped: no right to mount a small tmpfs\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* --- killed at each step --- */

static char step_names[4096];
static unsigned steps_left;

static void note_step(const char *name)
{
    strncat(step_names, name, sizeof(step_names) - strlen(step_names) - 1);
    strncat(step_names, " ", sizeof(step_names) - strlen(step_names) - 1);
}

static void die_at_step(const char *name)
{
    (void)name;
    if (--steps_left == 0)
        kill(getpid(), SIGKILL);
}

static void steps_are_named_in_order(void **state)
{
    struct progress p = {0};

    (void)state;
    step_names[0] = '\0';
    vt_journal_step_hook = note_step;
    change_things(&p, false);
    vt_journal_step_hook = NULL;
    assert_string_equal(step_names, "append appended sync synced " /* the first line */
                                    "append appended append appended append appended "
                                    "sync synced "
                                    "append appended sync synced append appended sync synced "
                                    "append appended sync synced append appended sync synced ");
}

/* How many lines are in the file after the first steps of step_names. */
static unsigned lines_after(unsigned step_count)
{
    const char *p = step_names;
    unsigned lines = 0;

    for (unsigned i = 0; i < step_count; i++) {
        lines += strncmp(p, "appended ", 9) == 0;
        p = strchr(p, ' ') + 1;
    }
    return lines;
}

static void killed_at_each_step_it_replays(void **state)
{
    struct progress p = {0};
    unsigned n, total = 0;

    (void)state;
    step_names[0] = '\0';
    vt_journal_step_hook = note_step;
    change_things(&p, false);
    vt_journal_step_hook = NULL;
    for (const char *c = step_names; *c; c++)
        total += *c == ' ';
    for (n = 1; n <= total + 1; n++) {
        struct vt_error err = VT_ERROR_INIT;
        struct vt_journal *journal = NULL;
        unsigned lines, intents, events;
        int status;
        pid_t pid;

        unlink(test_path);
        pid = fork();
        if (pid == 0) {
            struct progress mine = {0};

            steps_left = n;
            vt_journal_step_hook = die_at_step;
            change_things(&mine, false);
            _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (n == total + 1) {
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
            break;
        }
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        lines = lines_after(n);
        events = lines ? lines - 1 : 0;
        intents = events < 3 ? events : 3;
        /* The lock went with its holder. */
        assert_int_equal(vt_journal_open(test_path, &journal, &err), 0);
        assert_int_equal(vt_journal_count(journal), intents);
        assert_int_equal(count_at_least(journal, VT_JOURNAL_APPLIED) +
                             count_at_least(journal, VT_JOURNAL_UNDONE),
                         events - intents);
        vt_journal_close(journal);
    }
    assert_true(total > 20);
}

#define J_TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        J_TEST(each_failing_call_leaves_a_readable_file),
        J_TEST(each_failing_call_of_reopening_leaves_a_readable_file),
        J_TEST(a_failed_sync_is_final),
        J_TEST(writes_and_reads_in_pieces_are_whole),
        J_TEST(a_file_size_limit_loses_nothing),
        J_TEST(a_full_disk_loses_nothing),
        J_TEST(steps_are_named_in_order),
        J_TEST(killed_at_each_step_it_replays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
