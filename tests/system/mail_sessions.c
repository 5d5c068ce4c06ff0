/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mail_sessions FILES WORK STEPS SEED: the mail role as its guest and its driver see it, without a
 * guest: prepares and starts a dovecot in WORK (which holds cert.pem and key.pem), has open
 * sessions of a few users take steps in random order, then checks that every acknowledged APPEND
 * is kept; all of it again after the server was ended and prepared again on the same data. Wants a
 * network namespace of its own, where 127.0.0.1:993 is free. Tells what it saw in JSON.
 */
#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/scope.h"
#include "tiles/roles/mail/mail.h"
#include "tiles/roles/probe.h"
#include "tiles/roles/registry.h"

#define SESSIONS 16 /* at once */
#define USERS 4     /* so that several sessions share a mailbox */
#define STEPS_MAX 100000

struct session {
    struct probe_stream stream;
    void *conn;
    uint32_t state[16]; /* of plan() */
    bool open, first;
    uint32_t user;
};

struct site {
    struct role_guest guest;
    char data[512], run[512], cert[512], key[512];
    struct driver_target target;
    struct vt_rng rng;
    struct spec_load load;
    struct session sessions[SESSIONS];
    uint32_t sequence;
    uint8_t kept[STEPS_MAX / 8 + 1];
    unsigned done[MAIL_OPERATIONS], wrong, failed, acknowledged;
    char first_wrong[256];
};

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "mail_sessions: %s: %s\n", what, why);
    exit(1);
}

static void must(int rc, const char *what, const struct vt_error *err)
{
    if (rc < 0)
        fail(what, err->text);
}

/* --- the server --- */

static void start_server(struct site *s)
{
    struct vt_error err = VT_ERROR_INIT;
    int64_t until_ns = vt_clock_now_ns() + 30 * VT_NS_PER_S;
    int rc;

    must(role_mail_guest.prepare(&s->guest, &err), "prepare", &err);
    must(role_mail_guest.start(&s->guest, &err), "start", &err);
    while ((rc = role_mail_guest.ready(&s->guest, &err)) == -EAGAIN && vt_clock_now_ns() < until_ns)
        poll(NULL, 0, 20);
    must(rc, "ready", &err);
}

static void end_server(struct site *s)
{
    kill(s->guest.children[0].pid, SIGTERM);
    waitpid(s->guest.children[0].pid, NULL, 0);
}

/* --- sessions --- */

static enum driver_verdict answer(struct site *s, struct session *session, const char **why)
{
    struct vt_buf out = VT_BUF_INIT(65536);
    enum driver_verdict verdict = DRIVER_MORE;
    uint8_t data[1500];

    while (verdict == DRIVER_MORE || verdict == DRIVER_SEND) {
        /* Pieces of any length. */
        ssize_t n =
            probe_receive(&session->stream, data, 1 + vt_rng_below(&s->rng, sizeof(data) - 1));

        if (n <= 0) {
            verdict = mail_driver.on_eof(session->conn, false, why);
            break;
        }
        for (size_t at = 0; at < (size_t)n;) {
            size_t used;

            vt_buf_reset(&out);
            verdict =
                mail_driver.on_bytes(session->conn, data + at, (size_t)n - at, &used, &out, why);
            at += used;
            if (verdict == DRIVER_SEND && !probe_send(&session->stream, out.data, out.len))
                fail("send", "the connection ended");
            if (verdict == DRIVER_BAD)
                break;
        }
    }
    vt_buf_dispose(&out);
    return verdict;
}

static void begin_session(struct site *s, struct session *session)
{
    struct vt_error err = VT_ERROR_INIT;

    must(probe_open("127.0.0.1", MAIL_PORT, s->guest.ca_file, &session->stream, &err), "connect",
         &err);
    session->conn = calloc(1, mail_driver.conn_bytes);
    mail_driver.conn_init(session->conn, &s->target);
    memset(session->state, 0, sizeof(session->state));
    session->open = session->first = true;
    session->user = (uint32_t)vt_rng_below(&s->rng, USERS);
}

static void end_session(struct session *session)
{
    if (!session->open)
        return;
    mail_driver.conn_fini(session->conn);
    free(session->conn);
    probe_close(&session->stream);
    session->open = false;
}

static void note_wrong(struct site *s, const struct driver_step *step, const char *why)
{
    if (!*s->first_wrong)
        snprintf(s->first_wrong, sizeof(s->first_wrong), "%s: %s",
                 mail_driver.operations[step->operation], why);
}

