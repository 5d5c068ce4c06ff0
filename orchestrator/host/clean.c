/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/host/clean.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/journal.h"
#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/host/embed.h"
#include "orchestrator/host/host.h"
#include "orchestrator/host/undo.h"
#include "orchestrator/host/vir_loop.h"
#include "orchestrator/state.h"

#define RUNS_MAX 4096
#define HOSTS_MAX 4
#define BUSY_PATIENCE_NS VT_NS_PER_S
#define STRAYS_KEPT_MAX 65536

struct dead_run {
    char path[VT_PATH_MAX];
    struct vt_journal *journal;
};
struct clean {
    const struct clean_settings *settings;
    struct clean_result result;
    struct vt_error first;

    struct dead_run *dead;
    size_t ndead;
    char (*live)[33]; /* ids of runs that go on */
    size_t nlive;

    struct embed embed; /* root "": not taken */
    struct vt_loop *loop;
    struct {
        char uri[VT_PATH_MAX];
        struct host *host; /* NULL: could not be opened */
        struct vt_error err;
    } hosts[HOSTS_MAX];
    size_t nhosts;

    /* of the step that is being waited for */
    bool answered;
    struct host_reply reply;
    struct host_domain *domains;
};

static void __attribute__((format(printf, 2, 3)))
say(const struct clean *clean, const char *fmt, ...)
{
    char line[1024];
    va_list args;

    if (!clean->settings->say)
        return;
    va_start(args, fmt);
    vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    clean->settings->say(clean->settings->ctx, line);
}

static void fail(struct clean *clean, const struct vt_error *err)
{
    clean->result.left++;
    if (clean->first.kind == VT_KIND_NONE)
        clean->first = *err;
    else
        say(clean, "%s", err->text);
}

/* ---- which runs are dead ---- */

/* A child of libvirt holds what its parent held until it calls exec, also after the parent's end.
 */
static int open_journal(struct dead_run *run, struct vt_error *err)
{
    const struct timespec pause = {.tv_nsec = 10 * VT_NS_PER_MS};
    int64_t end_ns = vt_clock_now_ns() + BUSY_PATIENCE_NS;
    int code;

    while ((code = vt_journal_open(run->path, &run->journal, err)) == -EBUSY &&
           vt_clock_now_ns() < end_ns)
        nanosleep(&pause, NULL);
    return code;
}

static int add_journal(struct clean *clean, const char *file)
{
    struct dead_run *run = &clean->dead[clean->ndead];
    struct vt_error err = VT_ERROR_INIT;
    int n = snprintf(run->path, sizeof(run->path), "%s/journal/%s", clean->settings->state, file);

    if (n < 0 || (size_t)n >= sizeof(run->path))
        return 0;
    int code = open_journal(run, &err);
    if (code == 0) {
        clean->ndead++;
    } else if (code == -EBUSY) {
        snprintf(clean->live[clean->nlive++], sizeof(clean->live[0]), "%.*s",
                 (int)state_journal_run(file), file);
        clean->result.live_runs++;
    } else {
        fail(clean, &err);
    }
    return 0;
}

static int find_journals(struct clean *clean, struct vt_error *err)
{
    char path[VT_PATH_MAX];
    struct dirent *entry;
    int code = 0;

    clean->dead = calloc(RUNS_MAX, sizeof(*clean->dead));
    clean->live = calloc(RUNS_MAX, sizeof(*clean->live));
    if (!clean->dead || !clean->live)
        return vt_error_no_memory(err, "clean");
    snprintf(path, sizeof(path), "%s/journal", clean->settings->state);
    DIR *folder = opendir(path);
    if (!folder)
        return errno == ENOENT ? 0 : vt_error_errno(err, VT_KIND_CONFIG, errno, "read %s", path);
    while (code == 0 && (entry = readdir(folder))) {
        if (state_journal_run(entry->d_name) == 0)
            continue;
        if (clean->ndead + clean->nlive == RUNS_MAX)
            code = vt_error_set(err, VT_KIND_INFRA, -E2BIG, "more than %d journals in %s", RUNS_MAX,
                                path);
        else
            code = add_journal(clean, entry->d_name);
    }
    closedir(folder);
    return code;
}

/* Before anything is looked at: they might still change it. */
static void end_orphans(struct clean *clean)
{
    for (size_t i = 0; i < clean->ndead; i++)
        for (size_t j = 0; j < vt_journal_count(clean->dead[i].journal); j++) {
            const struct vt_journal_entry *entry = vt_journal_entry_at(clean->dead[i].journal, j);
            if (!strcmp(entry->kind, UNDO_NETNS) && entry->state != VT_JOURNAL_UNDONE)
                embed_end_orphans(entry->object);
        }
}

