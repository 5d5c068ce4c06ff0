/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/roles/nginx.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/scope.h"
#include "base/text.h"
#include "tiles/roles/probe.h"
#include "tiles/roles/server.h"

#define LOG_BYTES_MAX (64L << 20)
#define VALUES_MAX 16

/* --- configuration --- */

static int fill(const struct role_guest *guest, const char *name,
                const struct template_value *values, size_t n, struct vt_error *err)
{
    char in[64], out[512];

    snprintf(in, sizeof(in), "%s.in", name);
    snprintf(out, sizeof(out), "%s/%s", guest->run_dir, name);
    return template_fill(guest->files_dir, in, out, values, n, err);
}

/* Unbuffered: what was asked last stands there too. */
static void access_log_of(const struct role_guest *guest, char *buf, size_t size)
{
    if (guest->log_requests)
        snprintf(buf, size, "%s/requests.log requests", guest->run_dir);
    else
        vt_text_copy(buf, size, "off");
}

int nginx_guest_configure(const struct role_guest *guest, bool php,
                          const struct template_value *own, size_t nown, struct vt_error *err)
{
    char workers[12], access_log[600];
    struct template_value values[VALUES_MAX] = {
        {"WORKERS", workers},
        {"RUN_DIR", guest->run_dir},
        {"FILES_DIR", guest->files_dir},
        {"ACCESS_LOG", access_log},
    };
    size_t n = 4;
    int ret;

    if (nown > VALUES_MAX - n)
        return vt_error_set(err, VT_KIND_CONFIG, -E2BIG, "%zu values for nginx", nown);
    memcpy(values + n, own, nown * sizeof(*own));
    n += nown;
    snprintf(workers, sizeof(workers), "%u", guest->vcpus);
    access_log_of(guest, access_log, sizeof(access_log));
    ret = fill(guest, "nginx.conf", values, n, err);
    return ret < 0 || !php ? ret : fill(guest, "php-fpm.conf", values, n, err);
}

/* --- start --- */

int nginx_guest_start(struct role_guest *guest, struct vt_error *err)
{
    char conf[512];
    const char *const argv[] = {"nginx", "-c", conf, NULL};

    snprintf(conf, sizeof(conf), "%s/nginx.conf", guest->run_dir);
    return server_start(guest, "nginx", argv, err);
}

int nginx_guest_start_php(struct role_guest *guest, struct vt_error *err)
{
    char conf[512];
    const char *const argv[] = {"php-fpm8.2", "-F", "-y", conf, NULL};
    int ret;

    snprintf(conf, sizeof(conf), "%s/php-fpm.conf", guest->run_dir);
    ret = server_start(guest, "php-fpm", argv, err);
    return ret < 0 ? ret : nginx_guest_start(guest, err);
}

int nginx_guest_php_listens(const struct role_guest *guest, struct vt_error *err)
{
    char socket[512];

    snprintf(socket, sizeof(socket), "%s/php.sock", guest->run_dir);
    if (access(socket, F_OK) < 0)
        return vt_error_set(err, VT_KIND_INFRA, -EAGAIN, "php-fpm does not listen yet");
    return 0;
}

/* --- what it logged --- */

const struct role_log nginx_guest_logs[] = {
    {"nginx.error", "error.log"},
    {"nginx.requests", "requests.log"},
    {NULL, NULL},
};

const struct role_log nginx_guest_php_logs[] = {
    {"nginx.error", "error.log"},
    {"nginx.requests", "requests.log"},
    {"php.error", "php.log"},
    {NULL, NULL},
};

static FILE *open_log(const struct role_guest *guest, const char *name)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/%s", guest->run_dir, name);
    return fopen(path, "re");
}

int nginx_guest_facts(struct role_guest *guest, json_t *facts, struct vt_error *err)
{
    VT_AUTO_FCLOSE FILE *requests = open_log(guest, "requests.log");
    VT_AUTO_FCLOSE FILE *complaints = open_log(guest, "error.log");
    char line[1024], first[256] = "";
    json_int_t nrequests = 0, not_ok = 0, ncomplaints = 0;
    unsigned sequence;
    int status;
    bool cut = false;

    while (requests && fgets(line, sizeof(line), requests)) {
        if (sscanf(line, "%*s %*s %3d %u", &status, &sequence) != 2)
            status = 0;
        else if (sequence == PROBE_SEQUENCE)
            continue;
        nrequests++;
        not_ok += status != 200;
        if (ftell(requests) > LOG_BYTES_MAX) {
            cut = true;
            break;
        }
    }
    while (complaints && fgets(line, sizeof(line), complaints)) {
        line[strcspn(line, "\n")] = '\0';
        if (ncomplaints++ == 0)
            vt_text_copy(first, sizeof(first), line);
        if (ftell(complaints) > LOG_BYTES_MAX) {
            cut = true;
            break;
        }
    }
    vt_text_make_plain(first);
    if (json_object_set_new(facts, "requests", json_integer(nrequests)) ||
        json_object_set_new(facts, "not_ok", json_integer(not_ok)) ||
        json_object_set_new(facts, "complaints", json_integer(ncomplaints)) ||
        json_object_set_new(facts, "first_complaint", json_string(first)) ||
        json_object_set_new(facts, "log_cut", json_boolean(cut)))
        return vt_error_no_memory(err, "collect facts of nginx");
    return 0;
}
