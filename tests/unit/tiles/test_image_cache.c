/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/proc.h"
#include "base/scope.h"
#include "tiles/image/bzimage.h"
#include "tiles/image/cache.h"
#include "tiles/image/digest.h"
#include "tiles/image/resolve.h"

static char folder[64];
static struct image_cache cache;

static int open_cache(void **state)
{
    char deep[128];

    (void)state;
    snprintf(folder, sizeof folder, "/tmp/vt-cache-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(deep, sizeof deep, "%s/not/there/yet", folder);
    return image_cache_open(deep, &cache, NULL);
}

static int close_cache(void **state)
{
    (void)state;
    image_cache_close(&cache);
    image_cache_close(&cache);
    return image_cache_remove(folder, NULL);
}

/* A key of 64 times the same hex digit. */
static const char *key(char digit)
{
    static char keys[4][IMAGE_KEY_MAX];
    static int next;

    next = (next + 1) % 4;
    memset(keys[next], digit, IMAGE_KEY_MAX - 1);
    return keys[next];
}

static void publish(const char *part, char digit, const char *text)
{
    char scratch[VT_PATH_MAX], path[VT_PATH_MAX + 8];

    assert_int_equal(image_cache_scratch(&cache, part, scratch, NULL), 0);
    snprintf(path, sizeof path, "%s/file", scratch);
    assert_int_equal(image_file_write(path, text, strlen(text), 0600, NULL), 0);
    assert_int_equal(image_cache_publish(&cache, scratch, part, key(digit), NULL), 0);
}

static void set_used(const char *part, char digit, time_t when)
{
    const struct timespec times[2] = {{when, 0}, {when, 0}};
    char path[VT_PATH_MAX];

    assert_int_equal(image_cache_path(&cache, part, key(digit), NULL, path, NULL), 0);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void a_part_is_there_once_it_is_published(void **state)
{
    VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(100);
    char path[VT_PATH_MAX];

    (void)state;
    assert_int_equal(image_cache_lock(&cache, false, NULL), 0);
    assert_false(image_cache_has(&cache, "roles", key('a')));
    publish("roles", 'a', "content");
    assert_true(image_cache_has(&cache, "roles", key('a')));
    assert_false(image_cache_has(&cache, "roles", key('b')));
    assert_false(image_cache_has(&cache, "kernel", key('a')));
    assert_int_equal(image_cache_path(&cache, "roles", key('a'), "file", path, NULL), 0);
    assert_int_equal(vt_file_read(path, VT_KIND_CONFIG, &text, NULL), 0);
    assert_string_equal(text.data, "content");
}

/* The file holds text instead; NULL: it is gone. */
static void damage(const char *part, char digit, const char *name, const char *text)
{
    char path[VT_PATH_MAX];

    assert_int_equal(image_cache_path(&cache, part, key(digit), name, path, NULL), 0);
    assert_int_equal(unlink(path), 0);
    if (text)
        assert_int_equal(image_file_write(path, text, strlen(text), 0600, NULL), 0);
}

static void a_damaged_part_does_not_serve(void **state)
{
    static const struct {
        const char *name, *text;
        bool has; /* sizes alone do not show it */
    } cases[] = {
        {"file", NULL, false},     {"file", "conten", false}, {"file", "", false},
        {"file", "CONTENT", true}, {"sums", NULL, false},     {"sums", "", false},
        {"sums", "x\n", false},
    };

    (void)state;
    assert_int_equal(image_cache_lock(&cache, false, NULL), 0);
    for (size_t i = 0; i < VT_COUNT(cases); i++) {
        publish("roles", 'a', "content");
        assert_true(image_cache_has(&cache, "roles", key('a')));
        assert_true(image_cache_is_whole(&cache, "roles", key('a')));
        damage("roles", 'a', cases[i].name, cases[i].text);
        assert_int_equal(image_cache_has(&cache, "roles", key('a')), cases[i].has);
        assert_false(image_cache_is_whole(&cache, "roles", key('a')));
    }
    /* And the next one takes its place. */
    publish("roles", 'a', "content");
    assert_true(image_cache_is_whole(&cache, "roles", key('a')));
}

static void scratch_folders_never_count_and_are_swept(void **state)
{
    char scratch[VT_PATH_MAX], path[VT_PATH_MAX + 64];
    VT_AUTO_FREE struct image_entry *entries = NULL;
    size_t removed = 0;
    size_t count = 0;

    (void)state;
    assert_int_equal(image_cache_lock(&cache, false, NULL), 0);
    publish("roles", 'a', "x");
    assert_int_equal(image_cache_scratch(&cache, "roles", scratch, NULL), 0);
    snprintf(path, sizeof path, "%s/deep", scratch);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/deep/file", scratch);
    assert_int_equal(image_file_write(path, "x", 1, 0400, NULL), 0);
    /* What stands outside is not followed. */
    snprintf(path, sizeof path, "%s/deep/link", scratch);
    assert_int_equal(symlink(folder, path), 0);
    assert_int_equal(image_cache_list(&cache, &entries, &count, NULL), 0);
    assert_int_equal(count, 1);
    assert_int_equal(image_cache_sweep(&cache, &removed, NULL), 0);
    assert_int_equal(removed, 1);
    assert_int_equal(access(scratch, F_OK), -1);
    assert_true(image_cache_has(&cache, "roles", key('a')));
}

static void pruning_keeps_what_was_used_last(void **state)
{
    VT_AUTO_FREE struct image_entry *entries = NULL;
    size_t count = 0;

    (void)state;
    assert_int_equal(image_cache_lock(&cache, false, NULL), 0);
    for (const char *digit = "12345"; *digit; digit++) {
        publish("roles", *digit, "x");
        set_used("roles", *digit, 1000 + *digit);
    }
    publish("kernel", '1', "x");
    set_used("kernel", '1', 1);
    set_used("roles", '2', 9000);
    assert_int_equal(image_cache_prune(&cache, "roles", 3, NULL), 0);
    assert_int_equal(image_cache_list(&cache, &entries, &count, NULL), 0);
    assert_int_equal(count, 4);
    assert_string_equal(entries[0].part, "kernel");
    assert_int_equal(entries[1].key[0], '2');
    assert_int_equal(entries[1].used_ns, 9000 * VT_NS_PER_S);
    assert_int_equal(entries[2].key[0], '5');
    assert_int_equal(entries[3].key[0], '4');
    /* Looking at one makes it the newest. */
    assert_true(image_cache_has(&cache, "roles", key('4')));
    assert_int_equal(image_cache_prune(&cache, "roles", 1, NULL), 0);
    assert_true(image_cache_has(&cache, "roles", key('4')));
    assert_false(image_cache_has(&cache, "roles", key('2')));
}

static void the_lock_keeps_others_out(void **state)
{
    struct image_cache other;

    (void)state;
    assert_int_equal(image_cache_open(cache.folder, &other, NULL), 0);
    assert_int_equal(image_cache_lock(&cache, false, NULL), 0);
    assert_int_equal(image_cache_lock(&cache, false, NULL), 0); /* its own, again */
    assert_int_equal(image_cache_lock(&other, false, NULL), -EAGAIN);
    image_cache_close(&cache);
    assert_int_equal(image_cache_lock(&other, false, NULL), 0);
    image_cache_close(&other);
}

/* flock(1) holds the lock from another process; image_clean must leave its scratch alone. */
static void clean_leaves_a_build_at_work(void **state)
{
    const struct image_options options = {.cache = cache.folder};
    char scratch[VT_PATH_MAX], lock[VT_PATH_MAX + 8], byte;
    const char *const argv[] = {"flock", lock, "sh", "-c", "echo; exec cat", NULL};
    struct vt_proc_spec spec = VT_PROC_SPEC_INIT;
    size_t removed = 0;
    int in[2], out[2];
    pid_t pid;

    (void)state;
    snprintf(lock, sizeof lock, "%s/lock", cache.folder);
    assert_int_equal(image_cache_scratch(&cache, "roles", scratch, NULL), 0);
    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    spec.argv = argv;
    spec.stdin_fd = in[0];
    spec.stdout_fd = out[1];
    assert_int_equal(vt_proc_spawn(&spec, &pid, NULL), 0);
    assert_int_equal(read(out[0], &byte, 1), 1); /* the lock is held now */
    assert_int_equal(image_clean(&options, &removed, NULL), 0);
    assert_int_equal(removed, 0);
    assert_int_equal(access(scratch, F_OK), 0);
    close(in[0]);
    close(in[1]);
    assert_int_equal(vt_proc_wait(pid, "flock", NULL), 0);
    close(out[0]);
    close(out[1]);
    assert_int_equal(image_clean(&options, &removed, NULL), 0);
    assert_int_equal(removed, 1);
    assert_int_equal(access(scratch, F_OK), -1);
}

static void clean_without_a_cache_makes_none(void **state)
{
    char path[128];
    const struct image_options options = {.cache = path};
    size_t removed = 0;

    (void)state;
    snprintf(path, sizeof path, "%s/none", folder);
    assert_int_equal(image_clean(&options, &removed, NULL), 0);
    assert_int_equal(removed, 0);
    assert_int_equal(access(path, F_OK), -1);
}

static void the_folder_comes_from_option_or_environment(void **state)
{
    const struct image_options options = {.cache = "/a"};
    char got[VT_PATH_MAX];

    (void)state;
    setenv("VTILE_CACHE", "/b", 1);
    assert_int_equal(image_cache_folder(&options, got, sizeof got, NULL), 0);
    assert_string_equal(got, "/a");
    assert_int_equal(image_cache_folder(NULL, got, sizeof got, NULL), 0);
    assert_string_equal(got, "/b");
    unsetenv("VTILE_CACHE");
    setenv("XDG_CACHE_HOME", "/c", 1);
    assert_int_equal(image_cache_folder(NULL, got, sizeof got, NULL), 0);
    assert_string_equal(got, geteuid() == 0 ? "/var/cache/vtile" : "/c/vtile");
    unsetenv("XDG_CACHE_HOME");
    assert_true(image_cache_open("relative", &cache, NULL) < 0);
}

/* sha256sum(1) of the fields written out as the header says. */
static void a_digest_separates_its_fields(void **state)
{
    const char *const argv[] = {"sh", "-c", "printf '1 a 2\\nxy1 b 0\\n' | sha256sum", NULL};
    VT_AUTO_BUF struct vt_buf expected = VT_BUF_INIT(200);
    char got[IMAGE_KEY_MAX], moved[IMAGE_KEY_MAX];
    struct image_digest d;
    struct vt_error err = VT_ERROR_INIT;

    (void)state;
    image_digest_init(&d);
    image_digest_add_text(&d, "a", "xy");
    image_digest_add_text(&d, "b", "");
    assert_int_equal(image_digest_finish(&d, got, NULL), 0);
    assert_int_equal(vt_proc_run(argv, &expected, 0, NULL), 0);
    assert_int_equal(strncmp(got, expected.data, 64), 0);
    image_digest_init(&d);
    image_digest_add_text(&d, "a", "x");
    image_digest_add_text(&d, "b", "y");
    assert_int_equal(image_digest_finish(&d, moved, NULL), 0);
    assert_string_not_equal(got, moved);
    image_digest_init(&d);
    image_digest_add_file(&d, "f", "/nonexistent");
    image_digest_add_text(&d, "b", "y");
    assert_int_equal(image_digest_finish(&d, moved, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/nonexistent"));
}

static void a_package_list_is_read_strictly(void **state)
{
    static const struct {
        const char *text, *says;
    } wrong[] = {
        {"kernel linux-image-x\nweb\n", "expected a use and a package"},
        {"kernel linux-image-x\nweb a b\n", "expected a use and a package"},
        {"kernel linux-image-x\nweb -oDpkg::Pre-Install=x\n", "no package name"},
        {"kernel linux-image-x\nweb A\n", "no package name"},
        {"kernel linux-image-x\nweb a/b\n", "no package name"},
        {"kernel a\nkernel b\n", "second kernel"},
        {"web nginx\n", "no package for the use \"kernel\""},
        {"", "no package for the use \"kernel\""},
    };
    static struct image_packages list;

    (void)state;
    assert_int_equal(
        image_packages_parse("# c\n\nkernel k\nweb nginx\ninfra nginx\nweb g++-12", &list, NULL),
        0);
    assert_string_equal(list.kernel, "k");
    assert_int_equal(list.count, 2);
    assert_string_equal(list.names[1], "g++-12");
    for (size_t i = 0; i < VT_COUNT(wrong); i++) {
        struct vt_error err = VT_ERROR_INIT;

        if (image_packages_parse(wrong[i].text, &list, &err) != -EINVAL ||
            !strstr(err.text, wrong[i].says))
            fail_msg("%s: %s", wrong[i].text, err.text);
    }
}

static void the_embedded_package_list_is_right(void **state)
{
    static struct image_packages list;
    struct vt_error err = VT_ERROR_INIT;

    (void)state;
    if (image_packages_parse(image_recipe("packages.txt"), &list, &err) < 0)
        fail_msg("%s", err.text);
    assert_true(list.count > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_part_is_there_once_it_is_published, open_cache,
                                        close_cache),
        cmocka_unit_test_setup_teardown(a_damaged_part_does_not_serve, open_cache, close_cache),
        cmocka_unit_test_setup_teardown(scratch_folders_never_count_and_are_swept, open_cache,
                                        close_cache),
        cmocka_unit_test_setup_teardown(pruning_keeps_what_was_used_last, open_cache, close_cache),
        cmocka_unit_test_setup_teardown(the_lock_keeps_others_out, open_cache, close_cache),
        cmocka_unit_test_setup_teardown(clean_leaves_a_build_at_work, open_cache, close_cache),
        cmocka_unit_test_setup_teardown(clean_without_a_cache_makes_none, open_cache, close_cache),
        cmocka_unit_test(the_folder_comes_from_option_or_environment),
        cmocka_unit_test(a_digest_separates_its_fields),
        cmocka_unit_test(a_package_list_is_read_strictly),
        cmocka_unit_test(the_embedded_package_list_is_right),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
