/* SPDX-License-Identifier: Apache-2.0 */
/* `vtile host`: what a host is, and what is in the way of a run on it. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/command.h"
#include "orchestrator/host/embed.h"
#include "orchestrator/host/host.h"
#include "orchestrator/host/preflight.h"
#include "orchestrator/host/vir_loop.h"
#include "orchestrator/run/run.h"
#include "orchestrator/settings.h"
#include "orchestrator/state.h"
#include "tiles/image/image.h"

#define CHECK_STATE_BYTES (256ULL << 20) /* record and archive of a run */

struct options {
    const char *host;
    const char *spec; /* NULL: no question of tiles */
    int64_t tiles;
    bool json;
};

static const char *version_text(unsigned long version, char *text, size_t size)
{
    snprintf(text, size, "%lu.%lu.%lu", version / 1000000, version / 1000 % 1000, version % 1000);
    return text;
}

/* ---- show ---- */

static void show_text(const struct host_info *info)
{
    char libvirt[32], hypervisor[32];

    printf("host:        %s\n", info->uri);
    printf("name:        %s\n", info->name);
    printf("hypervisor:  %s %s\n", info->driver,
           version_text(info->hypervisor_version, hypervisor, sizeof(hypervisor)));
    printf("libvirt:     %s\n", version_text(info->libvirt_version, libvirt, sizeof(libvirt)));
    if (info->emulator[0])
        printf("emulator:    %s\n", info->emulator);
    printf("CPUs:        %u\n", info->cpus);
    printf("memory:      %" PRIu64 " MiB", info->memory_bytes >> 20);
    if (info->free_bytes)
        printf(", %" PRIu64 " MiB free", info->free_bytes >> 20);
    printf("\naccel:       %s%s\n", vt_accel_name(info->accel),
           info->accel == VT_ACCEL_TCG ? " (emulated CPU: a run is DEGRADED at best)" : "");
}

static void show_json(const struct host_info *info)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(65536);
    char text[32];
    struct vt_json w;

    vt_json_message(&w, &out, "host");
    vt_json_string(&w, "uri", info->uri);
    vt_json_string(&w, "name", info->name);
    vt_json_string(&w, "hypervisor", info->driver);
    vt_json_string(&w, "hypervisor_version",
                   version_text(info->hypervisor_version, text, sizeof(text)));
    vt_json_string(&w, "libvirt_version", version_text(info->libvirt_version, text, sizeof(text)));
    vt_json_string(&w, "emulator", info->emulator);
    vt_json_uint(&w, "cpus", info->cpus);
    vt_json_uint(&w, "memory_bytes", info->memory_bytes);
    vt_json_uint(&w, "free_bytes", info->free_bytes);
    vt_json_string(&w, "accel", vt_accel_name(info->accel));
    vt_json_end(&w);
    puts(out.data ? out.data : "");
}

struct showing {
    struct host_info info;
    struct vt_error err;
    int code;
};

static void on_opened(struct host *host, void *ctx, const struct host_reply *reply)
{
    struct showing *showing = ctx;

    showing->code = reply->code;
    showing->err = reply->err;
    if (reply->code == 0)
        showing->info = *reply->info;
    host_close(host, NULL, NULL);
}

/* Opens the host and closes it again; the loop runs until it is gone. */
static int ask(const char *uri, struct host_info *ret, struct vt_error *err)
{
    VT_AUTO_FREE struct vt_loop *loop = calloc(1, sizeof(*loop));
    VT_AUTO_FREE struct showing *showing = calloc(1, sizeof(*showing));
    struct host_settings settings = {.uri = uri};
    struct host *host;
    int code;

    if (!loop || !showing)
        return vt_error_no_memory(err, "show host %s", uri);
    if ((code = vt_loop_init(loop, err)) < 0)
        return code;
    if ((code = vir_loop_init(loop, err)) == 0) {
        code = host_open(loop, &settings, on_opened, showing, &host, err);
        if (code == 0) {
            uv_run(&loop->uv, UV_RUN_DEFAULT);
            code = showing->code;
            if (code < 0)
                *err = showing->err;
        }
        vir_loop_dispose();
    }
    vt_loop_dispose(loop);
    if (code == 0)
        *ret = showing->info;
    return code;
}

