/* SPDX-License-Identifier: Apache-2.0 */
/* A real nginx of our own on loopback, in a folder of its own, one process. */
#ifndef VTILE_TESTS_UNIT_TILES_NGINX_H
#define VTILE_TESTS_UNIT_TILES_NGINX_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/text.h"

struct nginx {
    char dir[64];
    uint16_t port;
    pid_t pid; /* 0: not running */
    bool tls;
};

/* False where this machine has no nginx or openssl program. */
bool nginx_present(void);
/* Picks a port, makes the certificate. server: directives of the server block. The access log has
 * a line "<$msec> <$arg_r> <$status> <$connection_requests>" a request. */
void nginx_init(struct nginx *nginx, bool tls, const char *server);
/* Returns once it accepts connections. */
void nginx_start(struct nginx *nginx);
void nginx_kill(struct nginx *nginx, int signal); /* and, unless STOP or CONT, reaps */
void nginx_fini(struct nginx *nginx);             /* kills, removes the folder */
/* A client context that trusts this server alone; its name is "web.test". */
SSL_CTX *nginx_client_context(const struct nginx *nginx);

struct nginx_line {
    double time_s; /* since 1970, ms grain */
    unsigned r, status, connection_requests;
};
/* Lines of the access log; free() them. A line is written after its answer: waits, 30 s at most,
 * until so many are there. */
struct nginx_line *nginx_log(const struct nginx *nginx, size_t at_least, size_t *ret_n);

#endif
