/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vtile watch, vtile attach: a run that goes on, from another terminal. Both show the same; attach
 * asks at Ctrl-C what is to become of the run, and ends with its exit code.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "orchestrator/command.h"
#include "orchestrator/settings.h"
#include "orchestrator/state.h"
#include "results/archive.h"
#include "orchestrator/watch/reader.h"
#include "orchestrator/watch/terminal.h"

#define GREETING_MS 5000  /* a phase may keep a run's loop for seconds */
#define QUESTION_MS 30000 /* the run's lines wait meanwhile, and its queue is bounded */

struct follower {
    struct watch_reader reader;
    struct watch_terminal terminal;
    struct watch_view view;
    struct state state;
    char what[256]; /* of the hello: spec, tiles, load, preset */
    bool named;     /* that was said, with where the run is now */
    bool json, attach;
    bool ended; /* the run has said its last word */
    int code;
};

const struct settings_use watch_use = {
    .usage = "vtile watch [OPTION]... [RUN]\n\n"
             "Follows a run that goes on, from another terminal: its warnings, and a line a tile.\n"
             "RUN is its id or the beginning of it; it may be left out where only one goes on.\n"
             "Ctrl-C ends watching, not the run. --json: the run's events, one a line.",
    .operands = true};
const struct settings_use attach_use = {
    .usage = "vtile attach [OPTION]... RUN\n\n"
             "Follows a run as `vtile watch` does, as if it had been started here: Ctrl-C asks\n"
             "whether to detach or to end the run, and the exit code is the run's.",
    .operands = true};

/* --- what the run says --- */

static int take_end(struct follower *f, const json_t *message, struct vt_error *err)
{
    const char *text = "";
    int64_t code = 0;
    int r = vt_json_get_int(message, "exit_code", 0, 255, &code, err);

    if (r == 0)
        r = vt_json_get_string(message, "text", &text, err);
    if (r < 0)
        return r;
    watch_terminal_clear(&f->terminal);
    if (!f->json)
        fputs(text, stdout);
    f->code = (int)code;
    f->ended = true;
    return 0;
}

static int take_hello(struct follower *f, const json_t *message, struct vt_error *err)
{
    const char *what = "";
    int r = vt_json_get_int(message, "start_ns", 0, INT64_MAX, &f->terminal.start_ns, err);

    if (r == 0)
        r = vt_json_opt_string(message, "what", &what, err);
    if (r == 0)
        vt_text_copy(f->what, sizeof(f->what), what);
    return r;
}

/* For who comes late: what the run is, and where it is now. */
static void name_run(struct follower *f)
{
    char text[512];
    const struct vt_event event = {
        .type = VT_EVENT_NOTE,
        .time_ns = f->terminal.start_ns + f->view.elapsed_ns,
        .text = text,
    };
    int n;

    if (f->named || !f->view.phase[0])
        return;
    f->named = true;
    n = snprintf(text, sizeof(text), "run %s: %s%sin %s", f->reader.run, f->what,
                 f->what[0] ? "; " : "", f->view.phase);
    if (f->view.left_ns >= 0 && n > 0 && (size_t)n < sizeof(text))
        snprintf(text + n, sizeof(text) - (size_t)n, ", %.0f s of it left",
                 (double)f->view.left_ns / (double)VT_NS_PER_S);
    f->terminal.sink.take(&f->terminal.sink, &event);
}

static int take_message(struct follower *f, const json_t *message, struct vt_error *err)
{
    struct vt_event event;
    const char *type = "";
    int r = vt_json_get_string(message, "type", &type, err);

    if (r < 0)
        return r;
    if (!strcmp(type, "hello"))
        return take_hello(f, message, err);
    if (!strcmp(type, "end"))
        return take_end(f, message, err);
    if (!strcmp(type, "view")) {
        r = watch_view_read(message, &f->view, err);
        if (r == 0)
            name_run(f);
        if (r == 0)
            watch_terminal_show(&f->terminal, &f->view);
    } else if (watch_event_read(message, &event)) {
        f->terminal.sink.take(&f->terminal.sink, &event);
    }
    return r;
}

