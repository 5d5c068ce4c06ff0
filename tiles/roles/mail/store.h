/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store: the mailboxes on disk: Maildir, a folder a user. Made before the server starts, and looked
 * through after the window.
 */
#ifndef VTILE_TILES_ROLES_MAIL_STORE_H
#define VTILE_TILES_ROLES_MAIL_STORE_H

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/* Fills dir with the mailboxes of mail.h, count messages each, owned by uid and gid and on the disk
 * when it returns. What a call before made to its end is kept as sessions left it; -EEXIST where
 * that was for another tile, seed or count. */
int store_make(const char *dir, unsigned tile, uint64_t seed, uint32_t count, uid_t uid, gid_t gid,
               struct vt_error *err);

struct store_found {
    uint64_t messages, appended; /* right ones; appended are among them */
    uint64_t wrong;              /* not whole, or of another mailbox, or with a wrong checksum */
    uint64_t twice;              /* appended under one sequence, beyond the first */
    char first_wrong[160];
};
/* Reads every message. bits_path: a bit for each sequence that was appended, as role.h says. */
int store_look(const char *dir, unsigned tile, const char *bits_path, struct store_found *ret,
               struct vt_error *err);

#endif
