/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/roles/server.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/proc.h"
#include "base/scope.h"
#include "tiles/roles/probe.h"

#define LOG_BYTES_MAX (64L << 20)

int server_start(struct role_guest *guest, const char *name, const char *const *argv,
                 struct vt_error *err)
{
    struct vt_proc_spec spec = VT_PROC_SPEC_INIT;
    unsigned slot = guest->nchildren;
    int ret;

    for (unsigned i = 0; i < guest->nchildren; i++) {
        if (strcmp(guest->children[i].name, name) != 0)
            continue;
        if (guest->children[i].pid > 0 && kill(guest->children[i].pid, 0) == 0)
            return 0;
        slot = i;
    }
    if (slot == ROLE_CHILDREN_MAX)
        return vt_error_set(err, VT_KIND_INFRA, -ENOSPC, "start %s: too many servers", name);
    spec.argv = argv;
    spec.stdout_fd = spec.stderr_fd = VT_PROC_INHERIT;
    ret = vt_proc_spawn(&spec, &guest->children[slot].pid, err);
    if (ret < 0)
        return vt_error_wrap(err, "start %s", name);
    vt_text_copy(guest->children[slot].name, sizeof(guest->children[slot].name), name);
    if (slot == guest->nchildren)
        guest->nchildren++;
    return 0;
}

void server_nginx_access_log(const struct role_guest *guest, char *buf, size_t size)
{
    if (guest->log_requests)
        snprintf(buf, size, "%s/requests.log requests", guest->run_dir);
    else
        vt_text_copy(buf, size, "off");
}

static FILE *open_log(const struct role_guest *guest, const char *name)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/%s", guest->run_dir, name);
    return fopen(path, "re");
}

int server_nginx_facts(struct role_guest *guest, json_t *facts, struct vt_error *err)
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
