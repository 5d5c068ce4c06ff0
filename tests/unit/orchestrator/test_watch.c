/* SPDX-License-Identifier: Apache-2.0 */
/* What people see of a run: the board's figures, the lines of a view, texts that a guest may have
 * said, and the screen, on a pseudo-terminal that a small emulator reads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/event.h"
#include "base/json.h"
#include "base/scope.h"
#include "orchestrator/watch/board.h"
#include "orchestrator/watch/terminal.h"
#include "screen.h"

#define MS VT_NS_PER_MS

static void texts_are_no_orders_to_the_terminal(void **state)
{
    static const struct {
        const char *said, *shown;
    } cases[] = {
        {"plain, \xc3\xa4 too", "plain, \xc3\xa4 too\n"},
        {"\033]0;title\007", "\\x1b]0;title\\x07\n"},
        {"two\nlines\r", "two\\x0alines\\x0d\n"},
        {"\xc2\x9b"
         "31m",
         "\\xc2\x9b"
         "31m\n"},
        {"", "\n"},
        {NULL, "\n"},
    };

    (void)state;
    for (size_t i = 0; i < VT_COUNT(cases); i++) {
        struct watch_terminal terminal;
        struct vt_event event = {.type = VT_EVENT_AGENT, .source = "web-1", .text = cases[i].said};
        char *out = NULL;
        size_t len = 0;
        FILE *stream = open_memstream(&out, &len);

        assert_non_null(stream);
        watch_terminal_init(&terminal, stream);
        event.time_ns = terminal.start_ns;
        terminal.sink.take(&terminal.sink, &event);
        watch_terminal_dispose(&terminal);
        fclose(stream);
        assert_non_null(strstr(out, "web-1: "));
        assert_string_equal(strstr(out, "web-1: ") + strlen("web-1: "), cases[i].shown);
        free(out);
    }
}

/* --- the board --- */

static const struct spec_preset preset = {.name = "turbo",
                                          .ramp_ns = 2 * VT_NS_PER_S,
                                          .warm_ns = 2 * VT_NS_PER_S,
                                          .measure_ns = 100 * VT_NS_PER_S,
                                          .limits_by_operation = true};

/* Two scored roles: web of weight 2 with a limit of the operation home, mail of weight 1. */
static struct spec *make_spec(void)
{
    struct spec *spec = calloc(1, sizeof(*spec));
    struct spec_role *web = &spec->roles[0], *mail = &spec->roles[1];

    assert_non_null(spec);
    spec->nroles = 3;
    vt_text_copy(web->name, sizeof(web->name), "web");
    web->scored = web->driven = true;
    web->load = (struct spec_load){.rate = 10000000,
                                   .divisor = 10000000,
                                   .weight = 2000000,
                                   .error_share_max = 10000,
                                   .noperations = 1};
    vt_text_copy(web->load.operations[0].name, sizeof(web->load.operations[0].name), "home");
    web->load.operations[0].limits[0] = (struct spec_limit){950000, 100 * MS};
    web->load.operations[0].nlimits = 1;
    *mail = *web;
    vt_text_copy(mail->name, sizeof(mail->name), "mail");
    mail->load.weight = 1000000;
    mail->load.noperations = 0;
    mail->load.limits[0] = (struct spec_limit){950000, 100 * MS};
    mail->load.nlimits = 1;
    vt_text_copy(spec->roles[2].name, sizeof(spec->roles[2].name), "infra");
    return spec;
}

/* One second of a role: good answers after 10 ms, slow ones after a second. */
static void feed(struct watch_board *board, unsigned tile, const char *role, const char *operation,
                 int64_t second, unsigned good, unsigned slow, unsigned failed)
{
    VT_AUTO_FREE struct vt_hist *response = malloc(sizeof(*response));
    struct vt_load_second load = {.operation = operation,
                                  .second = second,
                                  .intended = good + slow + failed,
                                  .good = good,
                                  .slow = slow,
                                  .failed = failed,
                                  .response = response};
    struct vt_event event = {
        .type = VT_EVENT_LOAD, .tile = tile, .role = role, .load = &load, .time_ns = 1};

    assert_non_null(response);
    vt_hist_init(response);
    for (unsigned i = 0; i < good; i++)
        vt_hist_record(response, 10 * MS);
    for (unsigned i = 0; i < slow; i++)
        vt_hist_record(response, VT_NS_PER_S);
    board->sink.take(&board->sink, &event);
}

