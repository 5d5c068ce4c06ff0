/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections of drivers with statements: libpq owns the socket, a poll handle of the loop watches
 * it. Pipeline mode: all statements are prepared in one round trip, and a request with its sync
 * goes out in one write. An answer is whole when its sync has come.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/scope.h"
#include "tiles/load/connection_kind.h"
#include "tiles/load/libpq.h"
#include "tiles/load/sql.h"

/* libpq may change its socket while it connects; a handle whose socket is gone must still be
 * closed by the loop, so each stands by itself. */
struct sql_socket {
    uv_poll_t poll;
    int fd;
    struct sql_session *session; /* NULL: it has another socket now */
};

/* From one open to its end. */
struct sql_session {
    struct connection *connection;
    const struct libpq *libpq;
    PGconn *pq;
    struct sql_socket *socket;
    bool connected, ending;
    unsigned nprepared;
    /* The answer that is coming: */
    enum driver_verdict verdict;
    bool judged;
    const char *why;      /* the driver's, or text */
    uint64_t begin_bytes; /* read by libpq when it was seen to be long; 0: it is not */
    char text[160];
    struct vt_error err; /* why the connection ended */
};

/* --- texts --- */

static void take_text(struct sql_session *s, const char *code, const char *text)
{
    snprintf(s->text, sizeof s->text, "%s%s%.*s", code ? code : "", code ? ": " : "",
             (int)strcspn(text, "\n"), text);
    vt_text_make_plain(s->text);
}

static void take_refusal(struct sql_session *s, const PGresult *result)
{
    const char *code = s->libpq->PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *text = s->libpq->PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

    take_text(s, code, text ? text : s->libpq->PQerrorMessage(s->pq));
}

static void ignore_notice(void *ctx, const PGresult *result)
{
    (void)ctx, (void)result;
}

/* --- its end --- */

static void free_socket(uv_handle_t *handle)
{
    free(handle->data);
}

static void on_socket_closed(uv_handle_t *handle)
{
    struct sql_socket *socket = handle->data;
    struct sql_session *s = socket->session;
    struct connection *c = s->connection;
    struct vt_error err = s->err;

    free(socket);
    free(s);
    c->sql = NULL;
    connection_closed(c, &err);
}

/* The handle first: libpq closes the socket. It says goodbye where the socket takes it at once and
 * waits for nothing, so an orderly end is no other. */
static void sql_end(struct connection *c, bool orderly)
{
    struct sql_session *s = c->sql;

    (void)orderly;
    if (s->ending)
        return;
    s->ending = true;
    if (s->err.code == 0)
        vt_error_set(&s->err, VT_KIND_INFRA, -ECANCELED, "the connection was closed");
    uv_close((uv_handle_t *)&s->socket->poll, on_socket_closed);
    s->libpq->PQfinish(s->pq);
    s->pq = NULL;
}

/* The server's last words, where there are any, else libpq's. */
static void lost(struct sql_session *s)
{
    struct connection *c = s->connection;

    if (!s->text[0] || c->state == CONNECTION_IDLE)
        take_text(s, NULL, s->libpq->PQerrorMessage(s->pq));
    vt_error_set(&s->err, VT_KIND_INFRA, -ECONNRESET, "%s", s->text);
    if (connection_awaits_answer(c))
        connection_fail(c, s->text);
    else
        connection_end(c, false);
}

/* --- answers --- */

struct answer {
    const struct libpq *libpq;
    const PGresult *result;
};

static const char *value(const void *result, unsigned row, unsigned column)
{
    const struct answer *answer = result;

    if (answer->libpq->PQgetisnull(answer->result, (int)row, (int)column))
        return NULL;
    return answer->libpq->PQgetvalue(answer->result, (int)row, (int)column);
}

static void judge(struct sql_session *s, const PGresult *result)
{
    struct connection *c = s->connection;
    const struct answer answer = {s->libpq, result};
    const struct sql_rows rows = {
        .nrows = (unsigned)s->libpq->PQntuples(result),
        .ncolumns = (unsigned)s->libpq->PQnfields(result),
        .value = value,
        .result = &answer,
    };

    s->verdict = c->driver->sql->judge(c->conversation, &rows, &s->why);
    s->judged = true;
}

static void refused(struct sql_session *s, const PGresult *result)
{
    take_refusal(s, result);
    s->verdict = DRIVER_WRONG;
    s->why = s->text;
    s->judged = true;
}

/* All that was asked has been answered. */
static void answer_is_whole(struct sql_session *s)
{
    struct connection *c = s->connection;

    if (c->state == CONNECTION_OPENING && s->nprepared < c->driver->sql->nstatements)
        lost(s);
    else if (c->state == CONNECTION_OPENING)
        connection_opened(c);
    else if (!s->judged)
        connection_fail(c, "no answer came to the statement");
    else
        connection_whole(c, s->verdict, s->why, true);
}

