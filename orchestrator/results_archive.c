/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/results_archive.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/scope.h"
#include "orchestrator/state.h"
#include "orchestrator/watch/reader.h"

/* Own fingerprint first, then those of the command line. */
struct trusted {
    char own[ARCHIVE_FINGERPRINT_TEXT];
    const char *fingerprints[RESULTS_TRUST_MAX + 1];
    size_t n;
};

/* Without a key of its own, or one that this user may read, an installation trusts nobody yet. */
static int load_trust(const char *const *trusted, size_t ntrusted, struct trusted *ret,
                      struct vt_error *err)
{
    struct archive_key *key = NULL;
    struct state state;
    char folder[VT_PATH_MAX + 16];
    int r = state_locate(&state, err);

    *ret = (struct trusted){0};
    if (r < 0)
        return r;
    snprintf(folder, sizeof(folder), "%s/keys", state.folder);
    r = archive_key_load(folder, false, &key, err);
    if (r == 0) {
        vt_text_copy(ret->own, sizeof(ret->own), archive_key_fingerprint(key));
        ret->fingerprints[ret->n++] = ret->own;
    } else if (r != -ENOENT && r != -EACCES) {
        return r;
    }
    vt_error_clear(err);
    archive_key_free(key);
    for (size_t i = 0; i < ntrusted && i < RESULTS_TRUST_MAX; i++)
        ret->fingerprints[ret->n++] = trusted[i];
    return 0;
}

struct matches {
    unsigned n;
    char run[64];
    char names[256]; /* "1a2b3c4d5e6f 0123..." */
};

static void look_at(struct matches *found, const char *entry, const char *name)
{
    size_t len = strlen(entry), tail = strlen(ARCHIVE_SUFFIX), used = strlen(found->names);

    if (len <= tail || strcmp(entry + len - tail, ARCHIVE_SUFFIX) != 0 ||
        strncmp(entry, name, strlen(name)) != 0)
        return;
    len -= tail;
    if (len < strlen(name) || len >= sizeof(found->run))
        return;
    found->n++;
    snprintf(found->run, sizeof(found->run), "%.*s", (int)len, entry);
    if (used + len + 2 < sizeof(found->names))
        snprintf(found->names + used, sizeof(found->names) - used, "%s%s", used ? " " : "",
                 found->run);
}

/* The runs whose archives are here and whose ids begin so. */
static int find_beginning(const char *folder, const char *name, struct matches *ret,
                          struct vt_error *err)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;

    if (!dir && errno != ENOENT)
        return vt_error_errno(err, VT_KIND_CONFIG, errno, "look for run %s in %s", name, folder);
    while (name[0] && dir && (entry = readdir(dir)))
        look_at(ret, entry->d_name, name);
    if (dir)
        closedir(dir);
    if (ret->n > 1)
        return vt_error_set(err, VT_KIND_USAGE, -EINVAL, "%u runs begin with %s: name one of %s",
                            ret->n, name, ret->names);
    return 0;
}

static int refuse_run(const struct state *state, const char *name, struct vt_error *err)
{
    struct watch_reader reader;
    int r = name[0] ? watch_reader_open(&reader, state->runtime, name, false, NULL) : -ENOENT;

    if (r == 0)
        vt_error_set(err, VT_KIND_USAGE, -EBUSY,
                     "run %s still goes on and has no archive yet; `vtile watch %s` follows it",
                     reader.run, reader.run);
    else
        vt_error_set(err, VT_KIND_USAGE, -ENOENT,
                     "no run %s: neither a file of that name nor an archive in %s/results", name,
                     state->folder);
    if (name[0])
        watch_reader_close(&reader);
    return r == 0 ? -EBUSY : -ENOENT;
}

