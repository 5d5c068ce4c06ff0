/* SPDX-License-Identifier: Apache-2.0 */
/* An agent as a test wants it: honest steps one by one, so that each can be done wrong. */
#ifndef VTILE_TESTS_UNIT_HUB_FAKE_AGENT_H
#define VTILE_TESTS_UNIT_HUB_FAKE_AGENT_H

#include "base/cert.h"
#include "wire/conn.h"
#include "wire/message.h"

struct fake_agent {
    struct vt_loop *loop;
    struct wire_conn *conn; /* NULL once closed */
    SSL_CTX *tls;
    unsigned opened, closed, frames;
    struct vt_error err;
    enum wire_type last_type;
    uint16_t last_stream;
    struct vt_buf last; /* payload of the last frame */
};

/* Dials; identity NULL: without a certificate. */
void fake_dial(struct fake_agent *agent, struct vt_loop *loop, uint16_t port, X509 *ca,
               const struct vt_identity *identity);
void fake_send_json(struct fake_agent *agent, enum wire_type type, uint16_t stream, json_t *json);
void fake_send_hello(struct fake_agent *agent, const char *name, const char *duty);
/* Sends ENROL for a key made here; the certificate that comes stands in *ret afterwards. */
void fake_send_enrol(struct fake_agent *agent, const char *name, const char *token, EVP_PKEY *key);
void fake_take_cert(struct fake_agent *agent, EVP_PKEY *key, struct vt_identity *ret);
void fake_end(struct fake_agent *agent); /* after the loop has closed it */

/* Runs the loop for at most twenty seconds until *value >= wanted. */
void run_until(struct vt_loop *loop, const unsigned *value, unsigned wanted);
void run_turns(struct vt_loop *loop, unsigned turns);

#endif