/* One more step of a session; sessions begin at their start or, every second one, in the middle. */
static void take_step(struct site *s, struct session *session)
{
    struct vt_buf out = VT_BUF_INIT(65536);
    struct driver_step step = {.sequence = s->sequence++};
    const char *why = NULL;
    enum driver_verdict verdict = DRIVER_DONE;
    bool fresh = s->sequence % 2;
    int64_t gap_ns;

    if (!mail_driver.plan(session->state, &s->rng, &s->load, session->first, fresh, &step.operation,
                          &step.argument, &gap_ns))
        fail("plan", "a session ended that had not logged out");
    step.argument = (step.argument & 0xffffff) | session->user << 24;
    if (session->first && step.operation != MAIL_LOGIN) {
        mail_driver.enter(session->conn, &step, &out);
        verdict = answer(s, session, &why);
    }
    session->first = false;
    if (verdict == DRIVER_DONE) {
        vt_buf_reset(&out);
        mail_driver.request(session->conn, &step, &out);
        if (!probe_send(&session->stream, out.data, out.len))
            fail("send", "the connection ended");
        verdict = answer(s, session, &why);
    }
    vt_buf_dispose(&out);
    if (mail_driver.acknowledges(session->conn)) {
        s->kept[step.sequence / 8] |= (uint8_t)(1U << step.sequence % 8);
        s->acknowledged++;
    }
    s->done[step.operation] += verdict == DRIVER_DONE;
    s->wrong += verdict == DRIVER_WRONG;
    s->failed += verdict == DRIVER_BAD;
    if (verdict != DRIVER_DONE)
        note_wrong(s, &step, why);
    if (verdict == DRIVER_BAD || !mail_driver.keep(session->conn))
        end_session(session);
}

static void take_steps(struct site *s, unsigned n)
{
    while (n-- > 0) {
        struct session *session = &s->sessions[vt_rng_below(&s->rng, SESSIONS)];

        if (!session->open)
            begin_session(s, session);
        take_step(s, session);
    }
    for (unsigned i = 0; i < SESSIONS; i++)
        end_session(&s->sessions[i]);
}

/* --- what is kept --- */

static void check(struct site *s)
{
    VT_AUTO_BUF struct vt_buf bits = VT_BUF_INIT(STEPS_MAX);
    struct vt_error err = VT_ERROR_INIT;
    json_t *facts = json_object();
    unsigned lost = 0;
    char path[600];

    must(role_mail_guest.check(&s->guest, facts, &err), "check", &err);
    snprintf(path, sizeof(path), "%s/kept.mail.%u.bits", s->run, s->guest.tile);
    must(vt_file_read(path, VT_KIND_INFRA, &bits, &err), "bits", &err);
    for (uint32_t i = 0; i < s->sequence; i++) {
        bool wanted = s->kept[i / 8] >> i % 8 & 1;

        lost += wanted && (i / 8 >= bits.len || !((uint8_t)bits.data[i / 8] >> i % 8 & 1));
    }
    json_object_set_new(facts, "acknowledged", json_integer(s->acknowledged));
    json_object_set_new(facts, "lost", json_integer(lost));
    json_object_set_new(facts, "wrong_steps", json_integer(s->wrong));
    json_object_set_new(facts, "failed_steps", json_integer(s->failed));
    json_object_set_new(facts, "first_wrong_step", json_string(s->first_wrong));
    for (unsigned i = 0; i < MAIL_OPERATIONS; i++)
        json_object_set_new(facts, mail_driver.operations[i], json_integer(s->done[i]));
    json_dumpf(facts, stdout, JSON_COMPACT | JSON_SORT_KEYS);
    printf("\n");
    fflush(stdout);
    json_decref(facts);
}

int main(int argc, char **argv)
{
    static struct site s;
    unsigned steps = argc == 5 ? (unsigned)strtoul(argv[3], NULL, 10) : 0;

    if (steps == 0 || 2 * steps > STEPS_MAX)
        fail("usage", "mail_sessions FILES WORK STEPS SEED");
    snprintf(s.data, sizeof(s.data), "%s/data", argv[2]);
    snprintf(s.run, sizeof(s.run), "%s/run", argv[2]);
    snprintf(s.cert, sizeof(s.cert), "%s/cert.pem", argv[2]);
    snprintf(s.key, sizeof(s.key), "%s/key.pem", argv[2]);
    s.guest = (struct role_guest){
        .role = "mail",
        .address = "127.0.0.1",
        .tile = 3,
        .seed = strtoull(argv[4], NULL, 10),
        .data_bytes = 12U << 20,
        .vcpus = 1,
        .files_dir = argv[1],
        .data_dir = s.data,
        .run_dir = s.run,
        .cert_file = s.cert,
        .key_file = s.key,
        .ca_file = s.cert,
    };
    s.target.tile = 3;
    vt_rng_seed(&s.rng, s.guest.seed, "mail/sessions", 0);
    start_server(&s);
    take_steps(&s, steps);
    check(&s);
    end_server(&s);
    start_server(&s);
    check(&s);
    take_steps(&s, steps);
    check(&s);
    /* An orderly word that the server may be looked at from outside; ends with its input. */
    while (getchar() != EOF)
        ;
    end_server(&s);
    return 0;
}