static int show(const struct options *options, const char *uri, const struct state *state,
                struct vt_error *err)
{
    VT_AUTO_FREE struct host_info *info = calloc(1, sizeof(*info));
    struct embed embed = {0};
    int code = info ? 0 : vt_error_no_memory(err, "show host");

    if (code == 0 && host_uri_is_embed(uri)) {
        code = embed_open(state->embed, "host-show", &embed, err);
        if (code == 0)
            code = embed_enter(&embed, err);
    }
    if (code == 0)
        code = ask(uri, info, err);
    embed_close(&embed);
    if (code < 0)
        return code;
    if (options->json)
        show_json(info);
    else
        show_text(info);
    return 0;
}

/* ---- check ---- */

static const char *const level_names[] = {"note", "warning", "error"};

static void print_finding(const struct options *options, const struct preflight_finding *finding)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(65536);
    struct vt_json w;

    if (!options->json) {
        printf("%s: %s: %s\n", level_names[finding->level], finding->check, finding->what);
        if (finding->act[0])
            printf("    %s\n", finding->act);
        return;
    }
    vt_json_message(&w, &out, "finding");
    vt_json_string(&w, "level", level_names[finding->level]);
    vt_json_string(&w, "check", finding->check);
    vt_json_string(&w, "what", finding->what);
    vt_json_string(&w, "do", finding->act);
    vt_json_end(&w);
    puts(out.data ? out.data : "");
}

static void print_result(const struct options *options, const char *uri,
                         const struct preflight *found)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(65536);
    struct vt_json w;

    if (!options->json) {
        printf("%s: %u error%s, %u warning%s\n", uri, found->errors, found->errors == 1 ? "" : "s",
               found->warnings, found->warnings == 1 ? "" : "s");
        return;
    }
    vt_json_message(&w, &out, "result");
    vt_json_string(&w, "host", uri);
    vt_json_uint(&w, "errors", found->errors);
    vt_json_uint(&w, "warnings", found->warnings);
    vt_json_end(&w);
    puts(out.data ? out.data : "");
}

static int fill_tiles(const struct options *options, struct preflight_needs *needs,
                      struct spec *spec, struct vt_error *err)
{
    enum vt_accel accel = host_kvm_runs("/dev/kvm", NULL, 0) ? VT_ACCEL_KVM : VT_ACCEL_TCG;
    int code = options->spec ? spec_load(options->spec, spec, err) : 0;

    if (code == 0 && options->spec)
        run_fill_needs(spec, accel, options->tiles ? (unsigned)options->tiles : 1, needs);
    return code;
}

/* What a run would boot. */
static void check_image(struct preflight *found)
{
    static const char act[] = "run `vtile image build` as root";
    VT_AUTO_FREE struct image *image = calloc(1, sizeof(*image));
    char folder[VT_PATH_MAX], what[VT_PATH_MAX + 64];
    struct vt_error err = VT_ERROR_INIT;

    if (!image || image_cache_folder(NULL, folder, sizeof(folder), &err) < 0) {
        preflight_add(found, PREFLIGHT_ERROR, "image", image ? err.text : "no memory", "");
        return;
    }
    if (access(folder, F_OK) < 0) { /* to look makes nothing */
        snprintf(what, sizeof(what), "there is no guest image in %s yet", folder);
        preflight_add(found, PREFLIGHT_ERROR, "image", what, act);
    } else if (image_find(NULL, image, &err) < 0) {
        preflight_add(found, PREFLIGHT_ERROR, "image", err.text,
                      strstr(err.text, "vtile image build") ? "" : act);
    }
}

