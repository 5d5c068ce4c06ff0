/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The web role's load: sessions of a support site over kept HTTPS connections. A session walks the
 * matrix of pages.h; every answer is checked to its last byte.
 */
#include <string.h>
#include <zlib.h>

#include "tiles/load/http_exchange.h"
#include "tiles/roles/registry.h"
#include "tiles/roles/web/pages.h"

/* round(2^24 / (i + 1)^1.2): popularity of items, Zipf 1.2 as in the model workload. */
static const uint32_t popularity[WEB_ITEMS] = {
    16777216, 7302707, 4489256, 3178688, 2431957, 1954062, 1624061, 1383604, 1201238, 1058571,
    944167,   850555,  772659,  706913,  650744,  602249,  559991,  522869,  490022,  460770,
    434567,   410972,  389625,  370226,  352527,  336319,  321428,  307702,  295014,  283253,
    272324,   262144,  252641,  243750,  235417,  227592,  220231,  213294,  206749,  200562,
    194706,   189156,  183890,  178886,  174127,  169594,  165273,  161150,  157212,  153446,
    149843,   146392,  143083,  139910,  136863,  133935,  131120,  128412,  125805,  123293,
    120872,   118536,  116282,  114105,  112002,  109968,  108002,  106098,  104256,  102471,
    100742,   99065,   97439,   95861,   94329,   92842,   91397,   89993,   88627,   87300,
    86008,    84751,   83527,   82335,   81174,   80043,   78940,   77865,   76816,   75793,
    74795,    73820,   72869,   71939,   71032,   70145,   69278,   68430,   67602,   66791,
    65999,    65223,   64464,   63721,   62993,   62281,   61583,   60899,   60229,   59573,
    58929,    58299,   57680,   57073,   56478,   55895,   55322,   54760,   54208,   53666,
    53135,    52612,   52100,   51596,   51101,   50615,   50137,   49667,   49205,   48751,
    48305,    47866,   47435,   47010,   46593,   46182,   45778,   45380,   44989,   44603,
    44224,    43850,   43483,   43121,   42764,   42413,   42067,   41726,   41390,   41059,
    40733,    40412,   40095,   39783,   39475,   39172,   38872,   38577,   38286,   37999,
    37716,    37437,   37162,   36890,   36622,   36357,   36096,   35838,   35584,   35333,
    35085,    34841,   34599,   34361,   34125,   33893,   33663,   33436,   33212,   32991,
    32772,    32556,   32343,   32132,   31924,   31718,   31514,   31313,   31115,   30918,
    30724,    30532,   30342,   30155,   29969,   29786,   29605,   29425,   29248,   29073,
    28899,    28728,   28558,   28390,   28224,   28059,   27897,   27736,   27577,   27419,
    27263,    27109,   26957,   26805,   26656,   26508,   26361,   26216,   26073,   25931,
    25790,    25651,   25513,   25376,   25241,   25107,   24974,   24843,   24713,   24584,
    24456,    24330,   24204,   24080,   23957,   23836,   23715,   23595,   23477,   23360,
    23243,    23128,   23014,   22901,   22789,   22678,   22568,   22458,   22350,   22243,
    22137,    22031,   21927,   21823,   21721,   21619,
};

static const char *const operations[WEB_PAGES] = {
    "home", "search", "catalog", "product", "fileCatalog", "file", "download",
};

/* --- plan --- */

struct web_session {
    uint32_t page, item;
};

static uint32_t draw_download(struct vt_rng *rng)
{
    uint32_t weight[WEB_DOWNLOAD_CLASSES];
    const struct web_download_class *class;

    for (unsigned i = 0; i < WEB_DOWNLOAD_CLASSES; i++)
        weight[i] = web_download_classes[i].weight;
    class = &web_download_classes[vt_rng_pick(rng, weight, WEB_DOWNLOAD_CLASSES)];
    return class->first + (uint32_t)vt_rng_below(rng, class->count);
}

