/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/orchestrator/mini_run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/journal.h"
#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/host/clean.h"
#include "orchestrator/host/embed.h"
#include "orchestrator/host/host.h"
#include "orchestrator/host/net.h"
#include "orchestrator/host/undo.h"
#include "orchestrator/host/vir_loop.h"
#include "orchestrator/state.h"

char mini_run[13], mini_uuid[37], mini_domain[32], mini_tap[16], mini_netns[32];

static int points, die_at;

void mini_init(void)
{
    unsigned pid = (unsigned)getpid() & 0xffffff;

    snprintf(mini_run, sizeof(mini_run), "%06x%06x", pid, pid);
    snprintf(mini_uuid, sizeof(mini_uuid), "6b7f4c1e-9a52-4d0e-8f3b-000000%06x", pid);
    snprintf(mini_domain, sizeof(mini_domain), "vt-%06x-001-web", pid);
    snprintf(mini_tap, sizeof(mini_tap), "vt-%06x-001w", pid);
    snprintf(mini_netns, sizeof(mini_netns), "/run/netns/vt-%06x", pid);
}

static void journal_path(const struct state *state, char *path, size_t size)
{
    snprintf(path, size, "%s/%s.journal", state->journals, mini_run);
}

static void point(void)
{
    if (++points == die_at)
        kill(getpid(), SIGKILL);
}

static void on_call(const char *call, bool before)
{
    (void)call;
    (void)before;
    point();
}

static void on_step(const char *step)
{
    (void)step;
    point();
}

struct child {
    struct vt_loop loop;
    struct vt_journal *journal;
    struct embed embed;
    struct net net;
    struct host *host;
    bool done;
    int code;
    struct vt_error err;
};

static int ended(struct child *c, const char *what)
{
    fprintf(stderr, "mini run: %s: %s\n", what, c->err.text);
    return 1;
}

static void on_done(struct host *host, void *ctx, const struct host_reply *reply)
{
    struct child *c = ctx;

    (void)host;
    c->done = true;
    c->code = reply->code;
    c->err = reply->err;
}

static void on_closed(void *ctx)
{
    ((struct child *)ctx)->done = true;
}

static void on_undone(void *ctx, size_t left, const struct vt_error *err)
{
    struct child *c = ctx;

    c->done = true;
    c->code = left ? -EIO : 0;
    if (left)
        c->err = *err;
}

static int wait_done(struct child *c, int code)
{
    if (code < 0)
        return code;
    while (!c->done)
        uv_run(&c->loop.uv, UV_RUN_ONCE);
    c->done = false;
    return c->code;
}

static struct host *host_of(void *ctx, const char *uri, struct vt_error *err)
{
    (void)uri;
    (void)err;
    return ((struct child *)ctx)->host;
}

static char *domain_xml(const char *controller)
{
    struct vt_domain d = {.tile = 1,
                          .role = "web",
                          .accel = VT_ACCEL_TCG,
                          .vcpus = 1,
                          .memory_bytes = 32 << 20,
                          .tb_cache_bytes = 8 << 20,
                          .nnics = 1};
    char *xml = NULL;

    vt_text_copy(d.name, sizeof(d.name), mini_domain);
    vt_text_copy(d.uuid, sizeof(d.uuid), mini_uuid);
    vt_text_copy(d.run, sizeof(d.run), mini_run);
    vt_text_copy(d.nics[0].tap, sizeof(d.nics[0].tap), mini_tap);
    vt_text_copy(d.controller, sizeof(d.controller), controller);
    net_mac(mini_run, 1, 0, 0, 0, d.nics[0].mac);
    return xml_write_domain(&d, NULL, &xml, NULL) == 0 ? xml : NULL;
}