/* True: go on. */
static bool take_result(struct sql_session *s, PGresult *result)
{
    struct connection *c = s->connection;
    ExecStatusType status = s->libpq->PQresultStatus(result);

    if (status == PGRES_PIPELINE_SYNC) {
        s->libpq->PQclear(result);
        answer_is_whole(s);
        return false;
    }
    if (status == PGRES_COMMAND_OK && c->state == CONNECTION_OPENING)
        s->nprepared++;
    else if (status == PGRES_FATAL_ERROR && !s->judged)
        refused(s, result);
    else if ((status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) && !s->judged &&
             c->state == CONNECTION_BUSY)
        judge(s, result);
    s->libpq->PQclear(result);
    return true;
}

/* A NULL ends the results of each statement. */
static void take_results(struct sql_session *s)
{
    unsigned nulls = 0;

    while (!s->libpq->PQisBusy(s->pq)) {
        PGresult *result = s->libpq->PQgetResult(s->pq);

        if (result) {
            nulls = 0;
            if (!take_result(s, result))
                return;
        } else if (s->libpq->PQstatus(s->pq) == CONNECTION_BAD || ++nulls > 1) {
            lost(s);
            return;
        }
    }
}

/* As far as it is needed; glibc's declaration ends before, and the kernel's own header cannot stand
 * beside glibc's. */
struct long_tcp_info {
    struct tcp_info old;
    uint64_t pacing_rate, max_pacing_rate, bytes_acked, bytes_received;
};

/* libpq has no bound of its own; the kernel counts what came on a socket and what of it libpq has
 * not read yet. */