static bool is_live(const struct clean *clean, const char *run)
{
    for (size_t i = 0; i < clean->nlive; i++)
        if (!strcmp(clean->live[i], run))
            return true;
    return false;
}

/* ---- hosts ---- */

static bool wants_uri(const struct clean *clean, const char *uri)
{
    for (size_t i = 0; i < clean->ndead; i++)
        for (size_t j = 0; j < vt_journal_count(clean->dead[i].journal); j++) {
            const struct vt_journal_entry *entry = vt_journal_entry_at(clean->dead[i].journal, j);
            if (entry->state != VT_JOURNAL_UNDONE && !strcmp(entry->kind, UNDO_DOMAIN) &&
                strlen(entry->value) > 37 && !strcmp(entry->value + 37, uri))
                return true;
        }
    return false;
}

/* A file of that folder has the ending. */
static bool holds(const char *root, const char *folder_name, const char *ending)
{
    char path[VT_PATH_MAX];
    struct dirent *entry;
    bool found = false;

    snprintf(path, sizeof(path), "%s/%s", root, folder_name);
    DIR *folder = opendir(path);
    while (folder && !found && (entry = readdir(folder))) {
        size_t len = strlen(entry->d_name);
        found = len > strlen(ending) && !strcmp(entry->d_name + len - strlen(ending), ending);
    }
    if (folder)
        closedir(folder);
    return found;
}

/* Takes the embedded host's folder where it exists and nobody has it. */
static int take_embed(struct clean *clean, struct vt_error *err)
{
    const char *root = clean->settings->embed_root;
    struct vt_error busy = VT_ERROR_INIT;

    if (!root[0] || access(root, F_OK) < 0)
        return 0;
    int code = embed_open(root, "clean", &clean->embed, &busy);
    if (code == -EBUSY) {
        say(clean, "%s", busy.text);
        return 0;
    }
    if (code < 0) {
        *err = busy;
        return code;
    }
    if (clean->embed.unstarted) {
        clean->result.removed += (size_t)clean->embed.unstarted;
        say(clean, "removed %d half-started domain%s", clean->embed.unstarted,
            clean->embed.unstarted == 1 ? "" : "s");
    }
    return 0;
}

static void add_host(struct clean *clean, const char *uri)
{
    for (size_t i = 0; i < clean->nhosts; i++)
        if (!strcmp(clean->hosts[i].uri, uri))
            return;
    if (clean->nhosts < HOSTS_MAX)
        vt_text_copy(clean->hosts[clean->nhosts++].uri, VT_PATH_MAX, uri);
}

static bool embed_is_chosen(const struct clean *clean)
{
    for (size_t i = 0; i < clean->nhosts; i++)
        if (host_uri_is_embed(clean->hosts[i].uri))
            return true;
    return false;
}

/* Daemons first: once the embedded driver is in this process, libvirt asks it for qemu:///system,
 * too, instead of the daemon. */
static void choose_hosts(struct clean *clean)
{
    if (clean->settings->system_uri)
        add_host(clean, clean->settings->system_uri);
    for (size_t i = 0; i < clean->ndead; i++)
        for (size_t j = 0; j < vt_journal_count(clean->dead[i].journal); j++) {
            const struct vt_journal_entry *entry = vt_journal_entry_at(clean->dead[i].journal, j);
            if (entry->state != VT_JOURNAL_UNDONE && !strcmp(entry->kind, UNDO_DOMAIN) &&
                strlen(entry->value) > 37 && !host_uri_is_embed(entry->value + 37))
                add_host(clean, entry->value + 37);
        }
    /* An embedded driver without a domain's file has nothing to tell: it is not started. */
    if (clean->embed.root[0] &&
        (wants_uri(clean, clean->embed.uri) || holds(clean->embed.root, "run/qemu", ".xml") ||
         holds(clean->embed.root, "run/qemu", ".pid") ||
         holds(clean->embed.root, "etc/qemu", ".xml")))
        add_host(clean, clean->embed.uri);
}

static void on_reply(struct host *host, void *ctx, const struct host_reply *reply)
{
    struct clean *clean = ctx;

    (void)host;
    clean->answered = true;
    clean->reply = *reply;
    if (reply->ndomains) {
        clean->domains = calloc(reply->ndomains, sizeof(*clean->domains));
        if (clean->domains)
            memcpy(clean->domains, reply->domains, reply->ndomains * sizeof(*clean->domains));
        else
            clean->reply.ndomains = 0;
    }
}

