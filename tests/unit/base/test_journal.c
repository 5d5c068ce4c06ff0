/* SPDX-License-Identifier: Apache-2.0 */
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
#include <zlib.h>

#include "base/journal.h"
#include "base/scope.h"
#include "base/text.h"

static char folder[64], path[80];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/vtile-journal-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof(path), "%s/j", folder);
    vt_journal_step_hook = NULL;
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static void write_file(const char *data, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, len), len);
    close(fd);
}

static size_t read_file(char *data, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    assert_true(fd >= 0);
    n = read(fd, data, size);
    close(fd);
    assert_true(n >= 0 && (size_t)n < size);
    data[n] = '\0';
    return (size_t)n;
}

static void add(struct vt_buf *out, const struct vt_journal *journal)
{
    vt_buf_printf(out, "%zu %d\n", vt_journal_count(journal), vt_journal_all_undone(journal));
    for (size_t i = 0; i < vt_journal_count(journal); i++) {
        const struct vt_journal_entry *e = vt_journal_entry_at(journal, i);

        vt_buf_printf(out, "%d|%s|%s|%s|%s|%d\n", (int)e->id, e->kind, e->object, e->original,
                      e->value, (int)e->state);
    }
    assert_null(vt_journal_entry_at(journal, vt_journal_count(journal)));
}

/* --- a journal of six lines, and what is known after each --- */

enum { LINES = 6 };

/* Makes it at path; states[n]: after n lines, the first line not counted. */
static void make_story(struct vt_buf states[LINES + 1])
{
    struct vt_journal *journal = NULL;
    struct vt_error err = VT_ERROR_INIT;
    uint64_t id = 0;

    assert_int_equal(vt_journal_open(path, &journal, &err), 0);
    add(&states[0], journal);
    assert_int_equal(vt_journal_intent(journal, "bridge", "vt-abc", "", "", &id, &err), 0);
    assert_int_equal(id, 1);
    add(&states[1], journal);
    assert_int_equal(vt_journal_intent(journal, "file", "/sys/a \"b\"\\", "line 1\nline 2\n",
                                       "\xc3\xa9\xf0\x9f\x98\x80\t\x01", &id, &err),
                     0);
    assert_int_equal(id, 2);
    add(&states[2], journal);
    assert_int_equal(vt_journal_sync(journal, &err), 0);
    assert_int_equal(vt_journal_mark(journal, 1, VT_JOURNAL_APPLIED, "4711", &err), 0);
    add(&states[3], journal);
    assert_int_equal(vt_journal_mark(journal, 2, VT_JOURNAL_APPLIED, NULL, &err), 0);
    add(&states[4], journal);
    assert_int_equal(vt_journal_mark(journal, 2, VT_JOURNAL_UNDONE, NULL, &err), 0);
    add(&states[5], journal);
    assert_int_equal(vt_journal_mark(journal, 1, VT_JOURNAL_UNDONE, NULL, &err), 0);
    add(&states[6], journal);
    assert_null(vt_journal_close(journal));
}

static void dispose_states(struct vt_buf states[LINES + 1])
{
    for (int i = 0; i <= LINES; i++)
        vt_buf_dispose(&states[i]);
}

static void init_states(struct vt_buf states[LINES + 1])
{
    for (int i = 0; i <= LINES; i++)
        states[i] = (struct vt_buf)VT_BUF_INIT(10000);
}

static void assert_state(const struct vt_journal *journal, const struct vt_buf *want)
{
    VT_AUTO_BUF struct vt_buf got = VT_BUF_INIT(10000);

    add(&got, journal);
    assert_string_equal(got.data, want->data);
}

