/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/tiles/session_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define OPEN_MAX_AT_ONCE 256

/* --- the server --- */

struct peer {
    int fd;
    uint32_t index, counted;
    bool greeted, in;
    char line[64];
    size_t len;
};
static struct peer peers[OPEN_MAX_AT_ONCE];
static unsigned npeers;

static int listen_at(struct session_server *s)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_port = htons(s->port)};
    socklen_t len = sizeof address;
    int yes = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(fd, (struct sockaddr *)&address, len) < 0 || listen(fd, 64) < 0)
        return -1;
    getsockname(fd, (struct sockaddr *)&address, &len);
    s->port = ntohs(address.sin_port);
    return fd;
}

static void drop(unsigned i)
{
    close(peers[i].fd);
    peers[i] = peers[--npeers];
}

static void say(const struct peer *p, const char *text)
{
    if (send(p->fd, text, strlen(text), MSG_NOSIGNAL) < 0)
        return;
}

/* False: the connection is to be ended. */
static bool answer_step(struct session_server *s, struct peer *p, unsigned sequence, unsigned what)
{
    char text[32];

    s->steps[sequence].connection = p->index;
    s->steps[sequence].count++;
    s->connections[p->index].nsteps++;
    if (what == SESSION_CUT)
        return false;
    if (what == SESSION_SILENT)
        return true;
    p->counted++;
    snprintf(text, sizeof text, "ok %u\n", p->counted + (what == SESSION_MISCOUNTED));
    say(p, text);
    return what != SESSION_LAST;
}

static bool take_line(struct session_server *s, struct peer *p)
{
    unsigned a, b;

    if (sscanf(p->line, "login %u", &a) == 1) {
        p->in = true;
        s->connections[p->index].session = a;
        say(p, "ok\n");
    } else if (!strcmp(p->line, "again")) {
        s->connections[p->index].again = true;
        say(p, "ok\n");
    } else if (sscanf(p->line, "step %u %u", &a, &b) == 2 && a < SESSION_STEPS_MAX) {
        return answer_step(s, p, a, b);
    } else {
        return false;
    }
    return true;
}

static bool take_bytes(struct session_server *s, struct peer *p)
{
    char bytes[256];
    ssize_t n = recv(p->fd, bytes, sizeof bytes, 0);

    if (n <= 0)
        return false;
    for (ssize_t i = 0; i < n; i++) {
        if (bytes[i] != '\n') {
            if (p->len + 1 == sizeof p->line)
                return false;
            p->line[p->len++] = bytes[i];
            continue;
        }
        p->line[p->len] = '\0';
        p->len = 0;
        if (!take_line(s, p))
            return false;
    }
    return true;
}

static void take_peer(struct session_server *s, int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

    if (fd < 0)
        return;
    if (npeers == OPEN_MAX_AT_ONCE || s->nconnections == SESSION_CONNECTIONS_MAX) {
        close(fd);
        return;
    }
    peers[npeers++] = (struct peer){.fd = fd, .index = s->nconnections++};
    if (npeers > s->most_open)
        s->most_open = npeers;
}

/* Those that came and are not logged in yet are greeted in their turn. */
static void greet(struct session_server *s)
{
    unsigned waiting = 0;

    for (unsigned i = 0; i < npeers; i++) {
        waiting += !peers[i].in;
        if (peers[i].greeted || s->hold_greetings)
            continue;
        peers[i].greeted = true;
        say(&peers[i], "hello\n");
    }
    if (waiting > s->most_greeted)
        s->most_greeted = waiting;
}

static void serve(struct session_server *s, int listener, pid_t parent)
{
    struct pollfd fds[OPEN_MAX_AT_ONCE + 1];

    while (getppid() == parent) {
        if (s->refuse && listener >= 0) {
            close(listener);
            listener = -1;
        } else if (!s->refuse && listener < 0) {
            listener = listen_at(s);
        }
        s->refusing = listener < 0;
        for (; s->kill_all && npeers > 0;)
            drop(0);
        s->kill_all = false;
        greet(s);
        for (unsigned i = 0; i < npeers; i++)
            fds[i] = (struct pollfd){.fd = peers[i].fd, .events = POLLIN};
        fds[npeers] = (struct pollfd){.fd = listener, .events = POLLIN};
        if (poll(fds, npeers + 1, 2) <= 0)
            continue;
        if (fds[npeers].revents)
            take_peer(s, listener);
        for (unsigned i = npeers; i-- > 0;)
            if (i < OPEN_MAX_AT_ONCE && fds[i].fd == peers[i].fd && fds[i].revents &&
                !take_bytes(s, &peers[i]))
                drop(i);
    }
}

struct session_server *session_server_start(void)
{
    struct session_server *s =
        mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t parent = getpid(), pid;
    int listener;

    assert_true(s != MAP_FAILED);
    listener = listen_at(s);
    assert_true(listener >= 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        npeers = 0;
        serve(s, listener, parent);
        _exit(0);
    }
    close(listener);
    s->pid = pid;
    return s;
}

void session_server_refuse(struct session_server *s)
{
    s->refuse = true;
    while (!s->refusing)
        poll(NULL, 0, 1);
}

void session_server_stop(struct session_server *s)
{
    kill(s->pid, SIGKILL);
    waitpid(s->pid, NULL, 0);
    munmap(s, sizeof *s);
}

/* --- the driver --- */

struct session_conn {
    const struct driver_step *step;
    bool entering, done_login, odd;
    unsigned phase; /* lines that have come for what was asked */
    unsigned counted;
    bool greeted;
    char line[64];
    size_t len;
};

