/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/run/show.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "orchestrator/run/steps.h"
#include "orchestrator/watch/board.h"
#include "orchestrator/watch/server.h"
#include "orchestrator/watch/terminal.h"

#define LAST_WORDS_MAX (2U << 20)

struct show {
    struct watch_board board;
    struct watch_terminal terminal;
    struct watch_json json;
    struct watch_server *server;
    struct watch_view view;
    uv_timer_t tick;
    uv_signal_t signals[4]; /* the last: the terminal's size has changed */
    unsigned nsignals;
    int detach_fd;
};

/* --- interrupts --- */

static void interrupt(struct run *run, const char *who)
{
    run_note(run, VT_LEVEL_WARNING, "interrupted%s%s", who,
             run->phases.undoing ? ": the teardown goes on"
             : run->phases.interrupts == 0
                 ? ": ending in order and sealing; once more skips to the teardown"
                 : " again: tearing down");
    phases_interrupt(&run->phases, vt_clock_now_ns());
}

static void on_signal(uv_signal_t *handle, int signum)
{
    struct run *run = handle->data;

    (void)signum;
    if (phases_heed(&run->phases, vt_clock_now_ns()))
        interrupt(run, "");
}

static void on_reader_interrupt(void *ctx, bool now)
{
    struct run *run = ctx;

    while (run->phases.interrupts < (now ? 2 : 1))
        interrupt(run, " from another terminal");
}

/* --- once a second --- */

static void warn(void *ctx, const char *text)
{
    run_note(ctx, VT_LEVEL_WARNING, "%s", text);
}

static void show_now(struct run *run)
{
    struct show *show = run->show;

    watch_board_view(&show->board, vt_clock_now_ns(), &show->view);
    if (!run->settings.json)
        watch_terminal_show(&show->terminal, &show->view);
}

static void on_resize(uv_signal_t *handle, int signum)
{
    (void)signum;
    show_now(handle->data);
}

static void on_tick(uv_timer_t *timer)
{
    struct run *run = timer->data;
    struct vt_error err = VT_ERROR_INIT;

    watch_board_warn(&run->show->board, warn, run);
    show_now(run);
    if (run->show->server)
        watch_server_show(run->show->server, &run->show->view);
    /* Without a record there is nothing to score: not worth the rest of the time. */
    if (run->record && record_status(run->record, NULL, &err) < 0)
        phases_fail(&run->phases, &err);
}

/* --- open --- */

/* A terminal that goes away ends the run in order too, unless nohup asks for the opposite. */
static bool heeds(int signum)
{
    struct sigaction now;

    return signum != SIGHUP || sigaction(signum, NULL, &now) < 0 || now.sa_handler != SIG_IGN;
}

static void follow_signals(struct run *run)
{
    static const struct {
        int signum;
        uv_signal_cb take;
    } signals[] = {
        {SIGINT, on_signal}, {SIGTERM, on_signal}, {SIGHUP, on_signal}, {SIGWINCH, on_resize}};
    struct show *show = run->show;

    for (size_t i = 0; i < VT_COUNT(signals); i++) {
        uv_signal_t *handle = &show->signals[show->nsignals];

        if (!heeds(signals[i].signum))
            continue;
        show->nsignals++;
        uv_signal_init(&run->loop.uv, handle);
        handle->data = run;
        uv_signal_start(handle, signals[i].take, signals[i].signum);
    }
}

int show_open(struct run *run, int detach_fd, struct vt_error *err)
{
    struct show *show = calloc(1, sizeof(*show));
    int ret;

    if (!show)
        return vt_error_no_memory(err, "show the run");
    show->detach_fd = detach_fd;
    ret =
        watch_board_init(&show->board, &run->spec, run->preset, (unsigned)run->settings.tiles, err);
    if (ret < 0) {
        free(show);
        return ret;
    }
    run->show = show;
    watch_board_name(&show->board, run->id);
    vt_bus_add(&run->bus, &show->board.sink);
    watch_json_init(&show->json, stdout);
    watch_terminal_init(&show->terminal, stdout);
    if (detach_fd >= 0)
        show->terminal.tty = show->terminal.colour = false;
    vt_bus_add(&run->bus, run->settings.json ? &show->json.sink : &show->terminal.sink);
    uv_timer_init(&run->loop.uv, &show->tick);
    show->tick.data = run;
    uv_timer_start(&show->tick, on_tick, 1000, 1000);
    follow_signals(run);
    return 0;
}

int show_listen(struct run *run, struct vt_error *err)
{
    struct show *show = run->show;
    char what[256];
    int ret;

    run_describe(run, what, sizeof(what));
    ret = watch_server_open(&run->loop, run->folder, run->id, what, show->board.start_ns,
                            on_reader_interrupt, run, &show->server, err);

    if (ret == 0)
        vt_bus_add(&run->bus, watch_server_sink(show->server));
    return ret;
}

void show_entered(struct run *run, const struct phase *phase)
{
    struct show *show = run->show;
    struct vt_error err = VT_ERROR_INIT;
    char log[VT_PATH_MAX + 32];

    show_now(run); /* a phase may keep the loop for seconds */
    if (show->detach_fd < 0 || strcmp(phase->name, run_phase_tune_host.name) != 0)
        return;
    snprintf(log, sizeof(log), "%s/%s.log", run->results, run->id);
    if (run_leave_terminal(show->detach_fd, run->id, log, &err) < 0)
        phases_fail(&run->phases, &err);
    else
        show->detach_fd = -1;
}

/* --- end --- */

/* What a run prints at its end with --json, then its exit code and what it prints without. */
static void write_last_words(const struct run *run, int exit_code, struct vt_buf *out)
{
    VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(LAST_WORDS_MAX / 2);
    struct vt_json w;

    if (run->sealed) {
        result_write_json(&run->result, run->archive_path, out);
        vt_buf_adds(out, "\n");
        result_write_text(&run->result, &text);
        run_print_places(run, &text);
    }
    vt_json_message(&w, out, "end");
    vt_json_string(&w, "run", run->id);
    vt_json_int(&w, "exit_code", exit_code);
    vt_json_string(&w, "text", text.failed || !text.data ? "" : text.data);
    vt_json_end(&w);
    vt_buf_adds(out, "\n");
}

void show_end(struct run *run, int exit_code)
{
    VT_AUTO_BUF struct vt_buf words = VT_BUF_INIT(LAST_WORDS_MAX);
    struct show *show = run->show;

    for (unsigned i = 0; i < show->nsignals; i++)
        if (!uv_is_closing((uv_handle_t *)&show->signals[i]))
            uv_close((uv_handle_t *)&show->signals[i], NULL);
    if (!uv_is_closing((uv_handle_t *)&show->tick))
        uv_close((uv_handle_t *)&show->tick, NULL);
    if (!show->server)
        return;
    vt_bus_remove(&run->bus, watch_server_sink(show->server));
    write_last_words(run, exit_code, &words);
    watch_server_end(show->server, words.data, words.failed ? 0 : words.len);
    show->server = NULL;
}

void show_dispose(struct run *run)
{
    struct show *show = run->show;

    if (!show)
        return;
    watch_json_dispose(&show->json);
    watch_terminal_dispose(&show->terminal);
    watch_board_dispose(&show->board);
    free(show);
    run->show = NULL;
}
