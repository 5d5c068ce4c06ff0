/* SPDX-License-Identifier: Apache-2.0 */
/*
 * steps: what the phases of a run lend each other; nobody outside run/ includes this.
 */
#ifndef VTILE_ORCHESTRATOR_RUN_STEPS_H
#define VTILE_ORCHESTRATOR_RUN_STEPS_H

#include <sys/types.h>

#include "orchestrator/run/run.h"
#include "tiles/load/jobs.h"

#define RUN_CLIENT_AGENT "client-1"

extern const struct phase run_phase_plan, run_phase_preflight, run_phase_open, run_phase_tune_host,
    run_phase_deploy, run_phase_tune_live, run_phase_prepare, run_phase_ramp, run_phase_warm,
    run_phase_measure, run_phase_drain, run_phase_check, run_phase_score, run_phase_seal;

/* preflight.c: "spec web, 2 tiles, load 0.05, preset smoke". */
void run_describe(const struct run *run, char *text, size_t size);

/* open.c: what differs between the hosts that a run can have. */
struct run_place {
    bool (*is)(const char *uri);
    mode_t folder_mode; /* of the run's folder: its emulators must reach config disks in it */
    /* Makes network and taps. Namespaces are entered here; the journal is open. */
    int (*take)(struct run *run, struct vt_error *err);
    /* Where libvirt keeps the pid files of QEMUs on this machine. */
    void (*pid_folder)(const struct run *run, char *path, size_t size);
};
/* NULL: a run cannot have that host. */
const struct run_place *run_find_place(const char *uri);

/* disks.c: data disks. Whether a VM has one; the files of all, once the host is open, in a folder
 * that the journal names. */
bool run_has_disks(const struct run *run);
int run_make_disks(struct run *run, struct vt_error *err);
/* Where VMs keep what was acknowledged, into the record. */
int run_record_storage(struct run *run, struct vt_error *err);

/* deploy.c: how many VMs are kept busy booting or preparing at once; an agent of a VM has come;
 * starts the VM's domain, which the journal names. */
unsigned run_at_once(const struct run *run);
void run_deploy_came(struct run_vm *vm);
int run_start_domain(struct run_vm *vm, host_done done, struct vt_error *err);
/* prepare.c: prepare, start, ready; prepared comes once, also when the agent is lost. */
void run_prepare_guest(struct run_vm *vm,
                       void (*prepared)(struct run_vm *vm, const struct vt_error *err));
/* console.c: all that is on its console, into the record; whether the guest's own first program has
 * spoken there; the last lines in one, for an error: it points into text or is a constant. */
#define RUN_CONSOLE_END_MAX 300
void run_keep_console(const struct run_vm *vm);
bool run_console_shows_init(const struct run_vm *vm);
const char *run_console_end(const struct run_vm *vm, char text[RUN_CONSOLE_END_MAX]);
/* seal.c: the last lines of a sealed run: its report, then its archive. */
void run_print_places(const struct run *run, struct vt_buf *out);
/* restart.c: an emulator of the host has ended (of host_settings); the agent of a VM has come. */
void run_vm_stopped(void *ctx, const char *uuid);
void run_vm_came_back(struct run_vm *vm);

/* lost.c: the link to a VM's agent has ended; it has come back; its VM has ended, which explains
 * it; what is still open, before the record is closed. */
void run_lost_link(struct run_vm *vm, const struct vt_error *why);
void run_lost_came_back(struct run_vm *vm);
void run_lost_explained(struct run_vm *vm);
void run_lost_settle(struct run *run);
bool run_lost_any(const struct run *run); /* that is not explained yet */
/* Whether that agent's link has ended: what cannot be asked of it has a reason already, or to come.
 */
bool run_lost_is(struct run *run, const char *agent);
void run_lost_ask(struct vt_timer *timer, int64_t now_ns); /* of run.lost_timer */

/* agents.c: the hub of a run. */
int run_open_hub(struct run *run, struct vt_error *err);
void run_close_hub(struct run *run, void (*closed)(void *ctx));
void run_emit_agent(struct run *run, enum vt_event_level level, const char *agent,
                    const char *text);
/* Registers an agent and writes its config file: a guest's (vm) or the client's (vm NULL). */
int run_expect_agent(struct run *run, struct run_vm *vm, struct vt_error *err);
/* Still missing: "web-1 (booted, its link is up, but silent)" and what to do, for a deadline. */
void run_explain_missing(struct run *run, struct vt_error *err);

/* record.c: the plan as rows of the record. */
int64_t run_load_rate(const struct run *run, const struct run_vm *vm); /* millionths */
int run_record_plan(struct run *run, struct vt_error *err);
int run_record_agents(struct run *run, struct vt_error *err);
int run_record_clocks(struct run *run, struct vt_error *err); /* when load begins */
/* result: what the client answered to load.prepare. */
int run_record_schedule(struct run *run, const struct run_load *load, const json_t *result,
                        struct vt_error *err);

/* order: of the guest's own load, json: the same. */
int run_record_jobs(struct run *run, const struct run_load *load, const struct jobs_order *order,
                    const json_t *json, struct vt_error *err);

/* load.c: whether it is one of the phases from ramp to drain. */
bool run_load_runs(const struct run *run);
/* data: of load.finished or work.finished. */
void run_load_finished(struct run *run, const char *agent, const json_t *data);
/* Whether a second of load is new: a guest that was restarted tells its last one once more. */
bool run_take_second(struct run_load *load, const struct vt_load_second *second);
/* Its guest, which makes it by itself, was restarted and serves: it goes on. */
void run_resume_work(struct run_load *load);
/* Nothing more comes of it; in drain the last one ends the phase. */
void run_end_load(struct run_load *load);
/* Of a role that makes its load by itself: what is due into the record, its guest's admitted. */
int run_prepare_work(struct run *run, const struct run_load *load, struct vt_error *err);
struct run_load *run_find_load(struct run *run, unsigned tile, const char *role);
/* The parameters of load.prepare, the caller's; NULL with err. */
json_t *run_load_order(const struct run *run, const struct run_load *load, struct vt_error *err);
/* done gets load. client_t0_ns 0: none. */
int run_call_load(struct run *run, struct run_load *load, const char *op, int64_t client_t0_ns,
                  int64_t timeout_ns,
                  void (*done)(void *ctx, const json_t *result, const struct vt_error *err),
                  struct vt_error *err);

/* config.c: asks the host what machine it is, into the record; asks the agents, and at the end the
 * host again, then calls done if that phase still runs. */
int run_ask_facts(struct run *run, struct vt_error *err);
void run_ask_config(struct run *run, bool end, void (*done)(struct run *run));
/* "<prefix><who>.<name>" for each value of an answer. */
void run_put_answer(struct run *run, const char *prefix, const char *who, const json_t *answer);

/* samples.c: samples of the host from ramp to drain, and of guests, which are told to begin. Stop
 * may be called at any time and more than once; close comes before the loop ends. */
int run_samples_start(struct run *run, struct vt_error *err); /* T0 is known */
/* Tells a guest that came back to begin, where others have; does no harm where it has itself. */
void run_samples_ask(struct run_vm *vm);
void run_samples_stop(struct run *run);
void run_samples_close(struct run *run);

/* check.c: a piece of a log, if it is one of a bitmap: into the record. False: it is of none. */
bool run_take_bitmap(struct run *run, const struct run_vm *vm, const char *agent, const char *name,
                     const void *data, size_t len);

/* A piece of a log into the event stream. vm NULL: not of a guest. */
void run_emit_log(struct run *run, const struct run_vm *vm, const char *source, const char *name,
                  const char *data, size_t len);

#endif
