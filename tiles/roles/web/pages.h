/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pages: what the web role's driver and its guests agree on: page names, the matrix of transitions,
 * sizes, and the contents by which an answer is checked. The matrix is that of SPECweb2005's
 * Support workload as published; names of arguments, sizes and contents are ours (the original
 * moves much larger bodies), and so figures are not comparable with that benchmark.
 *
 * Requests, always GET:
 *   /home /search /catalog /product /fileCatalog /file   ?r=<sequence>&n=<argument>   dynamic
 *   /download/<argument>                                 ?r=<sequence>&n=<argument>   static file
 *
 * A body of web_page_bytes(page, argument) bytes:
 *   "vtile <tile> <page> <argument> <r>\n"   decimal without leading zeros; r is the request's
 *                                            for dynamic pages, 0 for static ones, so that a
 *                                            cached or swapped answer is seen
 *   filler                                   any bytes
 *   4 bytes                                  CRC-32 (zlib's crc32()) of all bytes before,
 *                                            little-endian; crc32() over the whole body then
 *                                            is WEB_CRC_RESIDUE
 */
#ifndef VTILE_TILES_ROLES_WEB_PAGES_H
#define VTILE_TILES_ROLES_WEB_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum web_page {
    WEB_HOME,
    WEB_SEARCH,
    WEB_CATALOG,
    WEB_PRODUCT,
    WEB_FILE_CATALOG,
    WEB_FILE,
    WEB_DOWNLOAD,
    WEB_PAGES,
};

#define WEB_PORT 443       /* TLS, of the front */
#define WEB_ORIGIN_PORT 80 /* of the infra VM behind it */

#define WEB_CRC_RESIDUE 0x2144df1cU
#define WEB_ITEMS 256     /* products, search terms */
#define WEB_CATEGORIES 32 /* arguments of catalog */
#define WEB_DOWNLOADS 64  /* files /download/0 .. 63, 8.5 MiB in all */
#define WEB_BYTES_MAX (1U << 20)

/* Bytes of a dynamic page: bytes_min + argument * WEB_BYTES_STEP % bytes_span. */
#define WEB_BYTES_STEP 617
struct web_page_form {
    const char *name; /* as in the URL */
    bool dynamic;
    uint16_t arguments; /* 0 .. arguments - 1 */
    uint16_t bytes_min, bytes_span;
};
extern const struct web_page_form web_page_forms[WEB_PAGES];

/* Files of a class stand together: 0-31 16 KiB, 32-47 64 KiB, 48-59 256 KiB, 60-63 1 MiB. */
#define WEB_DOWNLOAD_CLASSES 4
struct web_download_class {
    uint16_t first, count;
    uint32_t bytes;  /* of each file */
    uint32_t weight; /* per cent of downloads */
};
extern const struct web_download_class web_download_classes[WEB_DOWNLOAD_CLASSES];

/* Length of the whole body. argument is taken modulo the page's number of arguments. */
uint32_t web_page_bytes(enum web_page page, uint32_t argument);

/* The first line with its newline; buf of at least WEB_LINE_MAX bytes. Returns its length.
 * sequence is ignored for static pages. */
#define WEB_LINE_MAX 80
size_t web_page_line(unsigned tile, enum web_page page, uint32_t argument, uint32_t sequence,
                     char *buf);

/* A whole body into out (web_page_bytes long): first line, printable filler drawn from seed, page
 * and argument, CRC. */
void web_page_render(unsigned tile, enum web_page page, uint32_t argument, uint32_t sequence,
                     uint64_t seed, uint8_t *out);

/* Transitions in per cent, web_matrix[from][to]; a row of zeros ends the session. */
extern const uint32_t web_matrix[WEB_PAGES][WEB_PAGES];
/* Visits to each page among 222: the exact solution of visits = home of a fresh session + visits x
 * matrix, where each download is followed by a fresh session (15 sessions of 14.8 pages). So it is
 * the mix of pages in the long run and that of a session met in its middle. */
extern const uint32_t web_mix[WEB_PAGES];

#endif
