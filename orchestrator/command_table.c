/* SPDX-License-Identifier: Apache-2.0 */
#include "base/scope.h"
#include "orchestrator/command.h"

const struct command commands[] = {
    {"run", "deploy tiles, drive them, score them, seal the archive", command_run, &run_use},
    {"results", "list, show, verify and score archives", command_results, &results_use},
    {"image", "build and list guest images", command_image, &image_use},
    {"host", "show and check a host", command_host, &host_use},
    {"watch", "follow a run that goes on, from another terminal", command_watch, &watch_use},
    {"attach", "follow a run, end it, and get its exit code", command_attach, &attach_use},
    {"load", "drive one URL, open or closed loop, and say how long it took", command_load,
     &load_use},
    {"clean", "remove what dead runs left behind", command_clean, &clean_use},
    {"completion", "print a script that completes these commands", command_completion,
     &completion_use},
};
const size_t commands_count = VT_COUNT(commands);
