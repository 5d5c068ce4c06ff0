/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/scope.h"
#include "orchestrator/command.h"
#include "orchestrator/host/clean.h"
#include "orchestrator/host/host.h"
#include "orchestrator/settings.h"
#include "orchestrator/state.h"
#include "tiles/image/image.h"

#define SYSTEM_URI "qemu:///system"

const struct settings_use clean_use = {
    .usage =
        "vtile clean [OPTION]...\n\n"
        "Removes what dead runs left behind: domains, taps, bridges, namespaces, processes,\n"
        "files. Only what a journal names or what carries vtile's mark is touched; runs that go\n"
        "on are left alone. Then the half-made parts of images that killed builds left in the\n"
        "cache, unless a build is at work."};

struct output {
    bool json;
};

static void print_json(const char *type, const char *text, const struct clean_result *result)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(65536);
    struct vt_json w;

    vt_json_message(&w, &out, type);
    if (text)
        vt_json_string(&w, "text", text);
    if (result) {
        vt_json_uint(&w, "removed", result->removed);
        vt_json_uint(&w, "left", result->left);
        vt_json_uint(&w, "live_runs", result->live_runs);
    }
    vt_json_end(&w);
    if (out.data)
        puts(out.data);
}

static void print_line(const struct output *output, const char *line)
{
    if (output->json)
        print_json("clean", line, NULL);
    else
        puts(line);
}

static void say(void *ctx, const char *line)
{
    print_line(ctx, line);
}

static void print_result(const struct output *output, const struct clean_result *result)
{
    if (output->json) {
        print_json("result", NULL, result);
        return;
    }
    if (result->removed)
        printf("%zu object%s removed", result->removed, result->removed == 1 ? "" : "s");
    else
        printf("nothing to do");
    if (result->live_runs)
        printf("; %zu run%s left alone", result->live_runs,
               result->live_runs == 1 ? " that goes on is" : "s that go on are");
    putchar('\n');
}

static int clean_images(const struct output *output, struct clean_result *result,
                        struct vt_error *err)
{
    size_t removed = 0;
    char line[80];
    int code = image_clean(NULL, &removed, err);

    if (removed > 0) {
        snprintf(line, sizeof(line), "images: %zu half-made part%s removed", removed,
                 removed == 1 ? "" : "s");
        print_line(output, line);
    }
    result->removed += removed;
    return code;
}

int command_clean(int argc, char **argv, struct vt_error *err)
{
    VT_AUTO_FREE struct run_settings *settings = calloc(1, sizeof(*settings));
    struct output output = {0};
    struct clean_result result = {0};
    struct state state;
    int code;

    if (!settings)
        return vt_error_no_memory(err, "clean");
    if ((code = settings_begin(argc, argv, &clean_use, settings, NULL, err)) != 0)
        return code < 0 ? code : 0;
    output.json = settings->json;
    if ((code = state_locate(&state, err)) < 0)
        return code;
    const struct clean_settings what = {
        .state = state.folder,
        .embed_root = state.embed,
        .system_uri = host_system_socket() ? SYSTEM_URI : NULL,
        .controller = state.controller[0] ? state.controller : NULL,
        .say = say,
        .ctx = &output,
    };
    code = clean_run(&what, &result, err);
    if (code == 0)
        code = clean_images(&output, &result, err);
    if (code == 0)
        print_result(&output, &result);
    return code;
}