struct said {
    unsigned n;
    char last[256];
};

static void note(void *ctx, const char *text)
{
    struct said *said = ctx;

    said->n++;
    snprintf(said->last, sizeof(said->last), "%s", text);
}

static void board_tells_what_a_limit_comes_to(void **state)
{
    VT_AUTO_FREE struct spec *spec = make_spec();
    VT_AUTO_FREE struct watch_view *view = calloc(1, sizeof(*view));
    struct watch_board board;
    struct said said = {0};

    (void)state;
    assert_int_equal(watch_board_init(&board, spec, &preset, 3, NULL), 0);
    watch_board_view(&board, board.start_ns, view);
    assert_int_equal(view->ntiles, 0);
    /* The ramp is all slow: shown, but no warning, and forgotten in the window. */
    feed(&board, 1, "web", "home", 0, 0, 100, 0);
    watch_board_warn(&board, note, &said);
    assert_int_equal(said.n, 0);
    /* Window: 100 a second and tile. Tile 1: 96 % within 100 ms; tile 2: 90 %; tile 3: 50 good of
     * 50, too few for the 95 % limit to be decided (72 by order statistics). */
    feed(&board, 1, "web", "home", 4, 96, 4, 0);
    feed(&board, 1, "mail", "fetch", 4, 100, 0, 0);
    feed(&board, 2, "web", "home", 4, 90, 10, 0);
    feed(&board, 2, "mail", "fetch", 4, 50, 0, 50);
    feed(&board, 3, "web", "home", 4, 50, 0, 0);
    feed(&board, 3, "mail", "fetch", 5, 50, 0, 0);
    feed(&board, 3, "mail", "fetch", 104, 1, 0, 0); /* after the window */
    feed(&board, 4, "mail", "fetch", 4, 1, 0, 0);   /* no such tile */
    feed(&board, 1, "infra", "x", 4, 1, 0, 0);      /* not driven */
    feed(&board, 1, "web", "home", 3, 1, 0, 0);     /* of the warm-up, late */
    watch_board_view(&board, board.start_ns, view);
    assert_int_equal(view->ntiles, 3);
    /* Broken first, then undecided, then ok. Scores: (2 x 90 + 50) / 3, 100, (2 x 96 + 100) / 3. */
    assert_int_equal(view->tiles[0].tile, 2);
    assert_int_equal(view->tiles[0].mark, WATCH_BROKEN);
    assert_int_equal(view->tiles[0].score, 7667);
    assert_int_equal(view->tiles[0].not_good, 60);
    assert_int_equal(view->tiles[1].tile, 3);
    assert_int_equal(view->tiles[1].mark, WATCH_UNDECIDED);
    assert_int_equal(view->tiles[1].score, 10000);
    assert_int_equal(view->tiles[1].rate, 5000); /* 100 in two seconds */
    assert_int_equal(view->tiles[2].tile, 1);
    assert_int_equal(view->tiles[2].mark, WATCH_OK);
    assert_int_equal(view->tiles[2].score, 9733);
    assert_string_equal(view->tiles[2].tightest, "web home 100 ms 96.0/95%");
    /* Of tile 2: home's 95 %, mail's 95 %, mail's errors; each once. */
    watch_board_warn(&board, note, &said);
    assert_int_equal(said.n, 3);
    assert_string_equal(said.last, "QoS so far broken: tile 2 mail: 50.00 % of 100 requests "
                                   "correct, 99 % are wanted");
    watch_board_warn(&board, note, &said);
    assert_int_equal(said.n, 3);
    watch_board_dispose(&board);
}

/* A closed loop: operations a second of the divisor's 10, 100 points at the most. */
static void a_closed_loop_scores_by_its_rate(void **state)
{
    VT_AUTO_FREE struct spec *spec = make_spec();
    VT_AUTO_FREE struct watch_view *view = calloc(1, sizeof(*view));
    struct watch_board board;

    (void)state;
    assert_non_null(view);
    spec->nroles = 1;
    spec->roles[0].load.loop = SPEC_LOOP_CLOSED;
    assert_int_equal(watch_board_init(&board, spec, &preset, 1, NULL), 0);
    feed(&board, 1, "web", "home", 4, 9, 0, 0);
    feed(&board, 1, "web", "home", 6, 6, 0, 0); /* 15 in three seconds */
    watch_board_view(&board, board.start_ns, view);
    assert_int_equal(view->tiles[0].score, 5000);
    feed(&board, 1, "web", "home", 6, 100, 0, 0);
    watch_board_view(&board, board.start_ns, view);
    assert_int_equal(view->tiles[0].score, 10000);
    watch_board_dispose(&board);
}

