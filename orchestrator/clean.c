/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/scope.h"
#include "orchestrator/command.h"
#include "orchestrator/host/clean.h"
#include "orchestrator/host/host.h"
#include "orchestrator/state.h"

#define SYSTEM_URI "qemu:///system"

static const char help[] =
    "Usage: vtile clean [OPTION]...\n\n"
    "Removes what dead runs left behind: domains, taps, bridges, namespaces, processes, files.\n"
    "Only what a journal names or what carries vtile's mark is touched; runs that go on are left\n"
    "alone.\n\n"
    "  --json      one object for each line\n"
    "  -h, --help  this text\n";

struct output {
    bool json;
};

static void print_json(const char *type, const char *text, const struct clean_result *result)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(65536);
    struct vt_json w;

    vt_json_begin(&w, &out);
    vt_json_object(&w, NULL);
    vt_json_int(&w, "v", 1);
    vt_json_string(&w, "type", type);
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

static void say(void *ctx, const char *line)
{
    const struct output *output = ctx;

    if (output->json)
        print_json("clean", line, NULL);
    else
        puts(line);
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

int command_clean(int argc, char **argv, struct vt_error *err)
{
    static const struct option options[] = {
        {"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {0}};
    struct output output = {0};
    struct clean_result result = {0};
    struct state state;
    int option, code;

    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (option == 'h') {
            fputs(help, stdout);
            return 0;
        }
        if (option != 'j')
            return vt_error_set(err, VT_KIND_USAGE, -22, "see `vtile clean --help`");
        output.json = true;
    }
    if (optind < argc)
        return vt_error_set(err, VT_KIND_USAGE, -22, "clean takes no argument: '%s'", argv[optind]);
    if ((code = state_locate(&state, err)) < 0)
        return code;
    const struct clean_settings settings = {
        .state = state.folder,
        .embed_root = state.embed,
        .system_uri = host_daemon_answers("/run/libvirt/virtqemud-sock") ||
                              host_daemon_answers("/run/libvirt/libvirt-sock")
                          ? SYSTEM_URI
                          : NULL,
        .controller = state.controller[0] ? state.controller : NULL,
        .say = say,
        .ctx = &output,
    };
    code = clean_run(&settings, &result, err);
    if (code == 0)
        print_result(&output, &result);
    return code;
}
