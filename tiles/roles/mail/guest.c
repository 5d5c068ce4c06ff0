/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/file.h"
#include "base/rng.h"
#include "base/scope.h"
#include "tiles/roles/kept_bits.h"
#include "tiles/roles/mail/mail.h"
#include "tiles/roles/mail/store.h"
#include "tiles/roles/probe.h"
#include "tiles/roles/registry.h"
#include "tiles/roles/server.h"
#include "tiles/roles/template.h"

#define PATH_MAX_BYTES 512
/* The system user that all mailboxes belong to: Debian has it in every installation. */
#define MAIL_OWNER "mail"
/* Private memory of an imap process is about 1 MiB: where a hundred of them would not fit, one
 * serves several sessions, which then wait for each other's disk. */
#define SCARCE_BYTES (UINT64_C(512) << 20)
#define CLIENTS_SCARCE 16
/* Descriptors that dovecot's services may need with the limits in dovecot.conf.in; a process has
 * 1024 by default, and a login process one or two for each session. */
#define FILES_WANTED 20000

static void set_path(char *path, const char *folder, const char *name)
{
    snprintf(path, PATH_MAX_BYTES, "%s/%s", folder, name);
}

/* --- prepare --- */

static unsigned clients_per_process(void)
{
    struct sysinfo machine;

    if (sysinfo(&machine) < 0)
        return 1;
    return (uint64_t)machine.totalram * machine.mem_unit < SCARCE_BYTES ? CLIENTS_SCARCE : 1;
}

static int write_config(const struct role_guest *guest, const char *mail_dir,
                        const struct passwd *owner, struct vt_error *err)
{
    char out[PATH_MAX_BYTES], info[PATH_MAX_BYTES], uid[12], gid[12], logins[12], clients[12],
        port[12];
    const struct template_value values[] = {
        {"RUN_DIR", guest->run_dir},
        {"INFO_LOG", info},
        {"CERT", guest->cert_file},
        {"KEY", guest->key_file},
        {"MAIL_DIR", mail_dir},
        {"PASSWORD", MAIL_PASSWORD},
        {"UID", uid},
        {"GID", gid},
        {"LOGINS", logins},
        {"CLIENTS", clients},
        {"PORT", port},
    };

    /* A line for each login and logout costs an emulated guest more than it tells. */
    if (guest->log_requests)
        set_path(info, guest->run_dir, "requests.log");
    else
        vt_text_copy(info, sizeof(info), "/dev/null");
    snprintf(uid, sizeof(uid), "%u", owner->pw_uid);
    snprintf(gid, sizeof(gid), "%u", owner->pw_gid);
    snprintf(logins, sizeof(logins), "%u", guest->vcpus ? guest->vcpus : 1);
    snprintf(clients, sizeof(clients), "%u", clients_per_process());
    snprintf(port, sizeof(port), "%d", MAIL_PORT);
    set_path(out, guest->run_dir, "dovecot.conf");
    return template_fill(guest->files_dir, "dovecot.conf.in", out, values, VT_COUNT(values), err);
}

static int prepare(struct role_guest *guest, struct vt_error *err)
{
    const struct passwd *owner = getpwnam(MAIL_OWNER);
    char mail_dir[PATH_MAX_BYTES];
    int ret;

    if (!owner)
        return vt_error_set(err, VT_KIND_INFRA, -ENOENT, "mail: no user '%s'", MAIL_OWNER);
    set_path(mail_dir, guest->data_dir, "mail");
    ret = write_config(guest, mail_dir, owner, err);
    return ret < 0 ? ret
                   : store_make(mail_dir, guest->tile, guest->seed, mail_count(guest->data_bytes),
                                owner->pw_uid, owner->pw_gid, err);
}

/* --- start, ready --- */

static int start(struct role_guest *guest, struct vt_error *err)
{
    char conf[PATH_MAX_BYTES];
    const char *const argv[] = {"dovecot", "-F", "-c", conf, NULL};
    struct rlimit files;

    /* Of this process, and so of those that it starts. Where it fails, dovecot complains. */
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < FILES_WANTED) {
        struct rlimit wanted = {FILES_WANTED, FILES_WANTED};

        if (files.rlim_max >= FILES_WANTED)
            wanted.rlim_max = files.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &wanted) < 0) {
            files.rlim_cur = files.rlim_max;
            setrlimit(RLIMIT_NOFILE, &files);
        }
    }
    set_path(conf, guest->run_dir, "dovecot.conf");
    return server_start(guest, "dovecot", argv, err);
}

/* One conversation of the driver: -EAGAIN when the server ends it or says nothing, as one does that
 * is just starting; -EPROTO when what it says is wrong. */