/* Waits for what was submitted with code 0. */
static int wait_reply(struct clean *clean, int code, struct vt_error *err)
{
    if (code < 0)
        return code;
    while (!clean->answered)
        uv_run(&clean->loop->uv, UV_RUN_ONCE);
    clean->answered = false;
    if (clean->reply.code < 0 && err)
        *err = clean->reply.err;
    return clean->reply.code;
}

static void on_closed(void *ctx)
{
    ((struct clean *)ctx)->answered = true;
}

static void close_host(struct clean *clean, struct host **host)
{
    host_close(*host, on_closed, clean);
    *host = NULL;
    while (!clean->answered)
        uv_run(&clean->loop->uv, UV_RUN_ONCE);
    clean->answered = false;
}

static void open_hosts(struct clean *clean)
{
    for (size_t i = 0; i < clean->nhosts; i++) {
        char uri[VT_PATH_MAX];
        struct host_settings settings = {.uri = uri};
        struct host **host = &clean->hosts[i].host;

        embed_outer_uri(&clean->embed, clean->hosts[i].uri, uri, sizeof(uri));
        int code = host_open(clean->loop, &settings, on_reply, clean, host, &clean->hosts[i].err);
        if (code < 0)
            *host = NULL;
        else if (wait_reply(clean, code, &clean->hosts[i].err) < 0)
            close_host(clean, host);
    }
}

/* ---- entries of journals ---- */

static struct host *host_of(void *ctx, const char *uri, struct vt_error *err)
{
    struct clean *clean = ctx;

    for (size_t i = 0; i < clean->nhosts; i++)
        if (!strcmp(clean->hosts[i].uri, uri)) {
            if (!clean->hosts[i].host && err)
                *err = clean->hosts[i].err;
            return clean->hosts[i].host;
        }
    return NULL;
}

static void on_undone(void *ctx, const struct vt_journal_entry *entry)
{
    struct clean *clean = ctx;

    clean->result.removed++;
    say(clean, "removed %s %s", entry->kind, entry->object);
}

static void on_all_undone(void *ctx, size_t left, const struct vt_error *err)
{
    struct clean *clean = ctx;

    clean->answered = true;
    for (size_t i = 0; i < left; i++)
        fail(clean, err);
}

/* What a run in the background said is all that tells how it died. */
static void tell_log(const struct clean *clean, const struct dead_run *run)
{
    const char *file = strrchr(run->path, '/') + 1;
    char path[VT_PATH_MAX + 64];

    snprintf(path, sizeof(path), "%s/results/%.*s.log", clean->settings->state,
             (int)state_journal_run(file), file);
    if (access(path, F_OK) == 0)
        say(clean, "kept %s: what the run said", path);
}

static void undo_journals(struct clean *clean)
{
    const struct undo_context context = {
        .host = host_of,
        .ctx = clean,
        .outer_mnt_fd = clean->embed.root[0] ? clean->embed.outer_mnt_fd : -1,
        .undone = on_undone,
    };

    for (size_t i = 0; i < clean->ndead; i++) {
        struct dead_run *run = &clean->dead[i];
        struct vt_error err = VT_ERROR_INIT;
        if (undo_start(clean->loop, run->journal, 0, &context, on_all_undone, clean, &err) < 0) {
            fail(clean, &err);
            continue;
        }
        while (!clean->answered)
            uv_run(&clean->loop->uv, UV_RUN_ONCE);
        clean->answered = false;
        if (vt_journal_all_undone(run->journal) && unlink(run->path) < 0 && errno != ENOENT) {
            vt_error_errno(&err, VT_KIND_INFRA, errno, "remove %s", run->path);
            fail(clean, &err);
        }
        tell_log(clean, run);
    }
}

/* ---- domains by their mark ---- */

/* In our own folder the lock says that no run lives; elsewhere only this installation's dead runs
 * are ours to remove. */
static void remove_marked(struct clean *clean, size_t index)
{
    struct host *host = clean->hosts[index].host;
    bool embedded = host_uri_is_embed(clean->hosts[index].uri);
    const char *controller = embedded ? NULL : clean->settings->controller;
    struct vt_error err = VT_ERROR_INIT;

    if (!host || (!embedded && !controller))
        return;
    int code = wait_reply(clean, host_list_ours(host, controller, on_reply, clean, &err), &err);
    size_t n = clean->reply.ndomains;
    VT_AUTO_FREE struct host_domain *domains = vt_take_ptr(clean->domains);
    if (code < 0) {
        fail(clean, &err);
        return;
    }
    for (size_t i = 0; domains && i < n; i++) {
        const struct host_domain *domain = &domains[i];
        if (is_live(clean, domain->mark.run))
            continue;
        code = wait_reply(
            clean, host_destroy(host, domain->uuid, &domain->mark, on_reply, clean, &err), &err);
        if (code < 0) {
            fail(clean, &err);
            continue;
        }
        if (embedded)
            embed_forget_domain(clean->embed.root, domain->name);
        clean->result.removed++;
        say(clean, "removed domain %s of run %s", domain->name, domain->mark.run);
    }
}