/* Of the lines that are no event a program gets the result alone, as `run --json` prints it. */
static int take_line(struct follower *f, const char *line, size_t len, struct vt_error *err)
{
    json_t *message = NULL;
    const char *type = "";
    int r = vt_json_read(line, len, "the run's words", VT_KIND_REFUSED, &message, err);

    if (r == 0)
        r = vt_json_get_string(message, "type", &type, err);
    if (r == 0 && (!f->json || !strcmp(type, "end"))) {
        r = take_message(f, message, err);
    } else if (r == 0 && strcmp(type, "hello") != 0) {
        fwrite(line, 1, len, stdout);
        fputc('\n', stdout);
        fflush(stdout);
    }
    json_decref(message);
    return r;
}

/* Who lives greets. That it can be connected to says little: a child that has not called exec yet
 * holds what a dead run held. */
static bool still_greets(const struct follower *f)
{
    struct watch_reader again;
    bool greets = false;

    if (watch_reader_open(&again, f->state.runtime, f->reader.run, false, NULL) == 0) {
        struct pollfd fd = {.fd = again.fd, .events = POLLIN};

        greets = poll(&fd, 1, GREETING_MS) > 0 && watch_reader_fill(&again, NULL) > 0;
    }
    watch_reader_close(&again);
    return greets;
}

/* The connection has ended without a last word. */
static int tell_silence(const struct follower *f, struct vt_error *err)
{
    const char *run = f->reader.run;
    char archive[VT_PATH_MAX + 64];

    snprintf(archive, sizeof(archive), "%s/results/%s" ARCHIVE_SUFFIX, f->state.folder, run);
    if (still_greets(f))
        return vt_error_set(err, VT_KIND_INFRA, -EPIPE,
                            "this terminal was too slow for run %s, which goes on; `vtile watch "
                            "%s` follows it again",
                            run, run);
    if (access(archive, F_OK) == 0)
        return vt_error_set(err, VT_KIND_INFRA, -EPIPE,
                            "run %s was killed after it had sealed its archive; `vtile results "
                            "show %s` shows it, `vtile clean` removes what else is left",
                            run, run);
    return vt_error_set(err, VT_KIND_INFRA, -EPIPE,
                        "run %s was killed and has no archive; `vtile clean` removes what it left, "
                        "its record too",
                        run);
}

