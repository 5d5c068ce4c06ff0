/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/image/sums.h"

#include <errno.h>
#include <fts.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/scope.h"
#include "base/text.h"
#include "tiles/image/bzimage.h"
#include "tiles/image/digest.h"

#define SUMS_NAME "sums"
#define SUMS_END "end"      /* the last line: a list cut short is none */
#define SUMS_MAX (1U << 20) /* thousands of kernel modules */

static int digest_of(const char *path, char ret[IMAGE_KEY_MAX], struct vt_error *err)
{
    struct image_digest digest;

    image_digest_init(&digest);
    image_digest_add_file(&digest, "content", path);
    return image_digest_finish(&digest, ret, err);
}

static int add_line(const FTSENT *entry, size_t root_len, struct vt_buf *text, struct vt_error *err)
{
    char sum[IMAGE_KEY_MAX];
    int r;

    if (entry->fts_info == FTS_D || entry->fts_info == FTS_DP)
        return 0;
    if (entry->fts_info != FTS_F)
        return vt_error_set(err, VT_KIND_INFRA, -EINVAL, "%s is no plain file", entry->fts_path);
    r = digest_of(entry->fts_path, sum, err);
    if (r == 0)
        vt_buf_printf(text, "%s %" PRIu64 " %s\n", sum, (uint64_t)entry->fts_statp->st_size,
                      entry->fts_path + root_len + 1);
    return r;
}

int image_sums_write(const char *folder, struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(SUMS_MAX);
    char root[VT_PATH_MAX], path[VT_PATH_MAX + sizeof SUMS_NAME + 1];
    char *roots[] = {root, NULL};
    FTS *fts;
    int r = 0;

    if (!vt_text_copy(root, sizeof root, folder))
        return vt_error_set(err, VT_KIND_CONFIG, -ENAMETOOLONG, "path too long: %.200s", folder);
    fts = fts_open(roots, FTS_PHYSICAL | FTS_XDEV | FTS_NOCHDIR, NULL);
    if (!fts)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "read %s", folder);
    for (FTSENT *entry; r == 0 && (entry = fts_read(fts));)
        r = add_line(entry, strlen(root), &text, err);
    fts_close(fts);
    vt_buf_adds(&text, SUMS_END "\n");
    snprintf(path, sizeof path, "%s/" SUMS_NAME, root);
    if (r == 0)
        r = vt_buf_check(&text, path, err);
    return r < 0 ? r : image_file_write(path, text.data, text.len, 0644, err);
}

/* "<sum> <bytes> <path below folder>" */
static bool line_holds(const char *folder, const char *line, bool content)
{
    char path[2 * VT_PATH_MAX], sum[IMAGE_KEY_MAX];
    const char *name = NULL;
    char *end = NULL;
    uint64_t bytes;
    struct stat st;

    if (strlen(line) < IMAGE_KEY_MAX + 2 || line[IMAGE_KEY_MAX - 1] != ' ')
        return false;
    bytes = strtoull(line + IMAGE_KEY_MAX, &end, 10);
    name = *end == ' ' ? end + 1 : "";
    if (!*name || snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path ||
        lstat(path, &st) < 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size != bytes)
        return false;
    return !content || (digest_of(path, sum, NULL) == 0 && !strncmp(sum, line, IMAGE_KEY_MAX - 1));
}

bool image_sums_hold(const char *folder, bool content)
{
    VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(SUMS_MAX);
    char path[VT_PATH_MAX + sizeof SUMS_NAME + 1];
    char *line, *rest = NULL;
    bool hold = true, ended = false;

    snprintf(path, sizeof path, "%s/" SUMS_NAME, folder);
    if (vt_file_read(path, VT_KIND_CONFIG, &text, NULL) < 0 || !text.data)
        return false;
    for (line = strtok_r(text.data, "\n", &rest); hold && !ended && line;
         line = strtok_r(NULL, "\n", &rest)) {
        ended = !strcmp(line, SUMS_END);
        hold = ended || line_holds(folder, line, content);
    }
    return hold && ended;
}
