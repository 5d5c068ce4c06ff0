/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/tiles/nginx.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/proc.h"
#include "base/scope.h"

static bool answers(const char *program, const char *option)
{
    const char *const argv[] = {program, option, NULL};

    return vt_proc_run(argv, NULL, 10 * VT_NS_PER_S, NULL) == 0;
}

bool nginx_present(void)
{
    bool present = answers("nginx", "-v") && answers("openssl", "version");

    if (!present)
        print_message("needs the programs nginx and openssl\n");
    return present;
}

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
}

static uint16_t free_port(void)
{
    VT_AUTO_CLOSE int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = loopback(0);
    socklen_t len = sizeof address;

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    return ntohs(address.sin_port);
}

static void make_certificate(const struct nginx *nginx)
{
    char key[128], cert[128];
    const char *const argv[] = {"openssl",
                                "req",
                                "-x509",
                                "-newkey",
                                "ec",
                                "-pkeyopt",
                                "ec_paramgen_curve:P-256",
                                "-nodes",
                                "-days",
                                "2",
                                "-subj",
                                "/CN=web.test",
                                "-addext",
                                "subjectAltName=DNS:web.test",
                                "-keyout",
                                key,
                                "-out",
                                cert,
                                NULL};
    struct vt_error err = VT_ERROR_INIT;

    snprintf(key, sizeof key, "%s/key.pem", nginx->dir);
    snprintf(cert, sizeof cert, "%s/cert.pem", nginx->dir);
    if (vt_proc_run(argv, NULL, 60 * VT_NS_PER_S, &err) < 0)
        fail_msg("%s", err.text);
}

static void write_config(const struct nginx *nginx, const char *server)
{
    char path[128];
    VT_AUTO_FCLOSE FILE *file = NULL;

    snprintf(path, sizeof path, "%s/nginx.conf", nginx->dir);
    file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file,
            "daemon off;\nmaster_process off;\npid nginx.pid;\nerror_log error.log warn;\n"
            "events { worker_connections 512; }\n"
            "http {\n"
            "  log_format line '$msec $arg_r $status $connection_requests';\n"
            "  access_log access.log line;\n"
            "  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;\n"
            "  uwsgi_temp_path uwsgi; scgi_temp_path scgi;\n"
            "  server {\n    listen 127.0.0.1:%u backlog=511%s;\n",
            nginx->port, nginx->tls ? " ssl" : "");
    if (nginx->tls)
        fprintf(file, "    ssl_certificate cert.pem; ssl_certificate_key key.pem;\n"
                      "    ssl_protocols TLSv1.3;\n");
    fprintf(file, "%s\n  }\n}\n", server);
}

void nginx_init(struct nginx *nginx, bool tls, const char *server)
{
    *nginx = (struct nginx){.port = free_port(), .tls = tls};
    snprintf(nginx->dir, sizeof nginx->dir, "/tmp/vtile-nginx-XXXXXX");
    assert_non_null(mkdtemp(nginx->dir));
    if (tls)
        make_certificate(nginx);
    write_config(nginx, server);
}

static bool accepts(uint16_t port)
{
    VT_AUTO_CLOSE int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = loopback(port);

    assert_true(fd >= 0);
    return connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
}

void nginx_start(struct nginx *nginx)
{
    char conf[128];
    const char *const argv[] = {"nginx", "-p", nginx->dir, "-c", conf, "-e", "error.log", NULL};
    struct vt_proc_spec spec = VT_PROC_SPEC_INIT;
    struct vt_error err = VT_ERROR_INIT;
    int64_t until_ns = vt_clock_now_ns() + 30 * VT_NS_PER_S;

    snprintf(conf, sizeof conf, "%s/nginx.conf", nginx->dir);
    spec.argv = argv;
    if (vt_proc_spawn(&spec, &nginx->pid, &err) < 0)
        fail_msg("%s", err.text);
    while (!accepts(nginx->port)) {
        if (vt_clock_now_ns() > until_ns || waitpid(nginx->pid, NULL, WNOHANG) != 0)
            fail_msg("nginx does not listen; see %s/error.log", nginx->dir);
        poll(NULL, 0, 5);
    }
}

void nginx_kill(struct nginx *nginx, int signal)
{
    if (nginx->pid == 0)
        return;
    assert_int_equal(kill(nginx->pid, signal), 0);
    if (signal == SIGSTOP || signal == SIGCONT)
        return;
    assert_int_equal(waitpid(nginx->pid, NULL, 0), nginx->pid);
    nginx->pid = 0;
}

void nginx_fini(struct nginx *nginx)
{
    const char *const argv[] = {"rm", "-r", "--", nginx->dir, NULL};

    nginx_kill(nginx, SIGKILL);
    assert_int_equal(vt_proc_run(argv, NULL, 0, NULL), 0);
}

SSL_CTX *nginx_client_context(const struct nginx *nginx)
{
    char cert[128];
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());

    assert_non_null(ctx);
    snprintf(cert, sizeof cert, "%s/cert.pem", nginx->dir);
    assert_int_equal(SSL_CTX_load_verify_locations(ctx, cert, NULL), 1);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    return ctx;
}

static struct nginx_line *read_log(const struct nginx *nginx, size_t *ret_n)
{
    char path[128], text[128];
    VT_AUTO_FCLOSE FILE *file = NULL;
    struct nginx_line *lines = NULL;
    size_t n = 0, room = 0;

    snprintf(path, sizeof path, "%s/access.log", nginx->dir);
    file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(text, sizeof text, file)) {
        struct nginx_line line;

        if (n == room) {
            struct nginx_line *grown;

            room = 2 * room + 1024;
            grown = realloc(lines, room * sizeof *lines);
            assert_non_null(grown);
            lines = grown;
        }
        assert_int_equal(sscanf(text, "%lf %u %u %u", &line.time_s, &line.r, &line.status,
                                &line.connection_requests),
                         4);
        lines[n++] = line;
    }
    *ret_n = n;
    return lines;
}

struct nginx_line *nginx_log(const struct nginx *nginx, size_t at_least, size_t *ret_n)
{
    int64_t until_ns = vt_clock_now_ns() + 30 * VT_NS_PER_S;
    struct nginx_line *lines = read_log(nginx, ret_n);

    while (*ret_n < at_least && vt_clock_now_ns() < until_ns) {
        free(lines);
        poll(NULL, 0, 5);
        lines = read_log(nginx, ret_n);
    }
    return lines;
}
