/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vtile image: builds and lists what guests boot.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/command.h"
#include "orchestrator/settings.h"
#include "tiles/image/image.h"

#define OUTPUT_MAX (1u << 20)

const struct settings_use image_use = {
    .usage =
        "vtile image build|list [OPTION]...\n\n"
        "build   make the parts that are missing: packages and kernel from this machine's package\n"
        "        sources (needs root), the initramfs, and a small one with agent and role files\n"
        "list    show the parts in the cache; '*' marks those a run would use now\n\n"
        "The variable VTILE_GUEST_PROGRAMS names the folder of vtile-agent and vtile-init (that "
        "of\n"
        "vtile).",
    .operands = true};

static int print_buf(const struct vt_buf *out, struct vt_error *err)
{
    int r = vt_buf_check(out, "print", err);

    if (r == 0)
        puts(out->data ? out->data : "");
    return r;
}

static void show_step(void *ctx, const char *step)
{
    (void)ctx;
    vt_log(VT_LOG_INFO, "%s", step);
}

static int build(bool json, struct vt_error *err)
{
    const struct image_options options = {.progress = show_step};
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(OUTPUT_MAX);
    int64_t start_ns = vt_clock_now_ns();
    struct image image;
    unsigned built = 0;
    double seconds;
    int r = image_build(&options, &image, &built, err);

    if (r < 0)
        return r;
    seconds = (double)(vt_clock_now_ns() - start_ns) / (double)VT_NS_PER_S;
    if (json) {
        struct vt_json w;

        vt_json_message(&w, &out, "image");
        vt_json_string(&w, "key", image.key);
        vt_json_string(&w, "kernel_version", image.kernel_version);
        vt_json_string(&w, "kernel", image.kernel);
        vt_json_string(&w, "initrd", image.initrd);
        vt_json_string(&w, "packages", image.packages);
        vt_json_string(&w, "roles", image.roles);
        vt_json_uint(&w, "built", built);
        vt_json_double(&w, "seconds", seconds, 3);
        vt_json_end(&w);
    } else {
        vt_buf_printf(&out, "image %.12s: %u of 4 parts built in %.1f s", image.key, built,
                      seconds);
    }
    return print_buf(&out, err);
}

static void list_json(struct vt_buf *out, const struct image_entry *entries, size_t count)
{
    struct vt_json w;

    vt_json_message(&w, out, "images");
    vt_json_array(&w, "parts");
    for (size_t i = 0; i < count; i++) {
        vt_json_object(&w, NULL);
        vt_json_string(&w, "part", entries[i].part);
        vt_json_string(&w, "key", entries[i].key);
        vt_json_uint(&w, "bytes", entries[i].bytes);
        vt_json_int(&w, "used", entries[i].used_ns / VT_NS_PER_S);
        vt_json_bool(&w, "current", entries[i].current);
        vt_json_end(&w);
    }
    vt_json_end(&w);
    vt_json_end(&w);
}

static void list_text(struct vt_buf *out, const struct image_entry *entries, size_t count)
{
    vt_buf_printf(out, "  %-9s %-12s %9s  %s", "part", "key", "MiB", "last used");
    for (size_t i = 0; i < count; i++) {
        time_t used = (time_t)(entries[i].used_ns / VT_NS_PER_S);
        char when[32] = "";
        struct tm tm;

        if (localtime_r(&used, &tm))
            strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &tm);
        vt_buf_printf(out, "\n%c %-9s %.12s %9.1f  %s", entries[i].current ? '*' : ' ',
                      entries[i].part, entries[i].key, (double)entries[i].bytes / (1 << 20), when);
    }
    if (count == 0)
        vt_buf_adds(out, "\nnothing yet: run `vtile image build`");
}

static int list(bool json, struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(OUTPUT_MAX);
    VT_AUTO_FREE struct image_entry *entries = NULL;
    size_t count = 0;
    int r = image_list(NULL, &entries, &count, err);

    if (r < 0)
        return r;
    if (json)
        list_json(&out, entries, count);
    else
        list_text(&out, entries, count);
    return print_buf(&out, err);
}

int command_image(int argc, char **argv, struct vt_error *err)
{
    VT_AUTO_FREE struct run_settings *settings = calloc(1, sizeof(*settings));
    int first = argc, r;

    if (!settings)
        return vt_error_no_memory(err, "image");
    r = settings_begin(argc, argv, &image_use, settings, &first, err);
    if (r != 0)
        return r < 0 ? r : 0;
    if (first + 1 == argc && !strcmp(argv[first], "build"))
        return build(settings->json, err);
    if (first + 1 == argc && !strcmp(argv[first], "list"))
        return list(settings->json, err);
    return vt_error_set(err, VT_KIND_USAGE, -EINVAL,
                        "`vtile image` wants one of build, list; see `vtile image --help`");
}