static bool plan(void *state, struct vt_rng *rng, const struct spec_load *load, bool first,
                 bool fresh, uint16_t *operation, uint32_t *argument, int64_t *gap_ns)
{
    (void)state, (void)rng, (void)load, (void)first, (void)fresh;
    (void)operation, (void)argument, (void)gap_ns;
    return false;
}

static void conn_init(void *conn, const struct driver_target *target)
{
    (void)conn, (void)target;
}

static void conn_fini(void *conn)
{
    (void)conn;
}

static void begin(struct session_conn *c, const struct driver_step *step, bool entering)
{
    c->step = step;
    c->entering = entering;
    c->phase = 0;
}

static void enter(void *conn, const struct driver_step *step, struct vt_buf *out)
{
    (void)out; /* the server greets first */
    begin(conn, step, true);
}

static void put_step(const struct session_conn *c, struct vt_buf *out)
{
    vt_buf_printf(out, "step %u %u\n", c->step->sequence, c->step->argument);
}

static void request(void *conn, const struct driver_step *step, struct vt_buf *out)
{
    struct session_conn *c = conn;

    begin(c, step, false);
    if (c->greeted)
        put_step(c, out);
}

/* After the greeting: login; then again, or the step. */
static enum driver_verdict answer_line(struct session_conn *c, struct vt_buf *out, const char **why)
{
    unsigned counted;

    if (!c->greeted) {
        if (strcmp(c->line, "hello") != 0)
            return DRIVER_BAD;
        c->greeted = true;
        vt_buf_printf(out, "login %u\n", c->step->session);
        return DRIVER_SEND;
    }
    if (!strcmp(c->line, "ok") && c->phase++ == 0) {
        if (c->entering)
            vt_buf_printf(out, "again\n");
        else
            put_step(c, out);
        return DRIVER_SEND;
    }
    if (c->entering)
        return strcmp(c->line, "ok") == 0 ? DRIVER_DONE : DRIVER_BAD;
    if (sscanf(c->line, "ok %u", &counted) != 1)
        return DRIVER_BAD;
    *why = "another's count";
    c->odd = c->step->sequence % 2 == 1;
    return counted == ++c->counted ? DRIVER_DONE : DRIVER_WRONG;
}

static enum driver_verdict on_bytes(void *conn, const uint8_t *data, size_t len, size_t *used,
                                    struct vt_buf *out, const char **why)
{
    struct session_conn *c = conn;

    for (*used = 0; *used < len; ++*used) {
        if (data[*used] != '\n') {
            if (c->len + 1 == sizeof c->line)
                return DRIVER_BAD;
            c->line[c->len++] = (char)data[*used];
            continue;
        }
        c->line[c->len] = '\0';
        c->len = 0;
        ++*used;
        return answer_line(c, out, why);
    }
    return DRIVER_MORE;
}

static enum driver_verdict on_eof(void *conn, bool truncated, const char **why)
{
    (void)conn, (void)truncated;
    *why = "it ended";
    return DRIVER_BAD;
}

static uint64_t answer_bytes(const void *conn)
{
    (void)conn;
    return 1;
}

static bool keep(const void *conn)
{
    (void)conn;
    return true;
}

static bool acknowledges(const void *conn)
{
    return ((const struct session_conn *)conn)->odd;
}

static const char *const operations[] = {"login", "step", "bye"};

const struct driver session_driver = {
    .name = "session",
    .operations = operations,
    .noperations = 3,
    .plan = plan,
    .conn_bytes = sizeof(struct session_conn),
    .conn_init = conn_init,
    .conn_fini = conn_fini,
    .enter = enter,
    .request = request,
    .on_bytes = on_bytes,
    .on_eof = on_eof,
    .answer_bytes = answer_bytes,
    .keep = keep,
    .acknowledges = acknowledges,
};

static int compare_steps(const void *a, const void *b)
{
    const struct driver_step *x = a, *y = b;

    if (x->intended_ns != y->intended_ns)
        return x->intended_ns < y->intended_ns ? -1 : 1;
    return (x->session > y->session) - (x->session < y->session);
}

struct schedule session_schedule(uint32_t nsessions, uint32_t nsteps, uint32_t nmet, int64_t gap_ns,
                                 int64_t window_ns)
{
    size_t most = (size_t)nsessions * nsteps;
    struct schedule schedule = {calloc(most + 1, sizeof *schedule.steps), 0, nsessions, {0}};

    assert_non_null(schedule.steps);
    assert_true(most <= SESSION_STEPS_MAX);
    for (uint32_t i = 0; i < nsessions; i++) {
        int64_t from_ns = i < nmet ? (int64_t)i * gap_ns / nmet : window_ns * i / nsessions;

        for (uint32_t k = i < nmet ? 1 : 0; k < nsteps && from_ns < window_ns; k++) {
            schedule.steps[schedule.nsteps++] = (struct driver_step){
                .session = i,
                .operation = k == 0            ? SESSION_LOGIN
                             : k + 1 == nsteps ? SESSION_BYE
                                               : SESSION_STEP,
                .intended_ns = from_ns,
            };
            from_ns += gap_ns;
        }
    }
    qsort(schedule.steps, schedule.nsteps, sizeof *schedule.steps, compare_steps);
    for (size_t i = 0; i < schedule.nsteps; i++)
        schedule.steps[i].sequence = (uint32_t)i;
    return schedule;
}