/* Domains that stay (someone's own in our folder) are told by their pid files. */
static void end_strays(struct clean *clean)
{
    char path[VT_PATH_MAX];
    struct dirent *entry;
    VT_AUTO_FREE pid_t *known = calloc(STRAYS_KEPT_MAX, sizeof(*known));
    size_t n = 0;

    if (!clean->embed.root[0] || !known)
        return;
    snprintf(path, sizeof(path), "%s/run/qemu", clean->embed.root);
    DIR *folder = opendir(path);
    while (folder && n < STRAYS_KEPT_MAX && (entry = readdir(folder))) {
        size_t len = strlen(entry->d_name);
        if (len <= 4 || strcmp(entry->d_name + len - 4, ".pid") != 0)
            continue;
        entry->d_name[len - 4] = 0;
        pid_t pid = embed_domain_pid(clean->embed.root, entry->d_name);
        if (pid > 0)
            known[n++] = pid;
    }
    if (folder)
        closedir(folder);
    int ended = embed_end_strays(clean->embed.root, known, n);
    if (ended < 0) {
        struct vt_error err = VT_ERROR_INIT;
        vt_error_errno(&err, VT_KIND_INFRA, -ended, "end a QEMU that no domain is known for");
        fail(clean, &err);
    } else if (ended > 0) {
        clean->result.removed += (size_t)ended;
        say(clean, "ended %d QEMU%s that no domain is known for", ended, ended == 1 ? "" : "s");
    }
}

/* Folders of probes whose parent was killed; none is under way while we hold the lock. */
static void remove_probes(struct clean *clean)
{
    const struct undo_context context = {0};
    struct dirent *entry;
    char path[VT_PATH_MAX];

    snprintf(path, sizeof(path), "%s/lib/qemu", clean->embed.root);
    DIR *folder = clean->embed.root[0] ? opendir(path) : NULL;
    while (folder && (entry = readdir(folder))) {
        struct vt_error err = VT_ERROR_INIT;
        if (strncmp(entry->d_name, "qmp-", 4) != 0)
            continue;
        snprintf(path, sizeof(path), "%s/lib/qemu/%s", clean->embed.root, entry->d_name);
        const struct vt_journal_entry tree = {
            .kind = UNDO_TREE, .object = path, .original = "", .value = ""};
        if (undo_entry(&context, &tree, &err) < 0) {
            fail(clean, &err);
            continue;
        }
        clean->result.removed++;
        say(clean, "removed tree %s", path);
    }
    if (folder)
        closedir(folder);
}

/* ---- the whole ---- */

static void work(struct clean *clean)
{
    open_hosts(clean);
    undo_journals(clean);
    for (size_t i = 0; i < clean->nhosts; i++)
        remove_marked(clean, i);
    end_strays(clean);
    remove_probes(clean);
    if (clean->embed.root[0])
        embed_remove_stale(clean->embed.root);
    for (size_t i = 0; i < clean->nhosts; i++)
        if (clean->hosts[i].host)
            close_host(clean, &clean->hosts[i].host);
}

static int work_on_loop(struct clean *clean, struct vt_error *err)
{
    VT_AUTO_FREE struct vt_loop *loop = calloc(1, sizeof(*loop));
    int code;

    if (!loop)
        return vt_error_no_memory(err, "clean");
    if ((code = vt_loop_init(loop, err)) < 0)
        return code;
    clean->loop = loop;
    if ((code = vir_loop_init(loop, err)) == 0) {
        work(clean);
        vir_loop_dispose();
    }
    vt_loop_dispose(loop);
    return code;
}

int clean_run(const struct clean_settings *settings, struct clean_result *ret, struct vt_error *err)
{
    struct clean clean = {.settings = settings};
    int code = find_journals(&clean, err);

    if (code == 0)
        end_orphans(&clean);
    if (code == 0)
        code = take_embed(&clean, err);
    if (code == 0) {
        choose_hosts(&clean);
        if (embed_is_chosen(&clean))
            code = embed_enter(&clean.embed, err);
    }
    if (code == 0)
        code = work_on_loop(&clean, err);
    embed_close(&clean.embed);
    for (size_t i = 0; i < clean.ndead; i++)
        vt_journal_close(clean.dead[i].journal);
    free(clean.dead);
    free(clean.live);
    if (code < 0)
        return code;
    *ret = clean.result;
    if (clean.result.left) {
        if (err)
            *err = clean.first;
        return clean.first.code;
    }
    return 0;
}