static void events_come_back(void **state)
{
    struct vt_buf states[LINES + 1];
    struct vt_journal *journal = NULL;
    struct stat st;

    (void)state;
    init_states(states);
    umask(0);
    make_story(states);
    umask(022);
    assert_string_equal(states[0].data, "0 1\n");
    assert_string_equal(
        states[6].data,
        "2 1\n1|bridge|vt-abc||4711|2\n"
        "2|file|/sys/a \"b\"\\|line 1\nline 2\n|\xc3\xa9\xf0\x9f\x98\x80\t\x01|2\n");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(vt_journal_open(path, &journal, NULL), 0);
    assert_state(journal, &states[6]);
    vt_journal_close(journal);
    dispose_states(states);
}

/* Checked with zlib alone: the form is what the header says. */
static void lines_are_as_stated(void **state)
{
    struct vt_buf states[LINES + 1];
    char text[4096], *line = text, *end;
    int lines = 0;

    (void)state;
    init_states(states);
    make_story(states);
    dispose_states(states);
    read_file(text, sizeof(text));
    assert_non_null(strstr(text, " {\"v\":1,\"op\":\"journal\"}\n"));
    assert_non_null(strstr(text, " {\"op\":\"intent\",\"id\":1,\"kind\":\"bridge\",\"object\":"
                                 "\"vt-abc\",\"original\":\"\",\"value\":\"\"}\n"));
    assert_non_null(strstr(text, " {\"op\":\"mark\",\"id\":1,\"state\":\"applied\",\"value\":"
                                 "\"4711\"}\n"));
    assert_non_null(strstr(text, " {\"op\":\"mark\",\"id\":2,\"state\":\"undone\"}\n"));
    for (; (end = strchr(line, '\n')); line = end + 1, lines++) {
        char digits[9];

        snprintf(digits, sizeof(digits), "%08lx",
                 crc32(0, (const Bytef *)line + 9, (uInt)(end - line - 9)));
        assert_memory_equal(line, digits, 8);
    }
    assert_int_equal(lines, 1 + LINES);
}

static void a_cut_at_any_byte_replays_whole_lines(void **state)
{
    struct vt_buf states[LINES + 1];
    char whole[4096], now[4096];
    size_t len, head;

    (void)state;
    init_states(states);
    make_story(states);
    len = read_file(whole, sizeof(whole));
    head = (size_t)(strchr(whole, '\n') - whole) + 1;
    for (size_t cut = 0; cut <= len; cut++) {
        struct vt_error err = VT_ERROR_INIT;
        struct vt_journal *journal = NULL;
        size_t kept = cut, now_len;
        int lines = -1;
        uint64_t id;

        for (size_t i = 0; i < cut; i++)
            lines += whole[i] == '\n';
        while (kept > 0 && whole[kept - 1] != '\n')
            kept--;
        write_file(whole, cut);
        /* Reading changes nothing. */
        assert_int_equal(vt_journal_read(path, &journal, &err), 0);
        assert_state(journal, &states[lines < 0 ? 0 : lines]);
        vt_journal_close(journal);
        assert_int_equal(read_file(now, sizeof(now)), cut);
        assert_memory_equal(now, whole, cut);
        /* Opening removes the tail, and what is appended then stands after whole lines. */
        assert_int_equal(vt_journal_open(path, &journal, &err), 0);
        assert_state(journal, &states[lines < 0 ? 0 : lines]);
        now_len = read_file(now, sizeof(now));
        assert_int_equal(now_len, kept < head ? head : kept);
        assert_memory_equal(now, whole, now_len);
        assert_int_equal(vt_journal_intent(journal, "tap", "t", "", "", &id, &err), 0);
        assert_int_equal(id, vt_journal_count(journal));
        vt_journal_close(journal);
        assert_int_equal(vt_journal_open(path, &journal, &err), 0);
        assert_int_equal(vt_journal_count(journal), id);
        assert_false(vt_journal_all_undone(journal));
        vt_journal_close(journal);
    }
    dispose_states(states);
}

/* Any one bit: refused with its line, or in the last line, which is dropped as a cut one is (the
 * newline before it makes one line of the last two). */