/* The order of the calls is the one that host.h asks for. */
static int set_up(struct child *c, const struct state *state)
{
    const char *const taps[] = {mini_tap};
    char path[VT_PATH_MAX + 64];

    journal_path(state, path, sizeof(path));
    if (vt_journal_open(path, &c->journal, &c->err) < 0 ||
        embed_open(state->embed, mini_run, &c->embed, &c->err) < 0 ||
        net_enter(mini_run, c->journal, &c->net, &c->err) < 0 ||
        net_add_taps(&c->net, c->journal, taps, 1, &c->err) < 0 ||
        embed_enter(&c->embed, &c->err) < 0)
        return ended(c, "set up");
    if (vt_loop_init(&c->loop, &c->err) < 0 || vir_loop_init(&c->loop, &c->err) < 0)
        return ended(c, "loop");
    return 0;
}

static int bring_up(struct child *c, const struct state *state)
{
    struct host_settings settings = {.uri = c->embed.uri};
    VT_AUTO_FREE char *xml = domain_xml(state->controller);
    char value[VT_PATH_MAX];
    uint64_t id;

    if (wait_done(c, host_open(&c->loop, &settings, on_done, c, &c->host, &c->err)) < 0)
        return ended(c, "open");
    snprintf(value, sizeof(value), "%s %s", mini_uuid, c->embed.uri);
    if (vt_journal_intent(c->journal, UNDO_DOMAIN, mini_domain, "", value, &id, &c->err) < 0 ||
        vt_journal_sync(c->journal, &c->err) < 0)
        return ended(c, "journal");
    if (wait_done(c, host_define_start(c->host, xml, on_done, c, &c->err)) < 0)
        return ended(c, "start");
    if (vt_journal_mark(c->journal, id, VT_JOURNAL_APPLIED, NULL, &c->err) < 0)
        return ended(c, "journal");
    return 0;
}

static int take_down(struct child *c, const struct state *state)
{
    struct undo_context context = {
        .host = host_of, .ctx = c, .outer_mnt_fd = c->embed.outer_mnt_fd};
    char path[VT_PATH_MAX + 64];

    if (wait_done(c, undo_start(&c->loop, c->journal, 0, &context, on_undone, c, &c->err)) < 0)
        return ended(c, "undo");
    host_close(c->host, on_closed, c);
    c->code = 0;
    wait_done(c, 0);
    vir_loop_dispose();
    vt_loop_dispose(&c->loop);
    net_leave(&c->net);
    embed_close(&c->embed);
    if (!vt_journal_all_undone(c->journal))
        return ended(c, "entries are left");
    journal_path(state, path, sizeof(path));
    unlink(path);
    vt_journal_close(c->journal);
    return 0;
}

static int run(const struct mini *mini)
{
    static struct child c;
    struct state state;
    char path[VT_PATH_MAX];

    setenv("VTILE_STATE", mini->state, 1);
    setenv("VTILE_RUNTIME", mini->state, 1);
    if (state_open(&state, &c.err) < 0)
        return ended(&c, "state");
    die_at = mini->die_at;
    host_call_hook = on_call;
    vt_journal_step_hook = on_step;
    int code = set_up(&c, &state);
    if (code == 0)
        code = bring_up(&c, &state);
    if (code == 0 && mini->when_up)
        mini->when_up(c.embed.uri);
    if (code == 0 && mini->stay) {
        if (write(mini->fd, "up", 2) == 2)
            pause();
        return 1;
    }
    if (code == 0)
        code = take_down(&c, &state);
    if (code == 0 && mini->die_at == 0) {
        snprintf(path, sizeof(path), "%s/points", mini->state);
        VT_AUTO_FCLOSE FILE *f = fopen(path, "we");
        if (f)
            fprintf(f, "%d\n", points);
    }
    return code ? code : mini->die_at ? 2 : 0;
}

pid_t mini_start(const struct mini *mini)
{
    pid_t pid = fork();

    if (pid == 0) {
        int code = run(mini);
        fflush(NULL);
        _exit(code);
    }
    return pid;
}

int mini_points(const char *state)
{
    char path[VT_PATH_MAX];
    int n = 0;

    snprintf(path, sizeof(path), "%s/points", state);
    VT_AUTO_FCLOSE FILE *f = fopen(path, "re");
    return f && fscanf(f, "%d", &n) == 1 ? n : 0;
}

