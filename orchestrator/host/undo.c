/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/host/undo.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/host/embed.h"
#include "orchestrator/host/host.h"
#include "orchestrator/host/undo_kinds.h"

static const struct {
    const char *kind;
    int (*undo)(const struct undo_context *context, const struct vt_journal_entry *entry,
                struct vt_error *err);
} kinds[] = {
    {UNDO_NETNS, undo_netns},     {UNDO_BRIDGE, undo_link},   {UNDO_TAP, undo_link},
    {UNDO_FILE, undo_file},       {UNDO_FOLDER, undo_folder}, {UNDO_TREE, undo_tree},
    {UNDO_PROCESS, undo_process},
};

struct undo_domain {
    uint64_t id;
    char name[64];
};

struct undo {
    struct vt_journal *journal;
    uint64_t from_id;
    struct undo_context context;
    undo_done done;
    void *done_ctx;

    uv_async_t kick; /* every step begins on a clean stack */
    size_t next;     /* entries below it are still to be looked at */
    size_t left;
    struct vt_error first;
    /* the domains that their host works on: neighbours in the journal */
    struct undo_domain *domains;
    char (*uuids)[37];
    size_t ndomains;
    char root[VT_PATH_MAX]; /* "": not embedded */
};

static void undo_free(struct undo *undo)
{
    free(undo->domains);
    free(undo->uuids);
    free(undo);
}

int undo_entry(const struct undo_context *context, const struct vt_journal_entry *entry,
               struct vt_error *err)
{
    for (size_t i = 0; i < VT_COUNT(kinds); i++)
        if (!strcmp(kinds[i].kind, entry->kind))
            return kinds[i].undo(context, entry, err);
    return vt_error_set(err, VT_KIND_INFRA, -ENOTSUP, "no way is known to take back a '%s' (%s)",
                        entry->kind, entry->object);
}

static const struct vt_journal_entry *find_entry(const struct undo *undo, uint64_t id)
{
    for (size_t i = vt_journal_count(undo->journal); i > 0; i--)
        if (vt_journal_entry_at(undo->journal, i - 1)->id == id)
            return vt_journal_entry_at(undo->journal, i - 1);
    return NULL;
}

/* Marks the entry, or counts it as left. */
static void settle(struct undo *undo, uint64_t id, int code, struct vt_error *err)
{
    const struct vt_journal_entry *entry = find_entry(undo, id);

    if (code == 0 && undo->context.undone)
        undo->context.undone(undo->context.ctx, entry);
    if (code == 0)
        code = vt_journal_mark(undo->journal, id, VT_JOURNAL_UNDONE, NULL, err);
    if (code == 0)
        return;
    undo->left++;
    if (undo->first.kind == VT_KIND_NONE)
        undo->first = *err;
}

/* ---- domains ---- */

/* "<uuid> <uri>", into the next place. */
static int parse_domain(struct undo *undo, const struct vt_journal_entry *entry, const char **uri,
                        struct vt_error *err)
{
    struct undo_domain *domain = &undo->domains[undo->ndomains];

    *uri = entry->value + 37;
    if (strlen(entry->value) <= 37 || entry->value[36] != ' ' ||
        !vt_text_copy(domain->name, sizeof(domain->name), entry->object) ||
        strchr(domain->name, '/'))
        return vt_error_refuse(err, "'%s' '%s' is no domain and its host", entry->object,
                               entry->value);
    snprintf(undo->uuids[undo->ndomains], sizeof(*undo->uuids), "%.36s", entry->value);
    domain->id = entry->id;
    return 0;
}

/* The driver may not know it (killed while it started) or may not be reached (another run has the
 * folder, whose driver will see the QEMU go). */
static int end_embedded(const struct undo *undo, size_t i, int code, struct vt_error *err)
{
    if (!undo->root[0])
        return code;
    int ended = embed_end_uuid(undo->uuids[i]);
    if (ended < 0)
        return vt_error_errno(err, VT_KIND_INFRA, -ended, "end the QEMU of %s",
                              undo->domains[i].name);
    embed_forget_domain(undo->root, undo->domains[i].name);
    return 0;
}

static void settle_domains(struct undo *undo, int code, const struct vt_error *why,
                           const struct vt_error *failures)
{
    for (size_t i = 0; i < undo->ndomains; i++) {
        struct vt_error err = failures ? failures[i] : *why;

        settle(undo, undo->domains[i].id, end_embedded(undo, i, failures ? err.code : code, &err),
               &err);
    }
    undo->ndomains = 0;
}