static void damage_is_refused_with_its_line(void **state)
{
    struct vt_buf states[LINES + 1];
    char whole[4096], now[4096];
    size_t len;
    int line = 1;

    (void)state;
    init_states(states);
    make_story(states);
    len = read_file(whole, sizeof(whole));
    for (size_t at = 0; at < len; at++) {
        for (int bit = 0; bit < 8; bit++) {
            struct vt_error err = VT_ERROR_INIT;
            struct vt_journal *journal = NULL;
            char original = whole[at];
            int r;

            whole[at] ^= (char)(1 << bit);
            write_file(whole, len);
            r = vt_journal_open(path, &journal, &err);
            if (r == 0) {
                bool joined = line == LINES && original == '\n';

                assert_true(line == 1 + LINES || joined);
                assert_state(journal, &states[joined ? LINES - 2 : LINES - 1]);
                vt_journal_close(journal);
            } else {
                assert_int_equal(r, -EBADMSG);
                assert_int_equal(err.kind, VT_KIND_REFUSED);
                assert_int_equal(err.line, line);
                assert_string_equal(err.file, path);
                assert_int_equal(read_file(now, sizeof(now)), len);
                assert_memory_equal(now, whole, len);
            }
            whole[at] = original;
        }
        line += whole[at] == '\n';
    }
    dispose_states(states);
}

/* Lines whose checksum is right and whose content is not what we would have written. */
static const char *const nonsense[] = {
    "{}",
    "[]",
    "1",
    "",
    "{\"op\":\"other\"}",
    "{\"v\":1,\"op\":\"journal\"}",
    "{\"op\":\"intent\",\"id\":2,\"kind\":\"k\",\"object\":\"o\",\"original\":\"\"}",
    "{\"op\":\"intent\",\"id\":3,\"kind\":\"k\",\"object\":\"o\",\"original\":\"\",\"value\":"
    "\"\"}",
    "{\"op\":\"intent\",\"id\":1,\"kind\":\"k\",\"object\":\"o\",\"original\":\"\",\"value\":"
    "\"\"}",
    "{\"op\":\"intent\",\"id\":2,\"kind\":\"\",\"object\":\"o\",\"original\":\"\",\"value\":"
    "\"\"}",
    "{\"op\":\"intent\",\"id\":2,\"kind\":\"k\",\"object\":\"\",\"original\":\"\",\"value\":"
    "\"\"}",
    "{\"op\":\"intent\",\"id\":2,\"kind\":\"k\",\"object\":\"o\",\"original\":1,\"value\":"
    "\"\"}",
    "{\"op\":\"intent\",\"id\":2,\"kind\":\"k\",\"object\":\"a\",\"object\":\"b\",\"value\":"
    "\"\"}",
    "{\"op\":\"intent\",\"id\":2,\"kind\":\"k\",\"object\":\"o\",\"original\":\"\",\"value\":"
    "\"\",\"x\":1}",
    "{\"op\":\"intent\",\"id\":2,\"kind\":\"k\",\"object\":\"a\\u0000b\",\"original\":\"\","
    "\"value\":\"\"}",
    "{\"op\":\"intent\",\"id\":2,\"kind\":\"kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk\",\"object\":"
    "\"o\",\"original\":\"\",\"value\":\"\"}",
    "{\"op\":\"mark\",\"id\":2,\"state\":\"applied\"}",
    "{\"op\":\"mark\",\"id\":0,\"state\":\"applied\"}",
    "{\"op\":\"mark\",\"id\":1,\"state\":\"intent\"}",
    "{\"op\":\"mark\",\"id\":1,\"state\":\"gone\"}",
    "{\"op\":\"mark\",\"id\":1,\"state\":\"applied\"} ",
    "{\"op\":\"mark\",\"id\":1,\"state\":\"applied\",\"value\":null}",
    "{\"op\":\"mark\",\"id\":1,\"state\":\"applied\",\"x\":\"\"}",
    "{\"op\":\"mark\",\"id\":1,\"state\":\"undone\"}\n{\"op\":\"mark\",\"id\":1,\"state\":"
    "\"applied\"}",
};

