/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/image/resolve.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/proc.h"
#include "base/scope.h"
#include "tiles/embedded.h"
#include "tiles/image/bzimage.h"
#include "tiles/image/digest.h"

#define PART "resolved"
#define FILES "tiles/image/files/"
/* Downloads and installs everything; a slow mirror is no reason to give up, a dead one is. */
#define RECIPE_TIMEOUT_NS (45 * 60 * VT_NS_PER_S)
#define STATE_TEXT_MAX (4u << 20)
#define ARGS_MAX (IMAGE_PACKAGES_MAX + 16)

const char *image_recipe(const char *name)
{
    for (size_t i = 0; i < tiles_embedded_count; i++)
        if (!strncmp(tiles_embedded[i].path, FILES, strlen(FILES)) &&
            !strcmp(tiles_embedded[i].path + strlen(FILES), name))
            return tiles_embedded[i].data;
    assert(!"a recipe that is not embedded");
    return "";
}

int image_recipe_run(const char *name, const char *const *args, size_t count, bool isolated,
                     struct vt_buf *out, struct vt_error *err)
{
    /* With its own PID namespace all of a recipe ends when vtile does, however that happens;
     * with its own mounts nothing stays mounted. */
    static const char *const isolation[] = {"unshare",      "--mount", "--pid",
                                            "--mount-proc", "--fork",  "--kill-child=KILL"};
    const char *argv[ARGS_MAX + VT_COUNT(isolation) + 6];
    size_t n = 0;
    int r;

    if (count > ARGS_MAX)
        return vt_error_set(err, VT_KIND_CONFIG, -E2BIG, "more than %d packages", ARGS_MAX);
    for (size_t i = 0; isolated && i < VT_COUNT(isolation); i++)
        argv[n++] = isolation[i];
    argv[n++] = "sh";
    argv[n++] = "-c";
    argv[n++] = image_recipe(name);
    argv[n++] = name;
    for (size_t i = 0; i < count; i++)
        argv[n++] = args[i];
    argv[n] = NULL;
    r = vt_proc_run(argv, out, RECIPE_TIMEOUT_NS, err);
    return r < 0 ? vt_error_wrap(err, "image recipe %s", name) : 0;
}

void image_progress(const struct image_options *options, const char *fmt, ...)
{
    char text[256];
    va_list ap;

    if (!options || !options->progress)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    options->progress(options->ctx, text);
}

/* Debian Policy 5.6.1; an option ("-o...") for apt could not pass for one. */
static bool is_package(const char *name)
{
    if (!((*name >= 'a' && *name <= 'z') || (*name >= '0' && *name <= '9')))
        return false;
    return name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789+-.")] == '\0';
}

static const char *take_package(struct image_packages *list, const char *use, const char *name)
{
    if (!is_package(name))
        return "is no package name";
    if (!strcmp(use, "kernel")) {
        if (*list->kernel)
            return "is a second kernel";
        vt_text_copy(list->kernel, sizeof list->kernel, name);
        return NULL;
    }
    for (size_t i = 0; i < list->count; i++)
        if (!strcmp(list->names[i], name))
            return NULL;
    if (list->count == IMAGE_PACKAGES_MAX)
        return "is one too many";
    vt_text_copy(list->names[list->count++], IMAGE_PACKAGE_NAME_MAX, name);
    return NULL;
}

int image_packages_parse(const char *text, struct image_packages *ret, struct vt_error *err)
{
    struct image_packages list = {.count = 0};
    int number = 0;

    for (const char *line = text; *line;) {
        char copy[2 * IMAGE_PACKAGE_NAME_MAX], use[IMAGE_PACKAGE_NAME_MAX];
        char name[IMAGE_PACKAGE_NAME_MAX], rest[2];
        size_t len = strcspn(line, "\n");
        const char *wrong = NULL;

        number++;
        if (len >= sizeof copy && *line != '#')
            return vt_error_at(err, "packages.txt", number, 1, "line too long");
        if (len > 0 && *line != '#') {
            memcpy(copy, line, len);
            copy[len] = '\0';
            /* Widths are IMAGE_PACKAGE_NAME_MAX - 1. */
            if (sscanf(copy, "%95s %95s %1s", use, name, rest) != 2)
                return vt_error_at(err, "packages.txt", number, 1, "expected a use and a package");
            wrong = take_package(&list, use, name);
        }
        if (wrong)
            return vt_error_at(err, "packages.txt", number, 1, "%s %s", name, wrong);
        line += len + (line[len] == '\n');
    }
    if (!*list.kernel)
        return vt_error_at(err, "packages.txt", number, 1, "no package for the use \"kernel\"");
    *ret = list;
    return 0;
}