/* A file and its list belong to the product looked at before. */
static uint32_t draw_argument(struct web_session *session, struct vt_rng *rng, bool first)
{
    switch (session->page) {
    case WEB_HOME:
        return 0;
    case WEB_SEARCH:
        return vt_rng_pick(rng, popularity, WEB_ITEMS);
    case WEB_CATALOG:
        return (uint32_t)vt_rng_below(rng, WEB_CATEGORIES);
    case WEB_DOWNLOAD:
        return draw_download(rng);
    default:
        if (first || session->page == WEB_PRODUCT)
            session->item = vt_rng_pick(rng, popularity, WEB_ITEMS);
        return session->item;
    }
}

static bool web_plan(void *state, struct vt_rng *rng, const struct spec_load *load, bool first,
                     bool fresh, uint16_t *operation, uint32_t *argument, int64_t *gap_ns)
{
    struct web_session *session = state;

    if (!first && session->page == WEB_DOWNLOAD)
        return false;
    if (!first)
        session->page = vt_rng_pick(rng, web_matrix[session->page], WEB_PAGES);
    else
        session->page = fresh ? WEB_HOME : vt_rng_pick(rng, web_mix, WEB_PAGES);
    *operation = (uint16_t)session->page;
    *argument = draw_argument(session, rng, first);
    *gap_ns = driver_draw_gap_ns(rng, load);
    return true;
}

/* --- a connection --- */

struct web_conn {
    struct http_exchange http;
    const struct driver_target *target;
    /* What the answer must be. */
    char line[WEB_LINE_MAX];
    size_t line_len;
    uint32_t bytes;
    /* What came of it. */
    bool line_differs;
    uLong crc;
};

static void web_request(void *conn, const struct driver_step *step, struct vt_buf *out)
{
    struct web_conn *c = conn;
    enum web_page page = step->operation;

    c->line_len = web_page_line(c->target->tile, page, step->argument, step->sequence, c->line);
    c->bytes = web_page_bytes(page, step->argument);
    c->line_differs = false;
    c->crc = crc32(0, NULL, 0);
    http_begin(&c->http.reader, false);
    vt_buf_printf(out, "GET /%s", operations[page]);
    if (page == WEB_DOWNLOAD)
        vt_buf_printf(out, "/%u", step->argument);
    vt_buf_printf(out, "?r=%u&n=%u HTTP/1.1\r\nHost: %s\r\nUser-Agent: vtile\r\n\r\n",
                  step->sequence, step->argument, c->target->server_name);
}

static void take_body(void *conn, const uint8_t *body, size_t len)
{
    struct web_conn *c = conn;
    uint64_t at = c->http.reader.body_bytes - len;

    c->crc = crc32(c->crc, body, (uInt)len);
    if (at < c->line_len) {
        size_t n = c->line_len - (size_t)at < len ? c->line_len - (size_t)at : len;

        c->line_differs |= memcmp(c->line + at, body, n) != 0;
    }
}

static enum driver_verdict judge(void *conn, const char **why)
{
    const struct web_conn *c = conn;

    if (c->http.reader.status != 200)
        *why = "the status is not 200";
    else if (c->http.reader.body_bytes != c->bytes)
        *why = "the body has not the expected length";
    else if (c->line_differs)
        *why = "the first line is not the one of this request";
    else if (c->crc != WEB_CRC_RESIDUE)
        *why = "the checksum of the body is wrong";
    else
        return DRIVER_DONE;
    return DRIVER_WRONG;
}

static void web_conn_init(void *conn, const struct driver_target *target)
{
    struct web_conn *c = conn;

    c->http.take_body = take_body;
    c->http.judge = judge;
    c->target = target;
}

const struct driver web_driver = {
    .name = "web",
    .tls = true,
    .pooled = true,
    .port = WEB_PORT,
    .operations = operations,
    .noperations = WEB_PAGES,
    .session_bytes = sizeof(struct web_session),
    .plan = web_plan,
    .conn_bytes = sizeof(struct web_conn),
    .conn_init = web_conn_init,
    .conn_fini = http_exchange_fini,
    .request = web_request,
    .on_bytes = http_exchange_bytes,
    .on_eof = http_exchange_eof,
    .answer_bytes = http_exchange_answer_bytes,
    .keep = http_exchange_keep,
};