static bool too_long(struct sql_session *s)
{
    struct long_tcp_info info = {.bytes_received = 0};
    socklen_t size = sizeof info;
    int unread = 0;
    uint64_t taken;

    if (getsockopt(s->socket->fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0 ||
        ioctl(s->socket->fd, FIONREAD, &unread) < 0)
        return false;
    taken = info.bytes_received - (uint64_t)unread;
    if (s->begin_bytes == 0)
        s->begin_bytes = taken;
    return taken > s->begin_bytes + SQL_ANSWER_BYTES_MAX;
}

/* --- the socket --- */

static void watch(struct sql_session *s, int events);

static void flush(struct sql_session *s)
{
    int left = s->libpq->PQflush(s->pq);

    if (left < 0)
        lost(s);
    else
        watch(s, left > 0 ? UV_READABLE | UV_WRITABLE : UV_READABLE);
}

static void read_answers(struct sql_session *s)
{
    struct connection *c = s->connection;

    if (c->answer_ns == 0)
        c->answer_ns = vt_clock_now_ns();
    if (!s->libpq->PQconsumeInput(s->pq)) {
        lost(s);
    } else if (c->state == CONNECTION_IDLE) {
        s->libpq->PQisBusy(s->pq); /* takes notices and what else nobody asked for */
        if (s->libpq->PQstatus(s->pq) == CONNECTION_BAD)
            lost(s);
    } else if ((s->libpq->PQisBusy(s->pq) || s->begin_bytes > 0) && too_long(s)) {
        take_text(s, NULL, "the answer is too long");
        lost(s);
    } else {
        take_results(s);
    }
}

/* --- opening --- */

static bool prepare(struct sql_session *s)
{
    const struct driver_sql *sql = s->connection->driver->sql;
    char name[12];

    if (s->libpq->PQsetnonblocking(s->pq, 1) < 0 || !s->libpq->PQenterPipelineMode(s->pq))
        return false;
    for (unsigned i = 0; i < sql->nstatements; i++) {
        snprintf(name, sizeof name, "%u", i);
        if (!s->libpq->PQsendPrepare(s->pq, name, sql->statements[i], 0, NULL))
            return false;
    }
    return s->libpq->PQpipelineSync(s->pq);
}

static void on_socket(uv_poll_t *poll, int status, int events);

static int use_socket(struct sql_session *s, struct vt_error *err)
{
    int fd = s->libpq->PQsocket(s->pq), code;
    struct sql_socket *socket;

    if (s->socket && s->socket->fd == fd)
        return 0;
    socket = calloc(1, sizeof *socket);
    if (!socket)
        return vt_error_no_memory(err, "a connection");
    code = uv_poll_init(&s->connection->loop->uv, &socket->poll, fd);
    if (code < 0) {
        free(socket);
        return vt_error_set(err, VT_KIND_INFRA, code, "watch a socket: %s", uv_strerror(code));
    }
    socket->poll.data = socket;
    socket->fd = fd;
    socket->session = s;
    if (s->socket) {
        s->socket->session = NULL;
        uv_close((uv_handle_t *)&s->socket->poll, free_socket);
    }
    s->socket = socket;
    return 0;
}

static void go_on_connecting(struct sql_session *s)
{
    PostgresPollingStatusType next;

    /* libpq may close the socket: the loop must have let go of it. */
    uv_poll_stop(&s->socket->poll);
    next = s->libpq->PQconnectPoll(s->pq);
    if (next == PGRES_POLLING_FAILED || (next == PGRES_POLLING_OK && !prepare(s))) {
        lost(s);
    } else if (use_socket(s, &s->err) < 0) {
        connection_end(s->connection, false);
    } else if (next == PGRES_POLLING_OK) {
        s->connected = true;
        flush(s);
    } else {
        watch(s, next == PGRES_POLLING_READING ? UV_READABLE : UV_WRITABLE);
    }
}

static void on_socket(uv_poll_t *poll, int status, int events)
{
    struct sql_session *s = ((struct sql_socket *)poll->data)->session;

    if (!s || s->ending)
        return;
    if (!s->connected) {
        go_on_connecting(s);
        return;
    }
    if (events & UV_WRITABLE)
        flush(s);
    /* An error of the socket is libpq's to find. */
    if (!s->ending && (status < 0 || events & UV_READABLE))
        read_answers(s);
}

static void watch(struct sql_session *s, int events)
{
    int code = uv_poll_start(&s->socket->poll, events, on_socket);

    if (code == 0)
        return;
    take_text(s, NULL, uv_strerror(code));
    lost(s);
}

static PGconn *begin(const struct connection *c, const struct libpq *libpq)
{
    /* One address, no TLS, no Kerberos: one socket, and nothing is tried twice. The password is not
     * asked for, but where there is one no file is searched for it. */
    static const char *const names[] = {"hostaddr",   "port",     "user",
                                        "dbname",     "password", "application_name",
                                        "gssencmode", "sslmode",  NULL};
    char user[64], port[8];
    const char *const values[] = {
        c->target->address, port,      user, c->driver->sql->database, "none", "vtile",
        "disable",          "disable", NULL};

    snprintf(port, sizeof port, "%u", c->target->port);
    c->driver->sql->user(c->target, user, sizeof user);
    return libpq->PQconnectStartParams(names, values, 0);
}

static int sql_open(struct connection *c, struct vt_error *err)
{
    struct sql_session *s;
    const struct libpq *libpq;
    int code = libpq_load(&libpq, err);

    if (code < 0)
        return code;
    s = calloc(1, sizeof *s);
    if (!s)
        return vt_error_no_memory(err, "a connection");
    s->connection = c;
    s->libpq = libpq;
    s->pq = begin(c, libpq);
    if (!s->pq || libpq->PQstatus(s->pq) == CONNECTION_BAD) {
        take_text(s, NULL, s->pq ? libpq->PQerrorMessage(s->pq) : "out of memory");
        code = vt_error_set(err, VT_KIND_INFRA, -ECONNREFUSED, "%s", s->text);
    } else {
        libpq->PQsetNoticeReceiver(s->pq, ignore_notice, NULL);
        code = use_socket(s, err);
    }
    if (code < 0) {
        libpq->PQfinish(s->pq);
        free(s);
        return code;
    }
    c->sql = s;
    uv_poll_start(&s->socket->poll, UV_WRITABLE, on_socket); /* a new handle takes it */
    return 0;
}

/* --- requests --- */

static bool sql_send(struct connection *c, const struct driver_step *step, bool enter)
{
    struct sql_session *s = c->sql;
    struct sql_call call;
    const char *values[SQL_VALUES_MAX];
    char name[12];

    if (enter)
        return false;
    c->driver->sql->call(c->conversation, step, &call);
    for (unsigned i = 0; i < call.nvalues; i++)
        values[i] = call.values[i];
    snprintf(name, sizeof name, "%u", call.statement);
    s->judged = false;
    s->why = NULL;
    s->begin_bytes = 0;
    s->text[0] = '\0';
    if (!s->libpq->PQsendQueryPrepared(s->pq, name, (int)call.nvalues, values, NULL, NULL, 0) ||
        !s->libpq->PQpipelineSync(s->pq))
        return false;
    return s->libpq->PQflush(s->pq) == 0 ||
           uv_poll_start(&s->socket->poll, UV_READABLE | UV_WRITABLE, on_socket) == 0;
}

static int sql_fd(const struct connection *c)
{
    return c->sql->socket->fd;
}

const struct connection_kind connection_of_sql = {
    .open = sql_open,
    .send = sql_send,
    .end = sql_end,
    .fd = sql_fd,
};
