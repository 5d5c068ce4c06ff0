/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/roles/web/pages.h"

#include <stdio.h>
#include <string.h>
#include <zlib.h>

const struct web_page_form web_page_forms[WEB_PAGES] = {
    [WEB_HOME] = {"home", true, 1, 8192, 1},
    [WEB_SEARCH] = {"search", true, WEB_ITEMS, 3072, 5120},
    [WEB_CATALOG] = {"catalog", true, WEB_CATEGORIES, 6144, 8192},
    [WEB_PRODUCT] = {"product", true, WEB_ITEMS, 4096, 12288},
    [WEB_FILE_CATALOG] = {"fileCatalog", true, WEB_ITEMS, 4096, 8192},
    [WEB_FILE] = {"file", true, WEB_ITEMS, 2048, 4096},
    [WEB_DOWNLOAD] = {"download", false, WEB_DOWNLOADS, 0, 0},
};

const struct web_download_class web_download_classes[WEB_DOWNLOAD_CLASSES] = {
    {0, 32, 16384, 60},
    {32, 16, 65536, 25},
    {48, 12, 262144, 12},
    {60, 4, 1048576, 3},
};

/* SPECweb2005 Support design document: probabilities of the next page. */
const uint32_t web_matrix[WEB_PAGES][WEB_PAGES] = {
    [WEB_HOME] = {[WEB_SEARCH] = 25, [WEB_CATALOG] = 75},
    [WEB_SEARCH] = {[WEB_PRODUCT] = 50, [WEB_SEARCH] = 50},
    [WEB_CATALOG] = {[WEB_PRODUCT] = 75, [WEB_SEARCH] = 25},
    [WEB_PRODUCT] = {[WEB_FILE_CATALOG] = 80, [WEB_CATALOG] = 20},
    [WEB_FILE_CATALOG] = {[WEB_FILE] = 60, [WEB_PRODUCT] = 40},
    [WEB_FILE] = {[WEB_DOWNLOAD] = 50,
                  [WEB_FILE_CATALOG] = 20,
                  [WEB_PRODUCT] = 5,
                  [WEB_CATALOG] = 5,
                  [WEB_SEARCH] = 10,
                  [WEB_HOME] = 10},
};

const uint32_t web_mix[WEB_PAGES] = {18, 28, 26, 55, 50, 30, 15};

uint32_t web_page_bytes(enum web_page page, uint32_t argument)
{
    const struct web_page_form *form = &web_page_forms[page];

    argument %= form->arguments;
    if (form->dynamic)
        return form->bytes_min + argument * WEB_BYTES_STEP % form->bytes_span;
    for (unsigned i = WEB_DOWNLOAD_CLASSES - 1; i > 0; i--)
        if (argument >= web_download_classes[i].first)
            return web_download_classes[i].bytes;
    return web_download_classes[0].bytes;
}

size_t web_page_line(unsigned tile, enum web_page page, uint32_t argument, uint32_t sequence,
                     char *buf)
{
    const struct web_page_form *form = &web_page_forms[page];
    int n = snprintf(buf, WEB_LINE_MAX, "vtile %u %s %u %u\n", tile, form->name, argument,
                     form->dynamic ? sequence : 0);

    return (size_t)n;
}

void web_page_render(unsigned tile, enum web_page page, uint32_t argument, uint32_t sequence,
                     uint64_t seed, uint8_t *out)
{
    uint32_t bytes = web_page_bytes(page, argument);
    char line[WEB_LINE_MAX];
    size_t at = web_page_line(tile, page, argument, sequence, line);
    /* A Weyl sequence through one multiplication: enough to be unlike other files. */
    uint64_t x = seed ^ ((uint64_t)page << 32 | argument);
    uLong crc;

    memcpy(out, line, at);
    for (; at < bytes - 4; at++) {
        x += UINT64_C(0x9e3779b97f4a7c15);
        out[at] = at % 80 == 79 ? '\n' : (uint8_t)('0' + ((x * (x >> 32 | 1)) >> 58));
    }
    crc = crc32(crc32(0, NULL, 0), out, bytes - 4);
    for (unsigned i = 0; i < 4; i++)
        out[bytes - 4 + i] = (uint8_t)(crc >> 8 * i);
}
