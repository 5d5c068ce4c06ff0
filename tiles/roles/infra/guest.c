/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/rng.h"
#include "base/scope.h"
#include "base/text.h"
#include "tiles/roles/nginx.h"
#include "tiles/roles/probe.h"
#include "tiles/roles/registry.h"
#include "tiles/roles/web/pages.h"

#define FILLER_OFFSETS 1024 /* a page's filler begins at argument % this */

static int write_downloads(const struct role_guest *guest, struct vt_error *err)
{
    VT_AUTO_FREE uint8_t *body = malloc(WEB_BYTES_MAX);
    char path[512];
    int ret;

    if (!body)
        return vt_error_no_memory(err, "contents of downloads");
    snprintf(path, sizeof(path), "%s/download", guest->data_dir);
    ret = vt_file_make_folders(path, 0755, VT_KIND_INFRA, err);
    for (uint32_t i = 0; ret == 0 && i < WEB_DOWNLOADS; i++) {
        web_page_render(guest->tile, WEB_DOWNLOAD, i, 0, guest->seed, body);
        snprintf(path, sizeof(path), "%s/download/%u", guest->data_dir, i);
        ret = vt_file_write(path, body, web_page_bytes(WEB_DOWNLOAD, i), 0644, err);
    }
    return ret;
}

/* The table of pages and their filler as PHP, so that C and PHP cannot disagree. */
static int write_pages(const struct role_guest *guest, struct vt_error *err)
{
    static const char letters[] =
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";
    VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(64U << 10);
    uint32_t longest = 0;
    struct vt_rng rng;
    char path[512];
    int ret;

    vt_rng_seed(&rng, guest->seed, "infra/filler", guest->tile);
    vt_buf_printf(&text,
                  "<?php\nreturn ['tile' => %u, 'step' => %u, 'offsets' => %u, 'pages' => [\n",
                  guest->tile, WEB_BYTES_STEP, FILLER_OFFSETS);
    for (unsigned page = 0; page < WEB_PAGES; page++) {
        const struct web_page_form *form = &web_page_forms[page];

        if (!form->dynamic)
            continue;
        vt_buf_printf(&text, "'%s' => [%u, %u, %u],\n", form->name, form->arguments,
                      form->bytes_min, form->bytes_span);
        if (longest < (uint32_t)form->bytes_min + form->bytes_span)
            longest = (uint32_t)form->bytes_min + form->bytes_span;
    }
    vt_buf_adds(&text, "], 'filler' => '");
    for (uint32_t i = 0; i < longest + FILLER_OFFSETS; i++)
        vt_buf_add(&text, &letters[vt_rng_next(&rng) >> 58], 1);
    vt_buf_adds(&text, "'];\n");
    ret = vt_buf_check(&text, "table of pages", err);
    if (ret < 0)
        return ret;
    snprintf(path, sizeof(path), "%s/pages-data.php", guest->data_dir);
    return vt_file_write(path, text.data, text.len, 0644, err);
}

static int prepare(struct role_guest *guest, struct vt_error *err)
{
    char children[12];
    const struct template_value values[] = {
        {"CHILDREN", children},
        {"DATA_DIR", guest->data_dir},
    };
    int ret = write_downloads(guest, err);

    if (ret == 0)
        ret = write_pages(guest, err);
    if (ret < 0)
        return ret;
    snprintf(children, sizeof(children), "%u", 2 * guest->vcpus);
    return nginx_guest_configure(guest, true, values, VT_COUNT(values), err);
}

static int ready(struct role_guest *guest, struct vt_error *err)
{
    int ret = nginx_guest_php_listens(guest, err);

    return ret < 0 ? ret : probe_http(guest->address, WEB_ORIGIN_PORT, PROBE_PAGE, NULL, err);
}

const struct role_guest_ops role_infra_guest = {
    .prepare = prepare,
    .start = nginx_guest_start_php,
    .ready = ready,
    .check = nginx_guest_facts,
    .logs = nginx_guest_php_logs,
};
