/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/roles/template.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/scope.h"
#include "base/text.h"

static const char *find_value(const struct template_value *values, size_t nvalues, const char *name,
                              size_t len)
{
    for (size_t i = 0; i < nvalues; i++)
        if (strlen(values[i].name) == len && !memcmp(values[i].name, name, len))
            return values[i].value;
    return NULL;
}

int template_fill(const char *dir, const char *file_in, const char *out_path,
                  const struct template_value *values, size_t nvalues, struct vt_error *err)
{
    static const char name_chars[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    VT_AUTO_BUF struct vt_buf in = VT_BUF_INIT(TEMPLATE_BYTES_MAX);
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(TEMPLATE_BYTES_MAX);
    char path[1024];
    int ret;

    if (snprintf(path, sizeof(path), "%s/%s", dir, file_in) >= (int)sizeof(path))
        return vt_error_set(err, VT_KIND_INFRA, -ENAMETOOLONG, "template path %s/%s", dir, file_in);
    ret = vt_file_read(path, VT_KIND_INFRA, &in, err);
    if (ret < 0)
        return vt_error_wrap(err, "template");
    for (const char *at = in.data; at && *at;) {
        const char *mark = strchr(at, '@');
        size_t len = mark ? strspn(mark + 1, name_chars) : 0;
        const char *value;

        if (!mark) {
            vt_buf_adds(&out, at);
            break;
        }
        vt_buf_add(&out, at, (size_t)(mark - at));
        if (len == 0 || mark[1 + len] != '@') {
            vt_buf_add(&out, "@", 1);
            at = mark + 1;
            continue;
        }
        value = find_value(values, nvalues, mark + 1, len);
        if (!value)
            return vt_error_set(err, VT_KIND_INFRA, -EINVAL, "template %s: no value for @%.*s@",
                                path, (int)len, mark + 1);
        vt_buf_adds(&out, value);
        at = mark + 1 + len + 1;
    }
    ret = vt_buf_check(&out, path, err);
    return ret < 0 ? ret : vt_file_write(out_path, out.data, out.len, 0644, err);
}