static void well_formed_nonsense_is_refused(void **state)
{
    unsigned accepted = 0;

    (void)state;
    for (size_t i = 0; i < VT_COUNT(nonsense); i++) {
        VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(10000);
        struct vt_error err = VT_ERROR_INIT;
        struct vt_journal *journal = NULL;
        const char *lines[] = {"{\"v\":1,\"op\":\"journal\"}",
                               "{\"op\":\"intent\",\"id\":1,\"kind\":\"k\",\"object\":\"o\","
                               "\"original\":\"\",\"value\":\"\"}",
                               nonsense[i]};

        for (size_t k = 0; k < VT_COUNT(lines); k++) {
            for (const char *p = lines[k]; p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL) {
                size_t n = strcspn(p, "\n");

                vt_buf_printf(&text, "%08lx %.*s\n", crc32(0, (const Bytef *)p, (uInt)n), (int)n,
                              p);
            }
        }
        write_file(text.data, text.len);
        if (vt_journal_open(path, &journal, &err) == 0) {
            accepted++;
            vt_journal_close(journal);
            continue;
        }
        assert_int_equal(err.code, -EBADMSG);
        assert_int_equal(err.line, strchr(nonsense[i], '\n') ? 4 : 3);
    }
    /* White space in JSON, and an empty last line, which counts as cut. */
    assert_int_equal(accepted, 2);
}

static void what_is_no_journal_is_left_alone(void **state)
{
    static const char *const table[] = {
        "hello\n", "hello", "\n", "x", "00000000 {}\n", "e8f5fd6e {\"v\":2,\"op\":\"journal\"}\n"};
    char now[100];

    (void)state;
    for (size_t i = 0; i < VT_COUNT(table); i++) {
        struct vt_error err = VT_ERROR_INIT;
        struct vt_journal *journal = NULL;

        write_file(table[i], strlen(table[i]));
        assert_int_equal(vt_journal_open(path, &journal, &err), -EBADMSG);
        assert_int_equal(err.line, 1);
        assert_int_equal(read_file(now, sizeof(now)), strlen(table[i]));
        assert_string_equal(now, table[i]);
    }
}

/* --- limits and order of calls --- */

static void calls_out_of_order_change_nothing(void **state)
{
    struct vt_journal *journal = NULL;
    struct vt_error err = VT_ERROR_INIT;
    char before[4096], after[4096];
    uint64_t id = 77;
    size_t len;

    (void)state;
    assert_int_equal(vt_journal_open(path, &journal, &err), 0);
    assert_int_equal(vt_journal_intent(journal, "k", "o", "", "v", &id, &err), 0);
    assert_int_equal(vt_journal_mark(journal, 1, VT_JOURNAL_APPLIED, "v2", &err), 0);
    assert_int_equal(vt_journal_mark(journal, 1, VT_JOURNAL_APPLIED, "v3", &err), 0);
    assert_string_equal(vt_journal_entry_at(journal, 0)->value, "v3");
    assert_int_equal(vt_journal_mark(journal, 1, VT_JOURNAL_UNDONE, NULL, &err), 0);
    len = read_file(before, sizeof(before));
    assert_int_equal(vt_journal_mark(journal, 1, VT_JOURNAL_UNDONE, NULL, &err), 0);
    assert_int_equal(vt_journal_mark(journal, 1, VT_JOURNAL_APPLIED, NULL, &err), -EINVAL);
    assert_int_equal(vt_journal_mark(journal, 1, VT_JOURNAL_INTENT, NULL, &err), -EINVAL);
    assert_int_equal(vt_journal_mark(journal, 0, VT_JOURNAL_APPLIED, NULL, &err), -EINVAL);
    assert_int_equal(vt_journal_mark(journal, 2, VT_JOURNAL_APPLIED, NULL, &err), -EINVAL);
    assert_int_equal(vt_journal_intent(journal, "", "o", "", "", &id, &err), -EINVAL);
    assert_int_equal(vt_journal_intent(journal, "k", "", "", "", &id, &err), -EINVAL);
    assert_int_equal(vt_journal_intent(journal, "k", "o", NULL, "", &id, &err), -EINVAL);
    assert_int_equal(vt_journal_intent(journal, "k", "o", "\xff", "", &id, &err), -EILSEQ);
    assert_non_null(strstr(err.text, path));
    assert_int_equal(id, 1);
    assert_int_equal(vt_journal_sync(journal, &err), 0);
    assert_int_equal(read_file(after, sizeof(after)), len);
    assert_string_equal(before, after);
    vt_journal_close(journal);
    assert_int_equal(vt_journal_read(path, &journal, &err), 0);
    assert_int_equal(vt_journal_intent(journal, "k", "o", "", "", &id, &err), -EBADF);
    assert_int_equal(vt_journal_mark(journal, 1, VT_JOURNAL_UNDONE, NULL, &err), -EBADF);
    assert_int_equal(vt_journal_sync(journal, &err), -EBADF);
    vt_journal_close(journal);
    vt_journal_close(NULL);
}

