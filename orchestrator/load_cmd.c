/* SPDX-License-Identifier: Apache-2.0 */
/* vtile load: drives one URL, so that the generator can be trusted before a tile is. */
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/scope.h"
#include "orchestrator/command.h"
#include "orchestrator/load/print.h"

#define OUTPUT_MAX (64U << 10)

/* A line that is written over, where somebody looks at it. */
static void show_second(void *ctx, int64_t since_start_ns, const struct load_tally *since)
{
    const struct load_options *o = ctx;
    const struct vt_hist *times = o->closed ? &since->service : &since->response;
    int64_t end_ns = o->warm_up_ns + o->duration_ns;
    uint64_t bad = since->wrong + since->failed;

    fprintf(stderr, "\r%5.0f s of %.0f: ", (double)since_start_ns / 1e9, (double)end_ns / 1e9);
    if (since->intended > 0)
        fprintf(stderr, "%" PRIu64 " requests, %" PRIu64 " not right", since->intended, bad);
    else
        fputs("nothing new is complete", stderr);
    if (since_start_ns > end_ns + VT_NS_PER_S / 2)
        fprintf(stderr, "; the last have until %.0f s", (double)(end_ns + o->timeout_ns) / 1e9);
    else if (times->count > 0)
        fprintf(stderr, ", 99 %% in %.3f ms", (double)vt_hist_quantile(times, 990000) / 1e6);
    fputs("\033[K", stderr);
}

int command_load(int argc, char **argv, struct vt_error *err)
{
    LOAD_AUTO_OPTIONS struct load_options *options = calloc(1, sizeof *options);
    VT_AUTO_FREE struct load_result *result = calloc(1, sizeof *result);
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(OUTPUT_MAX);
    bool watched = isatty(STDERR_FILENO);
    int code;

    if (!options || !result)
        return vt_error_no_memory(err, "load");
    if ((code = load_options_parse(argc, argv, options, err)) != 0)
        return code < 0 ? code : 0;
    if ((code = load_url_resolve(&options->url, err)) < 0)
        return code;
    code = load_drive(options, watched ? show_second : NULL, options, result, err);
    if (watched)
        fputs("\r\033[K", stderr);
    if (code < 0)
        return code;
    if (options->json)
        load_print_json(options, result, &out);
    else
        load_print_text(options, result, &out);
    if ((code = vt_buf_check(&out, "print what came of the load", err)) < 0)
        return code;
    fwrite(out.data, 1, out.len, stdout);
    if (options->json)
        putchar('\n');
    return load_exit_code(options, result);
}
