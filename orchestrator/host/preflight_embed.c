/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/scope.h"
#include "orchestrator/host/embed.h"
#include "orchestrator/host/host.h"
#include "orchestrator/host/preflight_checks.h"
#include "orchestrator/state.h"

static void check_holder(const struct preflight_needs *needs, struct preflight *preflight)
{
    struct embed_holder holder;
    char root[VT_PATH_MAX];

    if (embed_read_holder(preflight_at(needs, needs->embed_root, root, sizeof(root)), &holder,
                          NULL) < 0 ||
        holder.pid == 0)
        return;
    preflight_findf(preflight, PREFLIGHT_ERROR, "host",
                    "wait for that run: `vtile watch` follows it, `vtile attach` can end it",
                    "the embedded host %s is in use by run %s (pid %d)", needs->embed_root,
                    holder.run[0] ? holder.run : "?", (int)holder.pid);
}

static bool has_user(const struct preflight_needs *needs)
{
    char path[VT_PATH_MAX], line[1024];
    VT_AUTO_FCLOSE FILE *f = fopen(preflight_at(needs, "/etc/passwd", path, sizeof(path)), "re");

    while (f && fgets(line, sizeof(line), f))
        if (!strncmp(line, "libvirt-qemu:", 13))
            return true;
    return false;
}

void preflight_check_embed(const struct preflight_needs *needs, struct preflight *preflight)
{
    char root[VT_PATH_MAX], emulator[VT_PATH_MAX];

    if (!needs->uri || !host_uri_is_embed(needs->uri) || !needs->embed_root ||
        !needs->embed_root[0])
        return;
    if (strlen(needs->embed_root) > EMBED_ROOT_MAX)
        preflight_findf(preflight, PREFLIGHT_ERROR, "path", "set VTILE_STATE to a shorter path",
                        "%s has %zu bytes, at most %d are possible: sockets stand in it, whose "
                        "paths have 107 at most",
                        needs->embed_root, strlen(needs->embed_root), EMBED_ROOT_MAX);
    check_holder(needs, preflight);
    if (!has_user(needs))
        preflight_add(preflight, PREFLIGHT_NOTE, "user",
                      "there is no user libvirt-qemu, which libvirt asks for: this run sees one of "
                      "its own in a private mount namespace",
                      "");
    if (embed_cache_is_cold(
            preflight_at(needs, needs->embed_root, root, sizeof(root)),
            preflight_at(needs, "/usr/bin/qemu-system-x86_64", emulator, sizeof(emulator))))
        preflight_add(preflight, PREFLIGHT_NOTE, "cache",
                      "libvirt will ask the emulators what they can do: the first start takes "
                      "about 5 s more",
                      "");
}

/* Journals are locked as long as their run lives. */
void preflight_check_leftovers(const struct preflight_needs *needs, struct preflight *preflight)
{
    char journals[VT_PATH_MAX], path[VT_PATH_MAX], name[64] = "";
    struct dirent *entry;
    unsigned dead = 0;

    if (!needs->state || !needs->state[0])
        return;
    snprintf(journals, sizeof(journals), "%s/journal", needs->state);
    DIR *folder = opendir(preflight_at(needs, journals, path, sizeof(path)));
    while (folder && (entry = readdir(folder))) {
        size_t len = state_journal_run(entry->d_name);
        if (len == 0)
            continue;
        VT_AUTO_CLOSE int fd =
            openat(dirfd(folder), entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) < 0)
            continue;
        if (dead++ == 0)
            snprintf(name, sizeof(name), "%.*s", (int)len, entry->d_name);
    }
    if (folder)
        closedir(folder);
    if (dead)
        preflight_findf(preflight, PREFLIGHT_WARNING, "leftovers", "run `vtile clean`",
                        "%u dead run%s (%s%s) left things behind that take memory and CPU", dead,
                        dead == 1 ? "" : "s", name, dead == 1 ? "" : ", ...");
}