static int take_input(struct follower *f, struct vt_error *err)
{
    const char *line;
    size_t len;
    int r = watch_reader_fill(&f->reader, err);

    if (r < 0)
        return r;
    if (r == 0)
        return tell_silence(f, err);
    while (!f->ended && (line = watch_reader_line(&f->reader, &len))) {
        r = take_line(f, line, len, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* --- what the user says --- */

static int answer(struct follower *f, char key, struct vt_error *err)
{
    switch (key) {
    case 'd':
        return 1;
    case 's':
        return watch_reader_interrupt(&f->reader, false, err);
    case 'n':
        return watch_reader_interrupt(&f->reader, true, err);
    default:
        return 0;
    }
}

/* One key without Enter, which nobody sees; what would end or stop this process meanwhile is a key
 * like any other, but for Ctrl-C. False: this terminal gives lines. */
static bool begin_keys(struct termios *ret_before)
{
    struct termios keys;

    if (tcgetattr(STDIN_FILENO, ret_before) < 0)
        return false;
    keys = *ret_before;
    keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    keys.c_cc[VQUIT] = keys.c_cc[VSUSP] = _POSIX_VDISABLE;
    keys.c_cc[VMIN] = 1;
    keys.c_cc[VTIME] = 0;
    return tcsetattr(STDIN_FILENO, TCSAFLUSH, &keys) == 0;
}

/* 0: nothing came in time. The key, or 'd' for Ctrl-C and where nobody can answer any more. */
static char read_key(int signals)
{
    struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                           {.fd = signals, .events = POLLIN}};
    char text[64] = "";

    if (poll(fds, VT_COUNT(fds), QUESTION_MS) <= 0)
        return '\0';
    if (fds[1].revents || read(STDIN_FILENO, text, sizeof(text) - 1) <= 0)
        return 'd';
    return text[0] ? text[0] : '\n';
}

/* 1: detach. Another Ctrl-C is that too. */
static int ask(struct follower *f, int signals, struct vt_error *err)
{
    struct termios before;
    bool keys;
    char key;

    watch_terminal_clear(&f->terminal);
    keys = begin_keys(&before); /* before the question: an answer may come at once */
    printf("run %s: d detach, s stop in order and seal, n stop now, Enter go on: ", f->reader.run);
    fflush(stdout);
    key = read_key(signals);
    if (keys)
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
    if (key == '\0')
        puts("going on");
    else if (keys)
        printf("%c\n", key > ' ' && key <= '~' ? key : ' ');
    return answer(f, key, err);
}

/* 1: the user leaves. */
static int take_signal(struct follower *f, int signals, struct vt_error *err)
{
    struct signalfd_siginfo info;

    if (read(signals, &info, sizeof(info)) != sizeof(info))
        return 0;
    if (info.ssi_signo == SIGWINCH) {
        if (f->terminal.tty)
            watch_terminal_show(&f->terminal, &f->view);
        return 0;
    }
    if (f->attach && info.ssi_signo == SIGINT && f->terminal.tty && isatty(STDIN_FILENO))
        return ask(f, signals, err);
    f->code = f->attach ? 130 : 0;
    return 1;
}

static int follow(struct follower *f, int signals, struct vt_error *err)
{
    struct pollfd fds[] = {{.fd = f->reader.fd, .events = POLLIN},
                           {.fd = signals, .events = POLLIN}};
    int r = 0;

    while (r == 0 && !f->ended) {
        if (poll(fds, VT_COUNT(fds), -1) < 0 && errno != EINTR)
            return vt_error_errno(err, VT_KIND_INFRA, errno, "wait for run %s", f->reader.run);
        if (fds[1].revents)
            r = take_signal(f, signals, err);
        else if (fds[0].revents)
            r = take_input(f, err);
    }
    if (r == 1) {
        watch_terminal_clear(&f->terminal);
        if (!f->json)
            printf("run %s goes on\n", f->reader.run);
    }
    return r < 0 ? r : 0;
}

static int catch_signals(struct vt_error *err)
{
    sigset_t set;
    int fd;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGWINCH);
    sigprocmask(SIG_BLOCK, &set, NULL);
    fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? vt_error_errno(err, VT_KIND_INFRA, errno, "wait for signals") : fd;
}

static int run_follower(struct follower *f, const char *name, struct vt_error *err)
{
    VT_AUTO_CLOSE int signals = -1;
    int r = state_locate(&f->state, err);

    if (r == 0)
        r = watch_reader_open(&f->reader, f->state.runtime, name, f->json, err);
    if (r < 0)
        return r;
    signals = catch_signals(err);
    if (signals < 0)
        return signals;
    watch_terminal_init(&f->terminal, stdout);
    r = follow(f, signals, err);
    watch_terminal_dispose(&f->terminal);
    return r;
}

static int command(int argc, char **argv, const struct settings_use *use, bool attach,
                   struct vt_error *err)
{
    VT_AUTO_FREE struct run_settings *settings = calloc(1, sizeof(*settings));
    VT_AUTO_FREE struct follower *f = calloc(1, sizeof(*f));
    int first = argc, r;

    if (!settings || !f)
        return vt_error_no_memory(err, "%s", argv[0]);
    r = settings_begin(argc, argv, use, settings, &first, err);
    if (r != 0)
        return r < 0 ? r : 0;
    if (argc - first > 1 || (attach && first == argc))
        return vt_error_set(err, VT_KIND_USAGE, -EINVAL, "one run is wanted; see `vtile %s --help`",
                            argv[0]);
    f->json = settings->json;
    f->attach = attach;
    f->reader.fd = -1;
    r = run_follower(f, first < argc ? argv[first] : NULL, err);
    watch_reader_close(&f->reader);
    return r < 0 ? r : attach ? f->code : 0;
}

int command_watch(int argc, char **argv, struct vt_error *err)
{
    return command(argc, argv, &watch_use, false, err);
}

int command_attach(int argc, char **argv, struct vt_error *err)
{
    return command(argc, argv, &attach_use, true, err);
}