static int read_suite(char *ret, size_t size, struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(65536);
    static const char key[] = "\nVERSION_CODENAME=";
    const char *at;
    size_t len;
    int r;

    vt_buf_adds(&text, "\n");
    r = vt_file_read("/etc/os-release", VT_KIND_CONFIG, &text, err);
    if (r < 0)
        return r;
    at = strstr(text.data, key);
    if (at) {
        at += sizeof key - 1;
        at += *at == '"';
        len = strspn(at, "abcdefghijklmnopqrstuvwxyz");
        if (len > 0 && len < size) {
            memcpy(ret, at, len);
            ret[len] = '\0';
            return 0;
        }
    }
    return vt_error_set(err, VT_KIND_CONFIG, -ENOTSUP,
                        "/etc/os-release names no VERSION_CODENAME: images are made on Debian and "
                        "its relatives");
}

static int fingerprint(const struct image_resolution *res, char key[IMAGE_KEY_MAX],
                       struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf state = VT_BUF_INIT(STATE_TEXT_MAX);
    struct image_digest digest;
    int r = image_recipe_run("fingerprint.sh", NULL, 0, false, &state, err);

    if (r < 0)
        return r;
    image_digest_init(&digest);
    image_digest_add_text(&digest, "suite", res->suite);
    image_digest_add_text(&digest, "packages", image_recipe("packages.txt"));
    image_digest_add_text(&digest, "resolve", image_recipe("resolve.sh"));
    image_digest_add(&digest, "apt", state.data, state.len);
    return image_digest_finish(&digest, key, err);
}

static int ask_apt(struct image_cache *cache, const struct image_resolution *res, const char *key,
                   struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf versions = VT_BUF_INIT(IMAGE_VERSIONS_MAX);
    const char *args[IMAGE_PACKAGES_MAX + 3];
    char scratch[VT_PATH_MAX], path[VT_PATH_MAX + 16];
    size_t n = 0;
    int r = image_cache_scratch(cache, PART, scratch, err);

    if (r < 0)
        return r;
    args[n++] = scratch;
    args[n++] = res->suite;
    for (size_t i = 0; i < res->wanted.count; i++)
        args[n++] = res->wanted.names[i];
    args[n++] = res->wanted.kernel;
    r = image_recipe_run("resolve.sh", args, n, false, &versions, err);
    snprintf(path, sizeof path, "%s/versions", scratch);
    if (r == 0)
        r = image_file_write(path, versions.data, versions.len, 0644, err);
    if (r == 0)
        r = image_cache_publish(cache, scratch, PART, key, err);
    if (r < 0)
        image_cache_remove(scratch, NULL);
    return r;
}

/* Among the versions: the package itself, or what a package without a version in its name
 * ("linux-image-cloud-amd64") stands for ("linux-image-6.1.0-42-cloud-amd64"). */
static int find_kernel(struct image_resolution *res, struct vt_error *err)
{
    static const char prefix[] = "linux-image-";
    const char *line = res->versions.data ? res->versions.data : "";

    while (*line) {
        size_t len = strcspn(line, "\n"), name = strcspn(line, " \n");

        if (!strncmp(line, prefix, sizeof prefix - 1) && line[sizeof prefix - 1] >= '0' &&
            line[sizeof prefix - 1] <= '9' && name < sizeof res->kernel &&
            len - name < sizeof res->kernel_version && len > name + 1) {
            memcpy(res->kernel, line, name);
            res->kernel[name] = '\0';
            memcpy(res->kernel_version, line + name + 1, len - name - 1);
            res->kernel_version[len - name - 1] = '\0';
            return 0;
        }
        line += len + (line[len] == '\n');
    }
    return vt_error_set(err, VT_KIND_CONFIG, -ENOENT, "%s brings no kernel package",
                        res->wanted.kernel);
}

int image_resolve(struct image_cache *cache, const struct image_options *options, bool ask,
                  struct image_resolution *ret, struct vt_error *err)
{
    char key[IMAGE_KEY_MAX], path[VT_PATH_MAX];
    int r;

    memset(ret, 0, sizeof *ret);
    ret->versions = (struct vt_buf)VT_BUF_INIT(IMAGE_VERSIONS_MAX);
    r = image_packages_parse(image_recipe("packages.txt"), &ret->wanted, err);
    if (r == 0)
        r = read_suite(ret->suite, sizeof ret->suite, err);
    if (r == 0)
        r = fingerprint(ret, key, err);
    if (r == 0 && !ask && !image_cache_has(cache, PART, key))
        return vt_error_set(err, VT_KIND_CONFIG, -EPERM,
                            "this machine's package lists are newer than the image, and installing "
                            "packages into one needs root: run `vtile image build` as root");
    if (r == 0 && !image_cache_has(cache, PART, key)) {
        r = image_cache_lock(cache, true, err);
        if (r == 0 && !image_cache_has(cache, PART, key)) {
            image_progress(options, "asking apt which package versions there are");
            r = ask_apt(cache, ret, key, err);
        }
    }
    if (r == 0)
        r = image_cache_path(cache, PART, key, NULL, ret->folder, err);
    if (r == 0)
        r = image_cache_path(cache, PART, key, "versions", path, err);
    if (r == 0)
        r = vt_file_read(path, VT_KIND_CONFIG, &ret->versions, err);
    return r < 0 ? r : find_kernel(ret, err);
}

void image_resolution_dispose(struct image_resolution *resolution)
{
    vt_buf_dispose(&resolution->versions);
}