static int converse(struct probe_stream *stream, void *conn, const char **why)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(4096);
    uint8_t data[4096];

    for (;;) {
        ssize_t n = probe_receive(stream, data, sizeof(data));
        size_t at = 0;

        if (n <= 0) {
            *why = "the connection ended or stands still";
            return -EAGAIN;
        }
        while (at < (size_t)n) {
            size_t used;

            vt_buf_reset(&out);
            switch (mail_driver.on_bytes(conn, data + at, (size_t)n - at, &used, &out, why)) {
            case DRIVER_MORE:
                break;
            case DRIVER_SEND:
                if (!probe_send(stream, out.data, out.len))
                    return -EAGAIN;
                break;
            case DRIVER_DONE:
                return 0;
            default:
                return -EPROTO;
            }
            at += used;
        }
    }
}

/* Greeting, LOGIN, SELECT and LOGOUT, as the driver says and judges them. */
static int ready(struct role_guest *guest, struct vt_error *err)
{
    const struct driver_target target = {.tile = guest->tile, .port = MAIL_PORT};
    const struct driver_step step = {.sequence = PROBE_SEQUENCE, .operation = MAIL_LOGOUT};
    VT_AUTO_FREE void *conn = calloc(1, mail_driver.conn_bytes);
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(4096);
    const char *why = "cannot send";
    struct probe_stream stream;
    int ret;

    if (!conn)
        return vt_error_no_memory(err, "probe of mail");
    ret = probe_open(guest->address, MAIL_PORT, guest->ca_file, &stream, err);
    if (ret < 0)
        return ret;
    mail_driver.conn_init(conn, &target);
    mail_driver.enter(conn, &step, &out);
    ret = converse(&stream, conn, &why);
    if (ret == 0) {
        mail_driver.request(conn, &step, &out);
        ret = probe_send(&stream, out.data, out.len) ? converse(&stream, conn, &why) : -EAGAIN;
    }
    if (ret < 0)
        vt_error_set(err, VT_KIND_INFRA, ret, "probe %s:%u: %s", guest->address, MAIL_PORT, why);
    mail_driver.conn_fini(conn);
    probe_close(&stream);
    return ret;
}

/* --- check --- */

#define LOG_BYTES_MAX (64L << 20)

static int log_facts(const struct role_guest *guest, json_t *facts, struct vt_error *err)
{
    char path[PATH_MAX_BYTES], line[1024], first[256] = "";
    json_int_t complaints = 0, index_errors = 0;
    VT_AUTO_FCLOSE FILE *file = NULL;

    set_path(path, guest->run_dir, "dovecot.log");
    file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file) && ftell(file) <= LOG_BYTES_MAX) {
        line[strcspn(line, "\n")] = '\0';
        if (strstr(line, "Killed with signal 15"))
            continue; /* of an orderly end before a restart */
        if (!strstr(line, "Error: ") && !strstr(line, "Warning: ") && !strstr(line, "Fatal: ") &&
            !strstr(line, "Panic: "))
            continue;
        if (complaints++ == 0)
            vt_text_copy(first, sizeof(first), line);
        index_errors += strstr(line, "orrupted") || strstr(line, "broken");
    }
    vt_text_make_plain(first);
    if (json_object_set_new(facts, "complaints", json_integer(complaints)) ||
        json_object_set_new(facts, "index_errors", json_integer(index_errors)) ||
        json_object_set_new(facts, "first_complaint", json_string(first)))
        return vt_error_no_memory(err, "collect facts of mail");
    return 0;
}

static int check(struct role_guest *guest, json_t *facts, struct vt_error *err)
{
    char mail_dir[PATH_MAX_BYTES], bits[PATH_MAX_BYTES];
    struct store_found found;
    int ret;

    set_path(mail_dir, guest->data_dir, "mail");
    kept_bits_path(guest, "mail", guest->tile, bits, sizeof(bits));
    ret = store_look(mail_dir, guest->tile, bits, &found, err);
    if (ret < 0)
        return ret;
    vt_text_make_plain(found.first_wrong);
    if (json_object_set_new(facts, "messages", json_integer((json_int_t)found.messages)) ||
        json_object_set_new(facts, "appended", json_integer((json_int_t)found.appended)) ||
        json_object_set_new(facts, "wrong.messages", json_integer((json_int_t)found.wrong)) ||
        json_object_set_new(facts, "wrong.twice", json_integer((json_int_t)found.twice)) ||
        json_object_set_new(facts, "first_wrong", json_string(found.first_wrong)))
        return vt_error_no_memory(err, "collect facts of mail");
    return log_facts(guest, facts, err);
}

static const struct role_log logs[] = {
    {"dovecot.log", "dovecot.log"},
    {"dovecot.requests", "requests.log"},
    {NULL, NULL},
};

const struct role_guest_ops role_mail_guest = {
    .prepare = prepare,
    .start = start,
    .ready = ready,
    .check = check,
    .logs = logs,
};