static void show_line(void *ctx, const char *line)
{
    (void)ctx;
    fprintf(stderr, "  clean: %s\n", line);
}

int mini_clean(const char *state_folder, int *ret_removed, bool show)
{
    int pipe_fds[2], status, removed = 0;

    if (pipe(pipe_fds) < 0)
        return 1;
    pid_t pid = fork();
    if (pid == 0) {
        struct state state;
        struct clean_result result = {0};
        struct vt_error err = VT_ERROR_INIT;
        setenv("VTILE_STATE", state_folder, 1);
        setenv("VTILE_RUNTIME", state_folder, 1);
        int code = state_locate(&state, &err);
        struct clean_settings settings = {.state = state.folder,
                                          .embed_root = state.embed,
                                          .controller = state.controller,
                                          .say = show ? show_line : NULL};
        if (code == 0)
            code = clean_run(&settings, &result, &err);
        if (code < 0)
            fprintf(stderr, "clean: %s\n", err.text);
        removed = (int)result.removed;
        if (write(pipe_fds[1], &removed, sizeof(removed)) != sizeof(removed))
            code = -EIO;
        fflush(NULL);
        _exit(code < 0);
    }
    close(pipe_fds[1]);
    if (read(pipe_fds[0], &removed, sizeof(removed)) != sizeof(removed))
        removed = -1;
    close(pipe_fds[0]);
    waitpid(pid, &status, 0);
    *ret_removed = removed;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/* A process whose arguments hold text. */
static bool process_with(const char *text)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    bool found = false;

    while (proc && !found && (entry = readdir(proc))) {
        char path[300], line[16384];
        if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
            continue;
        snprintf(path, sizeof(path), "/proc/%s/cmdline", entry->d_name);
        VT_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? 0 : read(fd, line, sizeof(line));
        found = n > 0 && memmem(line, (size_t)n, text, strlen(text));
    }
    if (proc)
        closedir(proc);
    return found;
}

static bool folder_holds(const char *folder, const char *part, char *name, size_t size)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    bool found = false;

    while (dir && !found && (entry = readdir(dir)))
        if ((found = strstr(entry->d_name, part)))
            snprintf(name, size, "%s/%s", folder, entry->d_name);
    if (dir)
        closedir(dir);
    return found;
}

bool mini_nothing_left(const char *state, char *left, size_t size)
{
    static const char *const folders[] = {"embed/run/qemu", "embed/lib/qemu", "embed/log/qemu",
                                          "embed/etc/qemu"};
    char path[VT_PATH_MAX], mini_names[10];

    left[0] = 0;
    snprintf(mini_names, sizeof(mini_names), "%.9s", mini_domain);
    snprintf(path, sizeof(path), "%s/embed/", state);
    if (access(mini_netns, F_OK) == 0)
        snprintf(left, size, "%s", mini_netns);
    else if (process_with(mini_uuid))
        snprintf(left, size, "a QEMU with the domain's UUID");
    else if (process_with(path))
        snprintf(left, size, "a process that names %s", path);
    for (size_t i = 0; i < VT_COUNT(folders) && !left[0]; i++) {
        snprintf(path, sizeof(path), "%s/%s", state, folders[i]);
        if (!folder_holds(path, mini_names, left, size) && !folder_holds(path, ".pid", left, size))
            folder_holds(path, "qmp-", left, size);
    }
    snprintf(path, sizeof(path), "%s/journal", state);
    if (!left[0])
        folder_holds(path, ".journal", left, size);
    snprintf(path, sizeof(path), "%s/embed", state);
    if (!left[0])
        folder_holds(path, "vtile.lock", left, size);
    return !left[0];
}

const char *mini_skip_reason(void)
{
    if (geteuid() != 0)
        return "needs root for namespaces";
    if (access("/usr/bin/qemu-system-x86_64", X_OK) < 0)
        return "needs qemu-system-x86_64";
    if (access("/dev/net/tun", R_OK | W_OK) < 0)
        return "needs /dev/net/tun";
    return NULL;
}
