/* SPDX-License-Identifier: Apache-2.0 */
#include "agents/guest.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/scope.h"
#include "tiles/image/image.h"

#define DATA_BYTES_MAX (INT64_C(1) << 40)
#define VCPUS_MAX 1024
#define READY_TIMEOUT_MAX_NS (3600 * VT_NS_PER_S)
/* A look at a server costs it a handshake: emulated that is not little. */
#define LOOK_FIRST_NS (50 * VT_NS_PER_MS)
#define LOOK_MAX_NS (500 * VT_NS_PER_MS)

const char *const guest_step_names[GUEST_STEPS] = {"prepare", "start", "ready", "check"};

/* --- set-up --- */
static void set_path(char *path, const struct guest *g, const char *param, const char *fallback)
{
    vt_text_copy(path, GUEST_PATH_MAX, vt_confdisk_param(g->conf, param, fallback));
}

static int self_signed(struct guest *g, struct vt_error *err)
{
    VT_AUTO_IDENTITY struct vt_identity identity = VT_IDENTITY_INIT;
    VT_AUTO_BUF struct vt_buf pem = VT_BUF_INIT(VT_CERT_PEM_MAX);
    struct vt_cert_wanted wanted = {
        .names = {g->conf->agent, g->conf->hostname}, .address = g->address, .server = true};
    if (!*g->address)
        wanted.address = NULL;
    vt_cert_window(&wanted, INT64_MAX);
    int rc = vt_cert_self_signed(&wanted, &identity, err);
    if (rc == 0)
        rc = vt_identity_save(&identity, g->cert_file, g->key_file, err);
    if (rc == 0)
        rc = vt_cert_write(identity.cert, &pem, err);
    return rc < 0 ? rc : vt_file_write(g->ca_file, pem.data, pem.len, 0644, err);
}

static int number_param(const struct guest *g, const char *name, int64_t max, int64_t *value,
                        struct vt_error *err)
{
    const char *text = vt_confdisk_param(g->conf, name, NULL);
    if (!text || vt_text_parse_int(text, 0, max, value, err) == 0)
        return 0;
    return vt_error_wrap(err, "param.%s of the configuration", name);
}

/* "app", or "app-2" of another tile; NULL: no role's. */
static const struct role *peer_role(const char *name)
{
    char role[sizeof((struct vt_confdisk_peer *)0)->name];
    char *dash;
    vt_text_copy(role, sizeof role, name);
    dash = strrchr(role, '-');
    if (dash && dash[1] && strspn(dash + 1, "0123456789") == strlen(dash + 1))
        *dash = '\0';
    return role_find(role);
}

static int set_work(struct guest *g, struct vt_error *err)
{
    int64_t seed = 0, data_bytes = 0, vcpus = sysconf(_SC_NPROCESSORS_ONLN), log_requests = 0;
    int64_t tiles = 1; /* that it serves, from its own on */
    int rc = number_param(g, "seed", INT64_MAX, &seed, err);
    if (rc == 0)
        rc = number_param(g, "data_bytes", DATA_BYTES_MAX, &data_bytes, err);
    if (rc == 0)
        rc = number_param(g, "vcpus", VCPUS_MAX, &vcpus, err);
    if (rc == 0)
        rc = number_param(g, "log_requests", 1, &log_requests, err);
    if (rc == 0)
        rc = number_param(g, "tiles", ROLE_SHARED_MAX, &tiles, err);
    g->work = (struct role_guest){
        .role = g->role->name,
        .address = g->address,
        .client = vt_confdisk_param(g->conf, "client", NULL),
        .tile = g->conf->tile,
        .ntiles = tiles > 0 ? (unsigned)tiles : 1,
        .seed = (uint64_t)seed,
        .data_bytes = (uint64_t)data_bytes,
        .vcpus = (unsigned)vcpus,
        .log_requests = log_requests != 0,
        .files_dir = g->files_dir,
        .data_dir = g->data_dir,
        .run_dir = g->run_dir,
        .cert_file = g->cert_file,
        .key_file = g->key_file,
        .ca_file = g->ca_file,
    };
    if (rc == 0 && g->work.client && !vt_text_is_ip(g->work.client))
        rc = vt_error_set(err, VT_KIND_CONFIG, -EINVAL,
                          "param.client of the configuration: no IP address");
    for (unsigned i = 0; i < g->work.ntiles; i++)
        g->work.tiles[i] = g->conf->tile + i;
    for (size_t i = 0; rc == 0 && i < g->conf->n_peers; i++) {
        struct role_peer *peer = &g->work.peers[g->work.npeers];
        if (!peer_role(g->conf->peers[i].name))
            continue; /* a host name that is no role's */
        if (g->work.npeers == ROLE_PEERS_MAX)
            return vt_error_set(err, VT_KIND_CONFIG, -E2BIG, "more than %d VMs of other roles",
                                ROLE_PEERS_MAX);
        vt_text_copy(peer->role, sizeof peer->role, peer_role(g->conf->peers[i].name)->name);
        vt_text_copy(peer->address, sizeof peer->address, g->conf->peers[i].address);
        g->work.npeers++;
    }
    return rc;
}