static void a_view_arrives_as_it_was_sent(void **state)
{
    VT_AUTO_FREE struct watch_view *view = calloc(1, sizeof(*view)),
                                   *back = calloc(1, sizeof(*back));
    VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(1U << 20);
    json_t *message = NULL;

    (void)state;
    vt_text_copy(view->run, sizeof(view->run), "0123456789ab");
    vt_text_copy(view->phase, sizeof(view->phase), "measure");
    view->left_ns = -1;
    view->ntiles = SPEC_TILES_MAX;
    for (unsigned i = 0; i < view->ntiles; i++)
        view->tiles[i] = (struct watch_tile){.tile = i + 1,
                                             .mark = i % 4,
                                             .score = (int64_t)i - 1,
                                             .p95_ns = -1,
                                             .tightest = "a \"b\""};
    watch_view_write(view, &text);
    assert_false(text.failed);
    assert_int_equal(vt_json_read(text.data, text.len, "view", VT_KIND_REFUSED, &message, NULL), 0);
    assert_int_equal(watch_view_read(message, back, NULL), 0);
    assert_memory_equal(view, back, sizeof(*view));
    /* A text that would move the cursor. */
    json_object_set_new(message, "phase", json_string("\033[2J"));
    vt_text_copy(back->phase, sizeof(back->phase), "kept");
    assert_true(watch_view_read(message, back, NULL) < 0);
    assert_string_equal(back->phase, "kept");
    json_decref(message);
}

/* --- the screen --- */

static void fill(struct watch_view *view, unsigned tiles)
{
    memset(view, 0, sizeof(*view));
    vt_text_copy(view->phase, sizeof(view->phase), "measure");
    view->elapsed_ns = 72 * VT_NS_PER_S;
    view->left_ns = 10 * VT_NS_PER_S;
    view->warnings = 2;
    view->ntiles = tiles;
    for (unsigned i = 0; i < tiles; i++)
        view->tiles[i] = (struct watch_tile){.tile = i + 1,
                                             .mark = i == 6 ? WATCH_BROKEN : WATCH_OK,
                                             .score = 10000 - (int64_t)i,
                                             .rate = 1234,
                                             .p95_ns = 401 * MS,
                                             .tightest = "web home 100 ms 96.0/95%"};
    watch_view_sort(view);
}

static void many_tiles_fit(unsigned columns, unsigned rows, unsigned tiles, unsigned shown)
{
    VT_AUTO_FREE struct watch_view *view = calloc(1, sizeof(*view));
    struct screen *screen = screen_open(columns, rows);
    struct watch_terminal terminal;
    struct vt_event event = {.type = VT_EVENT_NOTE, .level = VT_LEVEL_WARNING};
    char text[64];
    unsigned top, lines = shown + 2 + (shown < tiles);

    assert_non_null(view);
    fill(view, tiles);
    watch_terminal_init(&terminal, screen->out);
    assert_true(terminal.tty);
    event.time_ns = terminal.start_ns;
    for (unsigned i = 0; i < 2 * rows; i++) {
        snprintf(text, sizeof(text), "note %u", i);
        event.text = text;
        terminal.sink.take(&terminal.sink, &event);
        screen_read(screen);
        watch_terminal_show(&terminal, view);
        screen_read(screen);
    }
    /* The lines stand at the bottom, the cursor below them in the last row's first column; the
     * latest note above them, and above that the one before. */
    top = rows - 1 - lines;
    assert_int_equal(screen->row, rows - 1);
    assert_int_equal(screen->column, 0);
    assert_memory_equal(screen_line(screen, top), "[  72.0 s] measure    10 s left", 31);
    assert_memory_equal(screen_line(screen, top + 2), "    7  broken      99.94    12.34    401.0",
                        42);
    assert_memory_equal(screen_line(screen, top + 3), "   26  ok ", 10);
    if (shown < tiles) {
        snprintf(text, sizeof(text), "        and %u better tiles", tiles - shown);
        assert_string_equal(screen_line(screen, rows - 2), text);
    }
    snprintf(text, sizeof(text), "[   0.0 s] warning: note %u", 2 * rows - 1);
    assert_string_equal(screen_line(screen, top - 1), text);
    snprintf(text, sizeof(text), "[   0.0 s] warning: note %u", 2 * rows - 2);
    assert_string_equal(screen_line(screen, top - 2), text);
    assert_int_equal(screen->unknown, 0);
    /* A frame over the same frame never shows an empty cell where there was one with text, and
     * is small: no flicker. */
    screen->erased = 0;
    watch_terminal_show(&terminal, view);
    screen_read(screen);
    assert_int_equal(screen->erased, 0);
    /* At the end they go, the notes stay. */
    watch_terminal_dispose(&terminal);
    screen_read(screen);
    assert_string_equal(screen_line(screen, top), "");
    assert_int_equal(screen->row, top);
    assert_int_equal(screen->column, 0);
    screen_close(screen);
}