static void texts_may_have_their_full_length(void **state)
{
    struct vt_journal *journal = NULL;
    struct vt_error err = VT_ERROR_INIT;
    VT_AUTO_FREE char *text = malloc(VT_JOURNAL_VALUE_MAX + 2);
    VT_AUTO_FREE char *kept = malloc(VT_JOURNAL_VALUE_MAX + 1);
    uint64_t id;

    (void)state;
    assert_non_null(text);
    assert_non_null(kept);
    assert_int_equal(vt_journal_open(path, &journal, &err), 0);
    /* Control bytes: each takes six in JSON. */
    memset(text, 1, VT_JOURNAL_VALUE_MAX + 1);
    text[VT_JOURNAL_VALUE_MAX + 1] = '\0';
    assert_int_equal(vt_journal_intent(journal, "k", "o", text, "", &id, &err), -E2BIG);
    assert_int_equal(vt_journal_intent(journal, "k", "o", "", text, &id, &err), -E2BIG);
    assert_int_equal(vt_journal_intent(journal, "k", text, "", "", &id, &err), -E2BIG);
    assert_int_equal(vt_journal_intent(journal, text, "o", "", "", &id, &err), -E2BIG);
    assert_int_equal(vt_journal_count(journal), 0);
    text[VT_JOURNAL_VALUE_MAX] = '\0';
    memcpy(kept, text, VT_JOURNAL_VALUE_MAX + 1);
    assert_int_equal(vt_journal_intent(journal, kept + VT_JOURNAL_VALUE_MAX - VT_JOURNAL_KIND_MAX,
                                       kept + VT_JOURNAL_VALUE_MAX - VT_JOURNAL_OBJECT_MAX, text,
                                       kept, &id, &err),
                     0);
    assert_int_equal(vt_journal_mark(journal, 1, VT_JOURNAL_APPLIED, text, &err), 0);
    vt_journal_close(journal);
    assert_int_equal(vt_journal_open(path, &journal, &err), 0);
    assert_string_equal(vt_journal_entry_at(journal, 0)->original, kept);
    assert_string_equal(vt_journal_entry_at(journal, 0)->value, kept);
    assert_int_equal(strlen(vt_journal_entry_at(journal, 0)->kind), VT_JOURNAL_KIND_MAX);
    assert_int_equal(strlen(vt_journal_entry_at(journal, 0)->object), VT_JOURNAL_OBJECT_MAX);
    vt_journal_close(journal);
}

/* --- locks and strange files --- */

