/* SPDX-License-Identifier: Apache-2.0 */
/*
 * orchestrator: the program vtile: one file a command; run/ the phases of a run, host/ libvirt
 * and what a host needs, hub/ the agents, watch/ what people and programs see of a run. May use
 * every room but agents/.
 */
#ifndef VTILE_ORCHESTRATOR_COMMAND_H
#define VTILE_ORCHESTRATOR_COMMAND_H

#include <stdio.h>

#include "base/error.h"

struct settings_use;

struct command {
    const char *name, *summary;
    /* argv[0] is the command's name. Returns the exit code, or a negative code with *err set,
     * which main() prints and turns into an exit code. */
    int (*run)(int argc, char **argv, struct vt_error *err);
    const struct settings_use *use; /* its help and options, for completion too; without ctx */
};

int command_run(int argc, char **argv, struct vt_error *err);
int command_results(int argc, char **argv, struct vt_error *err);
int command_image(int argc, char **argv, struct vt_error *err);
int command_host(int argc, char **argv, struct vt_error *err);
int command_watch(int argc, char **argv, struct vt_error *err);
int command_attach(int argc, char **argv, struct vt_error *err);
int command_completion(int argc, char **argv, struct vt_error *err);
int command_load(int argc, char **argv, struct vt_error *err);
int command_clean(int argc, char **argv, struct vt_error *err);

extern const struct settings_use run_use, results_use, image_use, host_use, watch_use, attach_use,
    completion_use, clean_use, load_use;

/* In the order of --help. */
extern const struct command commands[];
extern const size_t commands_count;

#endif
