/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/file.h"
#include "base/scope.h"
#include "base/text.h"

#define ID_BYTES 16

/* $variable, else the place of root, else <$xdg or $HOME + below>/vtile. */
static int locate(const char *variable, const char *of_root, const char *xdg, const char *below,
                  char *path, size_t size, struct vt_error *err)
{
    const char *given = getenv(variable), *base = getenv(xdg), *home = getenv("HOME");
    int n;

    if (given && given[0])
        n = snprintf(path, size, "%s", given);
    else if (geteuid() == 0)
        n = snprintf(path, size, "%s", of_root);
    else if (base && base[0] == '/')
        n = snprintf(path, size, "%s/vtile", base);
    else if (home && home[0] == '/')
        n = snprintf(path, size, "%s/%s/vtile", home, below);
    else
        return vt_error_set(err, VT_KIND_CONFIG, -ENOENT, "set %s: neither %s nor HOME is set",
                            variable, xdg);
    /* Room for the names below it. */
    if (n < 0 || (size_t)n >= size - 64 || path[0] != '/')
        return vt_error_set(err, VT_KIND_CONFIG, -EINVAL,
                            "%s must be an absolute path of at most %zu bytes, not '%s'", variable,
                            size - 65, given ? given : path);
    while (n > 1 && path[n - 1] == '/')
        path[--n] = 0;
    return 0;
}

static int below(const struct state *state, const char *name, char *path, size_t size,
                 struct vt_error *err)
{
    int n = snprintf(path, size, "%s/%s", state->folder, name);

    if (n < 0 || (size_t)n >= size)
        return vt_error_set(err, VT_KIND_CONFIG, -ENAMETOOLONG, "%s/%s is too long", state->folder,
                            name);
    return 0;
}

/* 0 with the id, -ENOENT when there is none yet. */
static int read_id(const char *path, char id[2 * ID_BYTES + 1], struct vt_error *err)
{
    char text[2 * ID_BYTES + 2] = "";
    unsigned char bytes[ID_BYTES];
    VT_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    if (fd < 0)
        return errno == ENOENT
                   ? -ENOENT
                   : vt_error_errno(err, VT_KIND_CONFIG, errno,
                                    "read %s (sudo, or VTILE_STATE for a folder of your own)",
                                    path);
    if (read(fd, text, sizeof(text) - 1) < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "read %s", path);
    text[strcspn(text, "\n")] = 0;
    if (!vt_text_unhex(text, bytes, sizeof(bytes)))
        return vt_error_set(err, VT_KIND_CONFIG, -EBADMSG,
                            "%s must hold %d hex digits, this installation's id; remove it to get "
                            "a new one",
                            path, 2 * ID_BYTES);
    vt_text_hex(bytes, sizeof(bytes), id);
    return 0;
}

/* Made whole under another name, then linked: two programs that start at once agree on one. */
static int make_id(const char *path, struct vt_error *err)
{
    unsigned char bytes[ID_BYTES];
    char text[2 * ID_BYTES + 2], temporary[VT_PATH_MAX + 32];
    int code = 0;

    snprintf(temporary, sizeof(temporary), "%s.%d", path, (int)getpid());
    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
        return vt_error_errno(err, VT_KIND_INFRA, errno, "get random bytes");
    vt_text_hex(bytes, sizeof(bytes), text);
    text[2 * ID_BYTES] = '\n';
    VT_AUTO_CLOSE int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, 2 * ID_BYTES + 1) != 2 * ID_BYTES + 1 || fsync(fd) < 0 ||
        (link(temporary, path) < 0 && errno != EEXIST))
        code = vt_error_errno(err, VT_KIND_CONFIG, errno, "write %s", path);
    unlink(temporary);
    return code;
}

int state_locate(struct state *ret, struct vt_error *err)
{
    struct state state = {0};
    char path[VT_PATH_MAX];
    int code;

    if ((code = locate("VTILE_STATE", "/var/lib/vtile", "XDG_STATE_HOME", ".local/state",
                       state.folder, sizeof(state.folder), err)) < 0 ||
        (code = locate("VTILE_RUNTIME", "/run/vtile", "XDG_RUNTIME_DIR", ".cache", state.runtime,
                       sizeof(state.runtime), err)) < 0 ||
        (code = below(&state, "journal", state.journals, sizeof(state.journals), err)) < 0 ||
        (code = below(&state, "embed", state.embed, sizeof(state.embed), err)) < 0 ||
        (code = below(&state, "controller", path, sizeof(path), err)) < 0)
        return code;
    code = read_id(path, state.controller, err);
    if (code < 0 && code != -ENOENT)
        return code;
    *ret = state;
    return 0;
}

static int make_folder(const char *path, mode_t mode, struct vt_error *err)
{
    if (vt_file_make_folders(path, mode, VT_KIND_CONFIG, err) < 0)
        return vt_error_wrap(err, "folder of vtile (VTILE_STATE and VTILE_RUNTIME choose others)");
    return 0;
}

int state_make_folder(const char *path, struct vt_error *err)
{
    return make_folder(path, 0700, err);
}

int state_open(struct state *ret, struct vt_error *err)
{
    struct state state;
    char path[VT_PATH_MAX];
    int code;

    /* A system daemon's QEMUs run as another user and must pass to what they are given below. */
    if ((code = state_locate(&state, err)) < 0 ||
        (code = make_folder(state.folder, 0711, err)) < 0 ||
        (code = make_folder(state.runtime, 0711, err)) < 0 ||
        (code = state_make_folder(state.journals, err)) < 0 ||
        (code = below(&state, "controller", path, sizeof(path), err)) < 0)
        return code;
    if (!state.controller[0] &&
        ((code = make_id(path, err)) < 0 || (code = read_id(path, state.controller, err)) < 0))
        return code;
    *ret = state;
    return 0;
}

size_t state_journal_run(const char *file)
{
    size_t len = strlen(file), tail = strlen(STATE_JOURNAL_SUFFIX);

    return len > tail && !strcmp(file + len - tail, STATE_JOURNAL_SUFFIX) ? len - tail : 0;
}
