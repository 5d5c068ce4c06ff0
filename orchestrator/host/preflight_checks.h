/* SPDX-License-Identifier: Apache-2.0 */
/* The checks that preflight.c runs, one concern each; each adds its findings. */
#ifndef VTILE_ORCHESTRATOR_HOST_PREFLIGHT_CHECKS_H
#define VTILE_ORCHESTRATOR_HOST_PREFLIGHT_CHECKS_H

#include "orchestrator/host/preflight.h"

void preflight_findf(struct preflight *preflight, enum preflight_level level, const char *check,
                     const char *act, const char *what_fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* <root><path> into out; returns out. */
const char *preflight_at(const struct preflight_needs *needs, const char *path, char *out,
                         size_t size);
/* The beginning of a small file, trimmed; "" when it cannot be read. */
void preflight_read(const struct preflight_needs *needs, const char *path, char *text, size_t size);

/* Bytes of a line "MemAvailable:  123 kB" of /proc/meminfo; 0 when it is not there. */
uint64_t preflight_memory_field(const struct preflight_needs *needs, const char *name);
/* CPUs online, 0 when the machine does not tell. */
unsigned preflight_cpus(const struct preflight_needs *needs);
/* Free space where path is or would be made. */
int preflight_free_space(const struct preflight_needs *needs, const char *path, uint64_t *ret);

/* preflight_fit.c: how many tiles */
void preflight_check_fit(const struct preflight_needs *needs, struct preflight *preflight);
/* preflight_paths.c: folders that QEMU's user cannot pass, AppArmor's hidden folders */
void preflight_check_paths(const struct preflight_needs *needs, struct preflight *preflight);
/* preflight_net.c: rights, names, firewall */
void preflight_check_rights(const struct preflight_needs *needs, struct preflight *preflight);
void preflight_check_names(const struct preflight_needs *needs, struct preflight *preflight);
void preflight_check_firewall(const struct preflight_needs *needs, struct preflight *preflight);
/* preflight_system.c: daemon, addresses */
void preflight_check_system(const struct preflight_needs *needs, struct preflight *preflight);
/* preflight_embed.c: lock, length, cache, user, leftovers */
void preflight_check_embed(const struct preflight_needs *needs, struct preflight *preflight);
void preflight_check_leftovers(const struct preflight_needs *needs, struct preflight *preflight);

#endif