static int check(const struct options *options, const char *uri, const struct state *state,
                 struct vt_error *err)
{
    VT_AUTO_FREE struct spec *spec = calloc(1, sizeof(*spec));
    VT_AUTO_FREE struct preflight *found = calloc(1, sizeof(*found));
    VT_AUTO_FREE struct host_info *info = calloc(1, sizeof(*info));
    struct vt_error unreachable = VT_ERROR_INIT;
    const char *const qemu_paths[] = {state->folder, state->runtime, NULL};
    struct preflight_needs needs = {
        .root = "",
        .state = state->folder,
        .uri = uri,
        .embed_root = state->embed,
        .state_bytes = CHECK_STATE_BYTES,
        .qemu_paths = qemu_paths,
    };

    if (!found || !info || !spec)
        return vt_error_no_memory(err, "check host");
    int code = fill_tiles(options, &needs, spec, err);
    if (code < 0)
        return code;
    preflight_run(&needs, found);
    if (!host_uri_is_embed(uri) && ask(uri, info, &unreachable) < 0)
        preflight_add(found, PREFLIGHT_ERROR, "connection", unreachable.text,
                      "start its libvirt daemon, or choose another by --host");
    check_image(found);
    for (unsigned i = 0; i < found->n; i++)
        print_finding(options, &found->findings[i]);
    print_result(options, uri, found);
    return found->errors ? 2 : 0;
}

static int take_host(void *ctx, const char *value, struct vt_error *err)
{
    struct options *options = ctx;

    if (options->host)
        return vt_error_set(err, VT_KIND_USAGE, -EINVAL, "one host at a time");
    options->host = value;
    return 0;
}

static int take_spec(void *ctx, const char *value, struct vt_error *err)
{
    (void)err;
    ((struct options *)ctx)->spec = value;
    return 0;
}

static int take_tiles(void *ctx, const char *value, struct vt_error *err)
{
    return vt_text_parse_int(value, 1, SPEC_TILES_MAX, &((struct options *)ctx)->tiles, err);
}

static const struct settings_option own[] = {
    {.name = "host",
     .arg = "URI",
     .help = "auto, embed, or a libvirt URI (auto)",
     .take = take_host},
    {.name = "spec",
     .arg = "SPEC",
     .help = "check: how many of its tiles fit, and why no more",
     .take = take_spec},
    {.name = "tiles",
     .arg = "N",
     .help = "check: whether so many of --spec fit (1)",
     .take = take_tiles}};
const struct settings_use host_use = {
    .usage = "vtile host show|check [OPTION]...\n\n"
             "show    what the host is: hypervisor, versions, CPUs, memory, acceleration\n"
             "check   everything that is in the way of a run on it, and what to do;\n"
             "        ends with 2 when something is, with 0 otherwise",
    .options = own,
    .noptions = VT_COUNT(own),
    .operands = true};

int command_host(int argc, char **argv, struct vt_error *err)
{
    struct options options = {0};
    struct settings_use use = host_use;
    VT_AUTO_FREE struct run_settings *settings = calloc(1, sizeof(*settings));
    char uri[VT_PATH_MAX];
    struct state state;
    int first = argc, code;

    if (!settings)
        return vt_error_no_memory(err, "host");
    use.ctx = &options;
    if ((code = settings_begin(argc, argv, &use, settings, &first, err)) != 0)
        return code < 0 ? code : 0;
    options.json = settings->json;
    const char *verb = first + 1 == argc ? argv[first] : "";
    if (strcmp(verb, "show") != 0 && strcmp(verb, "check") != 0)
        return vt_error_set(err, VT_KIND_USAGE, -EINVAL,
                            "`vtile host` wants one of show, check; see `vtile host --help`");
    if ((code = state_locate(&state, err)) < 0 ||
        (code = host_choose_uri(options.host ? options.host : "auto", state.embed, uri, sizeof(uri),
                                err)) < 0)
        return code;
    if (options.tiles && !options.spec)
        return vt_error_set(err, VT_KIND_USAGE, -EINVAL, "--tiles: of what? add --spec");
    return !strcmp(verb, "show") ? show(&options, uri, &state, err)
                                 : check(&options, uri, &state, err);
}
