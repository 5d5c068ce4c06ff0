/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan and preflight: where the run goes and what it is made of, then everything that stands in
 * its way, told in one go before the first change.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/host/preflight.h"
#include "orchestrator/run/steps.h"

#define STATE_BYTES (256ULL << 20) /* record and archive of a run, generously */

static int choose_host(struct run *run, struct vt_error *err)
{
    const char *wanted = run->settings.nhosts > 0 ? run->settings.hosts[0].uri : "auto";
    int ret = host_choose_uri(wanted, run->state.embed, run->uri, sizeof(run->uri), err);

    if (ret < 0)
        return ret;
    if (!strcmp(wanted, "auto"))
        run_note(run, VT_LEVEL_INFO, "--host auto: %s, so it is %s",
                 host_uri_is_system(run->uri) ? "a system daemon answers"
                                              : "no system daemon answers",
                 run->uri);
    run->place = run_find_place(run->uri);
    if (!run->place)
        return vt_error_set(err, VT_KIND_CONFIG, -ENOTSUP,
                            "%s: a run needs VMs that really run, on this machine so far; use "
                            "--host embed or --host qemu:///system",
                            run->uri);
    if (run->settings.nhosts > 1)
        return vt_error_set(err, VT_KIND_CONFIG, -ENOTSUP, "one host a run so far, not %zu",
                            run->settings.nhosts);
    if (run->settings.nclients > 0)
        return vt_error_set(err, VT_KIND_CONFIG, -ENOTSUP,
                            "load comes from this machine so far; leave --client out");
    if (strcmp(run->settings.profile, "none") != 0)
        return vt_error_set(err, VT_KIND_CONFIG, -ENOENT,
                            "there is no tuning profile '%s'; there is: none",
                            run->settings.profile);
    run->accel = host_kvm_runs("/dev/kvm", NULL, 0) ? VT_ACCEL_KVM : VT_ACCEL_TCG;
    run->size = run->accel == VT_ACCEL_TCG ? SPEC_SIZE_TCG : SPEC_SIZE_KVM;
    return 0;
}

/* Before anything is made: a certificate that cannot be used must not cost a run. */
static int load_recipients(struct run *run, struct vt_error *err)
{
    int ret = archive_recipients_new(&run->recipients, err);

    for (size_t i = 0; ret == 0 && i < run->settings.nrecipients; i++)
        ret = archive_recipients_add(run->recipients, run->settings.recipients[i].path, err);
    return ret;
}

void run_describe(const struct run *run, char *text, size_t size)
{
    snprintf(text, size, "spec %s, %lld tile%s, load %g, preset %s", run->spec.name,
             (long long)run->settings.tiles, run->settings.tiles == 1 ? "" : "s",
             (double)run->settings.load / 1e6, run->preset->name);
}

static int start_plan(struct run *run, struct vt_error *err)
{
    char what[256];
    int ret = choose_host(run, err);

    if (ret == 0)
        ret = load_recipients(run, err);
    if (ret < 0)
        return ret;
    /* A missing image is one finding among others. */
    image_find(NULL, &run->image, &run->image_error);
    ret = run_plan(run, err);
    if (ret < 0)
        return ret;
    run_describe(run, what, sizeof(what));
    run_note(run, VT_LEVEL_INFO, "run %s: %s, seed %llu, host %s", run->id, what,
             (unsigned long long)run->seed, run->uri);
    phases_done(&run->phases, NULL);
    return 0;
}

static int start_preflight(struct run *run, struct vt_error *err)
{
    static const enum vt_event_level levels[] = {VT_LEVEL_INFO, VT_LEVEL_WARNING, VT_LEVEL_ERROR};
    VT_AUTO_FREE struct preflight *found = calloc(1, sizeof(*found));
    VT_AUTO_FREE struct vt_domain *domains = calloc(run->nvms, sizeof(*domains));
    const char *const qemu_paths[] = {run->state.runtime,
                                      run_has_disks(run) ? run->state.folder : run->state.runtime,
                                      run->image.kernel,
                                      run->image.initrd,
                                      run->image.packages,
                                      run->image.roles,
                                      NULL};
    struct preflight_needs needs = {
        .root = "",
        .state = run->state.folder,
        .uri = run->uri,
        .embed_root = run->state.embed,
        .run = run->id,
        .domains = domains,
        .ndomains = run->nvms,
        .state_bytes = STATE_BYTES,
        .image = run->image.packages,
        .qemu_paths = run->image_error.kind == VT_KIND_NONE ? qemu_paths : NULL,
    };
    int ret;

    if (!found || !domains)
        return vt_error_no_memory(err, "preflight");
    for (unsigned i = 0; i < run->nvms; i++)
        domains[i] = run->vms[i].domain;
    run_fill_needs(&run->spec, run->accel, (unsigned)run->settings.tiles, &needs);
    preflight_run(&needs, found);
    if (run->image_error.kind != VT_KIND_NONE)
        preflight_add(found, PREFLIGHT_ERROR, "image", run->image_error.text, "");
    for (unsigned i = 0; i < found->n; i++) {
        const struct preflight_finding *f = &found->findings[i];

        run_note(run, levels[f->level], "%s: %s%s%s", f->check, f->what, f->act[0] ? "; " : "",
                 f->act);
    }
    ret = preflight_error(found, err);
    if (ret == 0)
        phases_done(&run->phases, NULL);
    return ret;
}

/* Nothing to tune without a profile; knobs come in here, stage by stage. */
static int start_tune(struct run *run, struct vt_error *err)
{
    (void)err;
    phases_done(&run->phases, NULL);
    return 0;
}

const struct phase run_phase_plan = {.name = "plan", .start = start_plan};
const struct phase run_phase_preflight = {.name = "preflight", .start = start_preflight};
const struct phase run_phase_tune_host = {.name = "tune-host", .start = start_tune};
const struct phase run_phase_tune_live = {.name = "tune-live", .start = start_tune};