static int find(const char *name, char path[VT_PATH_MAX], struct vt_error *err)
{
    char folder[VT_PATH_MAX + 16];
    struct matches found = {0};
    struct state state;
    int r;

    if (access(name, F_OK) == 0 || strchr(name, '/') || strchr(name, '.'))
        return vt_text_copy(path, VT_PATH_MAX, name)
                   ? 0
                   : vt_error_set(err, VT_KIND_USAGE, -ENAMETOOLONG, "path too long");
    r = state_locate(&state, err);
    if (r < 0)
        return r;
    if (snprintf(path, VT_PATH_MAX, "%s/results/%s" ARCHIVE_SUFFIX, state.folder, name) >=
        VT_PATH_MAX)
        return vt_error_set(err, VT_KIND_USAGE, -ENAMETOOLONG, "path too long");
    if (name[0] && access(path, F_OK) == 0)
        return 0;
    snprintf(folder, sizeof(folder), "%s/results", state.folder);
    r = find_beginning(folder, name, &found, err);
    if (r < 0)
        return r;
    if (found.n == 0)
        return refuse_run(&state, name, err);
    return snprintf(path, VT_PATH_MAX, "%s/%s" ARCHIVE_SUFFIX, folder, found.run) < VT_PATH_MAX
               ? 0
               : vt_error_set(err, VT_KIND_USAGE, -ENAMETOOLONG, "path too long");
}

static int begin(struct results_archive *archive, const char *name,
                 const struct results_access *access, struct trusted *ret, struct vt_error *err)
{
    int r;

    memset(archive, 0, sizeof(*archive));
    r = find(name, archive->path, err);
    return r == 0 ? load_trust(access->trusted, access->ntrusted, ret, err) : r;
}

/* This installation's own key, where there is one that this user may read, and those given. */
static int load_readers(const struct results_access *access, struct archive_readers **ret,
                        struct vt_error *err)
{
    struct archive_readers *readers = NULL;
    struct archive_key *own = NULL;
    struct state state;
    char folder[VT_PATH_MAX + 16];
    int r = archive_readers_new(&readers, err);

    for (size_t i = 0; r == 0 && i < access->nkeys; i++)
        r = archive_readers_add(readers, access->keys[i], err);
    if (r == 0)
        r = state_locate(&state, err);
    if (r == 0) {
        snprintf(folder, sizeof(folder), "%s/keys", state.folder);
        r = archive_key_load_reader(folder, false, &own, err);
        if (r == 0)
            r = archive_readers_add_key(readers, own, err);
        else if (r == -ENOENT || r == -EACCES)
            r = 0;
    }
    archive_key_free(own);
    if (r < 0) {
        archive_readers_free(readers);
        return r;
    }
    vt_error_clear(err);
    *ret = readers;
    return 0;
}

int results_archive_verify(struct results_archive *archive, const char *name,
                           const struct results_access *access, struct vt_error *err)
{
    struct trusted all;
    int r = begin(archive, name, access, &all, err);

    if (r == 0) {
        const struct archive_trust trust = {all.fingerprints, all.n};
        r = archive_verify(archive->path, &trust, &archive->report, err);
    }
    archive->own = r == 0 && !strcmp(all.own, archive->report.fingerprint);
    return r;
}

/* Opens the record, or unpacks it where to is given. */
static int read_record(struct results_archive *archive, const char *name,
                       const struct results_access *access, const char *to,
                       struct record_reader **ret, struct vt_error *err)
{
    struct archive_readers *readers = NULL;
    struct trusted all;
    int r = begin(archive, name, access, &all, err);

    if (r == 0)
        r = load_readers(access, &readers, err);
    if (r == 0) {
        const struct archive_trust trust = {all.fingerprints, all.n};
        r = to ? archive_unpack_record(archive->path, &trust, readers, to, &archive->report, err)
               : archive_open_record(archive->path, &trust, readers, NULL, &archive->report, ret,
                                     err);
    }
    archive_readers_free(readers);
    archive->own = r == 0 && !strcmp(all.own, archive->report.fingerprint);
    return r;
}

int results_archive_open(struct results_archive *archive, const char *name,
                         const struct results_access *access, struct record_reader **ret,
                         struct vt_error *err)
{
    return read_record(archive, name, access, NULL, ret, err);
}

int results_archive_unpack(struct results_archive *archive, const char *name,
                           const struct results_access *access, const char *to,
                           struct vt_error *err)
{
    return read_record(archive, name, access, to, NULL, err);
}

void results_archive_dispose(struct results_archive *archive)
{
    archive_report_dispose(&archive->report);
}

int results_archive_trust(const char *const *trusted, size_t ntrusted,
                          int (*with)(const struct archive_trust *trust, void *ctx,
                                      struct vt_error *err),
                          void *ctx, struct vt_error *err)
{
    struct trusted all;
    int r = load_trust(trusted, ntrusted, &all, err);

    if (r == 0) {
        const struct archive_trust trust = {all.fingerprints, all.n};
        r = with(&trust, ctx, err);
    }
    return r;
}