/* A child that holds the journal until it is killed. */
static pid_t start_holder(void)
{
    int fds[2];
    char byte = 0;
    pid_t pid;

    assert_int_equal(pipe(fds), 0);
    pid = fork();
    if (pid == 0) {
        struct vt_journal *journal = NULL;

        byte = vt_journal_open(path, &journal, NULL) == 0;
        if (write(fds[1], &byte, 1) == 1)
            pause();
        _exit(0);
    }
    assert_int_equal(read(fds[0], &byte, 1), 1);
    close(fds[0]);
    close(fds[1]);
    assert_int_equal(byte, 1);
    return pid;
}

static void a_second_opener_learns_who_holds_it(void **state)
{
    struct vt_error err = VT_ERROR_INIT;
    struct vt_journal *journal, *second;
    char pid_text[32];
    pid_t holder;

    (void)state;
    holder = start_holder();
    assert_int_equal(vt_journal_open(path, &journal, &err), -EBUSY);
    snprintf(pid_text, sizeof(pid_text), "held by process %d", (int)holder);
    assert_non_null(strstr(err.text, pid_text));
    /* Showing needs no lock. */
    assert_int_equal(vt_journal_read(path, &journal, &err), 0);
    vt_journal_close(journal);
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
    assert_int_equal(vt_journal_open(path, &journal, &err), 0);
    assert_int_equal(vt_journal_open(path, &second, &err), -EBUSY);
    vt_journal_close(journal);
    assert_int_equal(vt_journal_open(path, &journal, &err), 0);
    vt_journal_close(journal);
}

static void strange_files_are_refused(void **state)
{
    struct vt_error err = VT_ERROR_INIT;
    struct vt_journal *journal = NULL;
    char target[100];

    (void)state;
    snprintf(target, sizeof(target), "%s/target", folder);
    assert_int_equal(symlink(target, path), 0);
    assert_int_equal(vt_journal_open(path, &journal, &err), -EPERM);
    assert_int_equal(access(target, F_OK), -1);
    assert_int_equal(vt_journal_read(path, &journal, &err), -EPERM);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(vt_journal_open(path, &journal, &err), -EPERM);
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(vt_journal_open(path, &journal, &err), -EISDIR);
    rmdir(path);
    write_file("", 0);
    assert_int_equal(chmod(path, 0620), 0);
    assert_int_equal(vt_journal_open(path, &journal, &err), -EPERM);
    assert_int_equal(chmod(path, 0602), 0);
    assert_int_equal(vt_journal_open(path, &journal, &err), -EPERM);
    assert_non_null(strstr(err.text, "writable by others"));
    assert_int_equal(chmod(path, 0600), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 12345, (gid_t)-1), 0);
        assert_int_equal(vt_journal_open(path, &journal, &err), -EPERM);
        assert_non_null(strstr(err.text, "12345"));
    }
    unlink(path);
    assert_int_equal(vt_journal_read(path, &journal, &err), -ENOENT);
    assert_int_equal(vt_journal_open("/nonexistent/j", &journal, &err), -ENOENT);
}

static void a_huge_file_is_refused(void **state)
{
    struct vt_error err = VT_ERROR_INIT;
    struct vt_journal *journal = NULL;

    (void)state;
    write_file("", 0);
    assert_int_equal(truncate(path, (off_t)VT_JOURNAL_BYTES_MAX + 1), 0);
    assert_int_equal(vt_journal_open(path, &journal, &err), -EFBIG);
}

#define J_TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        J_TEST(events_come_back),
        J_TEST(lines_are_as_stated),
        J_TEST(a_cut_at_any_byte_replays_whole_lines),
        J_TEST(damage_is_refused_with_its_line),
        J_TEST(well_formed_nonsense_is_refused),
        J_TEST(what_is_no_journal_is_left_alone),
        J_TEST(calls_out_of_order_change_nothing),
        J_TEST(texts_may_have_their_full_length),
        J_TEST(a_second_opener_learns_who_holds_it),
        J_TEST(strange_files_are_refused),
        J_TEST(a_huge_file_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