static void many_tiles_fit_80x24(void **state)
{
    (void)state;
    many_tiles_fit(80, 24, 26,
                   15); /* 24 rows: 5 of notes, 2 heads, 15 tiles, the rest, the cursor */
}

static void many_tiles_fit_200x50(void **state)
{
    (void)state;
    many_tiles_fit(200, 50, 26, 26);
}

static void a_smaller_terminal_is_painted_anew(void **state)
{
    VT_AUTO_FREE struct watch_view *view = calloc(1, sizeof(*view));
    struct screen *screen = screen_open(200, 50);
    struct watch_terminal terminal;
    struct vt_event event = {.type = VT_EVENT_NOTE, .text = "note"};
    unsigned heads = 0, notes = 0;

    (void)state;
    assert_non_null(view);
    fill(view, 26);
    watch_terminal_init(&terminal, screen->out);
    event.time_ns = terminal.start_ns;
    terminal.sink.take(&terminal.sink, &event);
    watch_terminal_show(&terminal, view);
    screen_read(screen);
    screen_resize(screen, 80, 24);
    for (unsigned i = 0; i < 2; i++) {
        watch_terminal_show(&terminal, view);
        screen_read(screen);
    }
    for (unsigned row = 0; row < 24; row++) {
        heads += !strncmp(screen_line(screen, row), "[  72.0 s] measure", 18);
        notes += !strcmp(screen_line(screen, row), "[   0.0 s] note");
    }
    assert_int_equal(heads, 1);
    assert_int_equal(notes, 1);
    assert_true(screen->widest < 79); /* nothing in the last column */
    watch_terminal_dispose(&terminal);
    screen_close(screen);
}

static void colours_are_shown_unless_unwanted(void **state)
{
    static const struct {
        const char *no_color, *term;
        bool tty, colour;
    } cases[] = {{NULL, "xterm", true, true},
                 {"1", "xterm", true, false},
                 {"", "xterm", true, true},
                 {NULL, "dumb", false, false}};
    VT_AUTO_FREE struct watch_view *view = calloc(1, sizeof(*view));

    (void)state;
    assert_non_null(view);
    fill(view, 7);
    for (size_t i = 0; i < VT_COUNT(cases); i++) {
        struct screen *screen = screen_open(80, 24);
        struct watch_terminal terminal;

        unsetenv("NO_COLOR");
        if (cases[i].no_color)
            setenv("NO_COLOR", cases[i].no_color, 1);
        setenv("TERM", cases[i].term, 1);
        watch_terminal_init(&terminal, screen->out);
        terminal.next_plain_ns = 0;
        watch_terminal_show(&terminal, view);
        screen_read(screen);
        assert_int_equal(terminal.tty, cases[i].tty);
        assert_int_equal(screen->colours > 0, cases[i].colour);
        assert_int_equal(screen->sequences > 0, cases[i].tty);
        assert_memory_equal(screen_line(screen, 0), "[  72.0 s] measure    10 s left", 31);
        watch_terminal_dispose(&terminal);
        screen_close(screen);
    }
    unsetenv("NO_COLOR");
    setenv("TERM", "xterm", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_no_orders_to_the_terminal),
        cmocka_unit_test(board_tells_what_a_limit_comes_to),
        cmocka_unit_test(a_closed_loop_scores_by_its_rate),
        cmocka_unit_test(a_view_arrives_as_it_was_sent),
        cmocka_unit_test(many_tiles_fit_80x24),
        cmocka_unit_test(many_tiles_fit_200x50),
        cmocka_unit_test(a_smaller_terminal_is_painted_anew),
        cmocka_unit_test(colours_are_shown_unless_unwanted),
    };

    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