static void on_destroyed(struct host *host, void *ctx, const struct host_reply *reply)
{
    struct undo *undo = ctx;

    (void)host;
    settle_domains(undo, reply->code, &reply->err, reply->failures);
    uv_async_send(&undo->kick);
}

static bool is_open(const struct undo *undo, const struct vt_journal_entry *entry)
{
    return entry->id >= undo->from_id && entry->state != VT_JOURNAL_UNDONE;
}

/* The entry before next and all open domains of the same host in front of it. *ret_uri: borrowed
 * from the journal, which marks move: to be used before any. */
static void gather_domains(struct undo *undo, const char **ret_uri)
{
    const char *uri;

    *ret_uri = NULL;
    for (; undo->next > 0; undo->next--) {
        const struct vt_journal_entry *entry = vt_journal_entry_at(undo->journal, undo->next - 1);
        struct vt_error err = VT_ERROR_INIT;

        if (!is_open(undo, entry) || strcmp(entry->kind, UNDO_DOMAIN) != 0)
            break;
        if (parse_domain(undo, entry, &uri, &err) < 0) {
            if (undo->ndomains > 0)
                break; /* the next round's first */
            undo->next--;
            settle(undo, entry->id, err.code, &err);
            return;
        }
        if (*ret_uri && strcmp(*ret_uri, uri) != 0)
            break;
        *ret_uri = uri;
        undo->ndomains++;
    }
    const char *root = *ret_uri ? embed_root_of(*ret_uri) : NULL;
    vt_text_copy(undo->root, sizeof(undo->root), root ? root : "");
}

/* True when their host answers later. */
static bool start_domains(struct undo *undo)
{
    struct vt_error err = VT_ERROR_INIT;
    const char *uri;

    gather_domains(undo, &uri);
    if (undo->ndomains == 0)
        return false;
    struct host *host =
        undo->context.host ? undo->context.host(undo->context.ctx, uri, &err) : NULL;
    if (host && host_destroy_all(host, (const char(*)[37])undo->uuids, undo->ndomains, on_destroyed,
                                 undo, &err) == 0)
        return true;
    if (err.kind == VT_KIND_NONE)
        vt_error_set(&err, VT_KIND_INFRA, -ENOTCONN, "no connection to %s", uri);
    settle_domains(undo, err.code, &err, NULL);
    return false;
}

/* ---- the walk ---- */

static void on_closed(uv_handle_t *handle)
{
    struct undo *undo = handle->data;

    undo->done(undo->done_ctx, undo->left, undo->left ? &undo->first : NULL);
    undo_free(undo);
}

static void on_kick(uv_async_t *kick)
{
    struct undo *undo = kick->data;

    while (undo->next > 0) {
        const struct vt_journal_entry *entry = vt_journal_entry_at(undo->journal, undo->next - 1);
        struct vt_error err = VT_ERROR_INIT;

        if (is_open(undo, entry) && !strcmp(entry->kind, UNDO_DOMAIN)) {
            if (start_domains(undo))
                return;
            continue;
        }
        undo->next--;
        if (!is_open(undo, entry))
            continue;
        uint64_t id = entry->id;
        settle(undo, id, undo_entry(&undo->context, entry, &err), &err);
    }
    if (!uv_is_closing((uv_handle_t *)kick))
        uv_close((uv_handle_t *)kick, on_closed);
}

int undo_start(struct vt_loop *loop, struct vt_journal *journal, uint64_t from_id,
               const struct undo_context *context, undo_done done, void *ctx, struct vt_error *err)
{
    struct undo *undo = calloc(1, sizeof(*undo));
    int rc;

    if (!undo)
        return vt_error_no_memory(err, "undo");
    undo->journal = journal;
    undo->from_id = from_id;
    undo->context = *context;
    undo->done = done;
    undo->done_ctx = ctx;
    undo->next = vt_journal_count(journal);
    undo->domains = calloc(undo->next + 1, sizeof(*undo->domains));
    undo->uuids = calloc(undo->next + 1, sizeof(*undo->uuids));
    if (!undo->domains || !undo->uuids) {
        undo_free(undo);
        return vt_error_no_memory(err, "undo");
    }
    rc = uv_async_init(&loop->uv, &undo->kick, on_kick);
    if (rc < 0) {
        undo_free(undo);
        return vt_error_errno(err, VT_KIND_INFRA, -rc, "undo");
    }
    undo->kick.data = undo;
    uv_async_send(&undo->kick);
    return 0;
}