int guest_set_up(struct guest *g, struct vt_error *err)
{
    char fallback[128];
    snprintf(g->address, sizeof g->address, "%.*s", (int)strcspn(g->conf->address, "/"),
             g->conf->address);
    snprintf(fallback, sizeof fallback, "/usr/share/vtile/roles/%s", g->role->name);
    set_path(g->files_dir, g, "files_dir", fallback);
    set_path(g->data_dir, g, "data_dir", IMAGE_DATA_DIR);
    set_path(g->run_dir, g, "run_dir", "/run/vtile");
    if (snprintf(g->cert_file, GUEST_PATH_MAX, "%s/cert.pem", g->run_dir) >= GUEST_PATH_MAX ||
        snprintf(g->key_file, GUEST_PATH_MAX, "%s/key.pem", g->run_dir) >= GUEST_PATH_MAX ||
        snprintf(g->ca_file, GUEST_PATH_MAX, "%s/ca.pem", g->run_dir) >= GUEST_PATH_MAX)
        return vt_error_set(err, VT_KIND_CONFIG, -ENAMETOOLONG, "%s: too long", g->run_dir);
    int rc = vt_file_make_folders(g->run_dir, 0755, VT_KIND_INFRA, err);
    if (rc == 0)
        rc = vt_file_make_folders(g->data_dir, 0755, VT_KIND_INFRA, err);
    if (rc == 0)
        rc = g->conf->unattended
                 ? self_signed(g, err)
                 : vt_file_write(g->ca_file, g->conf->ca, strlen(g->conf->ca), 0644, err);
    return rc < 0 ? rc : set_work(g, err);
}

/* --- on the worker --- */
static int call(int (*op)(struct role_guest *guest, struct vt_error *err), struct guest_job *job)
{
    return op ? op(&job->guest->work, &job->err) : 0;
}

static int run_prepare(struct guest_job *job)
{
    struct role_guest *work = &job->guest->work;
    int64_t seed = (int64_t)work->seed, data_bytes = (int64_t)work->data_bytes;
    int64_t vcpus = work->vcpus;
    const json_t *log_requests = json_object_get(job->params, "log_requests");
    int rc = vt_json_opt_int(job->params, "seed", 0, INT64_MAX, &seed, &job->err);
    if (rc == 0)
        rc = vt_json_opt_int(job->params, "data_bytes", 0, DATA_BYTES_MAX, &data_bytes, &job->err);
    if (rc == 0)
        rc = vt_json_opt_int(job->params, "vcpus", 1, VCPUS_MAX, &vcpus, &job->err);
    if (rc < 0)
        return rc;
    work->seed = (uint64_t)seed;
    work->data_bytes = (uint64_t)data_bytes;
    work->vcpus = (unsigned)vcpus;
    if (log_requests)
        work->log_requests = json_is_true(log_requests);
    return call(job->guest->role->guest->prepare, job);
}

static void pause_ns(int64_t ns)
{
    struct timespec t = {.tv_sec = ns / VT_NS_PER_S, .tv_nsec = ns % VT_NS_PER_S};
    nanosleep(&t, NULL);
}

static int run_ready(struct guest_job *job)
{
    struct guest *g = job->guest;
    int64_t timeout_ns = 60 * VT_NS_PER_S, pause = LOOK_FIRST_NS;
    int rc =
        vt_json_opt_int(job->params, "timeout_ns", 0, READY_TIMEOUT_MAX_NS, &timeout_ns, &job->err);
    if (rc < 0)
        return rc;
    int64_t until_ns = vt_clock_now_ns() + timeout_ns;
    while ((rc = g->role->guest->ready(&g->work, &job->err)) == -EAGAIN) {
        if (vt_clock_now_ns() + pause > until_ns)
            return vt_error_wrap(&job->err, "not ready within %.0f s", (double)timeout_ns / 1e9);
        if (worker_stopping(g->worker))
            return -ECANCELED;
        pause_ns(pause);
        pause = pause * 3 / 2 < LOOK_MAX_NS ? pause * 3 / 2 : LOOK_MAX_NS;
    }
    if (rc == 0)
        vt_error_clear(&job->err);
    return rc;
}

void guest_job_run(struct worker_job *base)
{
    struct guest_job *job = (struct guest_job *)base;
    struct guest *g = job->guest;
    int rc = 0;
    switch (job->step) {
    case GUEST_PREPARE:
        rc = run_prepare(job);
        break;
    case GUEST_START:
        rc = call(g->role->guest->start, job);
        break;
    case GUEST_READY:
        rc = run_ready(job);
        break;
    case GUEST_CHECK:
        job->result = json_object();
        if (g->role->guest->check)
            rc = g->role->guest->check(&g->work, job->result, &job->err);
        break;
    case GUEST_STEPS:
        break;
    }
    /* A role that failed without a word still failed. */
    if (rc < 0 && job->err.code == 0)
        vt_error_set(&job->err, VT_KIND_INFRA, rc, "%s of role %s: %s", guest_step_names[job->step],
                     g->role->name, strerror(-rc));
    else if (rc == 0)
        vt_error_clear(&job->err);
    job->after = g->work;
}
