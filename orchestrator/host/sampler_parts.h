/* SPDX-License-Identifier: Apache-2.0 */
/* What the two halves of the sampler share: the machine (sampler.c) and domains
 * (sampler_domain.c). */
#ifndef VTILE_ORCHESTRATOR_HOST_SAMPLER_PARTS_H
#define VTILE_ORCHESTRATOR_HOST_SAMPLER_PARTS_H

#include <stddef.h>
#include <sys/types.h>

#include "base/domain.h"
#include "orchestrator/host/sampler.h"

#define SAMPLER_THREADS_MAX (2 * VT_DOMAIN_VCPUS_MAX) /* of one domain: vCPUs, vhost, main */

/* One buffer for all files: grows to the longest, never past HOST_SAMPLER_FILE_MAX. */
struct sampler_text {
    char *data;
    size_t len, cap;
};
/* The file from its beginning, cut at the bound, ended by a NUL; false: gone or unreadable. */
bool sampler_read(int fd, struct sampler_text *text);
bool sampler_read_path(const char *path, struct sampler_text *text);
uint64_t sampler_number(const char **at); /* skips blanks; 0 where there is no number */

/* One call of take. */
struct sampler_tick {
    double seconds; /* since the last; 0: the first */
    bool tell;
    host_sample_put put;
    void *ctx;
    const void *domain;
};
void sampler_put(const struct sampler_tick *tick, const char *series, double value);
void sampler_lack(const struct sampler_tick *tick, const char *series, const char *why);
/* (now - *last) * unit a second, where there is a last. */
void sampler_put_rate(const struct sampler_tick *tick, const char *series, uint64_t now,
                      uint64_t *last, double unit);

struct sampler_thread {
    char name[16]; /* "vcpu.0", "vhost.0", "emulator" */
    pid_t owner, tid;
    int fd;     /* -1: opened each time, or gone */
    bool gone;  /* ended while its process lives on */
    bool fresh; /* no value of it is known yet */
    uint64_t run_ns, delay_ns;
};
struct sampler_domain {
    const void *who;
    char name[64], uuid[37];
    pid_t pid;       /* 0: not found, */
    const char *why; /* because */
    int stat_fd;
    bool fresh;
    uint64_t ticks; /* of the whole process */
    struct sampler_thread *threads;
    unsigned nthreads;
};
struct sampler_domains {
    const char *root, *pid_folder;
    bool emulated;
    struct sampler_domain *all;
    unsigned n;
    unsigned takes; /* how often take was called */
    unsigned nfds, nfds_max;
    struct sampler_text *text;
};

void sampler_domains_take(struct sampler_domains *domains, struct sampler_tick *tick);
void sampler_domains_dispose(struct sampler_domains *domains);

#endif
