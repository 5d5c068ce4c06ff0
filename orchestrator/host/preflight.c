/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/host/preflight.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/host/host.h"
#include "orchestrator/host/preflight_checks.h"

#define MIB (UINT64_C(1) << 20)

void preflight_add(struct preflight *preflight, enum preflight_level level, const char *check,
                   const char *what, const char *act)
{
    if (level == PREFLIGHT_ERROR)
        preflight->errors++;
    if (level == PREFLIGHT_WARNING)
        preflight->warnings++;
    if (preflight->n == PREFLIGHT_FINDINGS_MAX)
        return;
    struct preflight_finding *finding = &preflight->findings[preflight->n++];
    finding->level = level;
    vt_text_copy(finding->check, sizeof(finding->check), check);
    vt_text_copy(finding->what, sizeof(finding->what), what);
    vt_text_copy(finding->act, sizeof(finding->act), act);
}

void preflight_findf(struct preflight *preflight, enum preflight_level level, const char *check,
                     const char *act, const char *what_fmt, ...)
{
    char what[sizeof(preflight->findings[0].what)];
    va_list args;

    va_start(args, what_fmt);
    vsnprintf(what, sizeof(what), what_fmt, args);
    va_end(args);
    preflight_add(preflight, level, check, what, act);
}

const char *preflight_at(const struct preflight_needs *needs, const char *path, char *out,
                         size_t size)
{
    int n = snprintf(out, size, "%s%s", needs->root ? needs->root : "", path);

    if (n < 0 || (size_t)n >= size)
        out[0] = 0;
    return out;
}

void preflight_read(const struct preflight_needs *needs, const char *path, char *text, size_t size)
{
    char full[VT_PATH_MAX];
    VT_AUTO_CLOSE int fd =
        open(preflight_at(needs, path, full, sizeof(full)), O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, size - 1);

    text[n > 0 ? n : 0] = 0;
    while (n > 0 && strchr(" \t\n", text[n - 1]))
        text[--n] = 0;
}

uint64_t preflight_memory_field(const struct preflight_needs *needs, const char *name)
{
    char text[8192];
    uint64_t kib;

    preflight_read(needs, "/proc/meminfo", text, sizeof(text));
    const char *at = strstr(text, name);
    return at && sscanf(at + strlen(name), ": %" SCNu64, &kib) == 1 ? kib * 1024 : 0;
}

static void check_memory(const struct preflight_needs *needs, struct preflight *preflight)
{
    uint64_t overhead = needs->vm_overhead_bytes ? needs->vm_overhead_bytes : PREFLIGHT_VM_OVERHEAD;
    uint64_t available = preflight_memory_field(needs, "MemAvailable"), wanted = 0;

    for (unsigned i = 0; i < needs->ndomains; i++)
        wanted += needs->domains[i].memory_bytes + needs->domains[i].tb_cache_bytes + overhead;
    if (!wanted)
        return;
    if (!available)
        preflight_add(preflight, PREFLIGHT_WARNING, "memory",
                      "the machine does not tell its free memory (/proc/meminfo)", "");
    else if (wanted > available)
        preflight_findf(preflight, PREFLIGHT_ERROR, "memory", "free memory, or ask for fewer tiles",
                        "%u VMs may need %" PRIu64 " MiB with their emulators, %" PRIu64
                        " MiB are available",
                        needs->ndomains, wanted / MIB, available / MIB);
    else if (wanted > available / 10 * 9)
        preflight_findf(preflight, PREFLIGHT_WARNING, "memory", "ask for fewer tiles",
                        "%u VMs may need %" PRIu64 " of the %" PRIu64
                        " MiB that are available: little is left for caches",
                        needs->ndomains, wanted / MIB, available / MIB);
}

/* CPUs of a list such as "0-3,8"; 0 when it is none. */
static unsigned count_cpus(const char *list)
{
    unsigned n = 0, first, last;
    int used;

    while (sscanf(list, "%u%n", &first, &used) == 1) {
        list += used;
        last = first;
        if (*list == '-' && sscanf(list + 1, "%u%n", &last, &used) == 1)
            list += 1 + used;
        n += last >= first ? last - first + 1 : 0;
        if (*list != ',')
            break;
        list++;
    }
    return n;
}

unsigned preflight_cpus(const struct preflight_needs *needs)
{
    char list[1024];

    preflight_read(needs, "/sys/devices/system/cpu/online", list, sizeof(list));
    return count_cpus(list);
}

static void check_cpus(const struct preflight_needs *needs, struct preflight *preflight)
{
    unsigned wanted = 0, largest = 0, online = preflight_cpus(needs);

    for (unsigned i = 0; i < needs->ndomains; i++) {
        wanted += needs->domains[i].vcpus;
        if (needs->domains[i].vcpus > largest)
            largest = needs->domains[i].vcpus;
    }
    if (online && largest > online)
        preflight_findf(preflight, PREFLIGHT_WARNING, "cpu",
                        "give VMs no more vCPUs than there are CPUs",
                        "a VM has %u vCPUs, the machine %u CPUs: its vCPUs wait for each other",
                        largest, online);
    if (online && wanted > online)
        preflight_findf(preflight, PREFLIGHT_NOTE, "cpu", "", "%u vCPUs share %u CPUs", wanted,
                        online);
}

int preflight_free_space(const struct preflight_needs *needs, const char *path, uint64_t *ret)
{
    char full[VT_PATH_MAX];
    struct statvfs info;

    preflight_at(needs, path, full, sizeof(full));
    while (statvfs(full, &info) < 0) {
        char *slash = strrchr(full, '/');
        if (errno != ENOENT || !slash)
            return -errno;
        slash[slash == full ? 1 : 0] = 0;
        if (!full[0])
            return -ENOENT;
    }
    *ret = (uint64_t)info.f_bavail * info.f_frsize;
    return 0;
}

static void check_space(const struct preflight_needs *needs, const char *path, uint64_t wanted,
                        const char *act, struct preflight *preflight)
{
    uint64_t bytes = 0;

    if (!path || !path[0] || !wanted)
        return;
    int code = preflight_free_space(needs, path, &bytes);
    if (code < 0)
        preflight_findf(preflight, PREFLIGHT_ERROR, "disk", act, "%s: %s", path, strerror(-code));
    else if (bytes < wanted)
        preflight_findf(preflight, PREFLIGHT_ERROR, "disk", act,
                        "%s has %" PRIu64 " MiB free, %" PRIu64 " are needed", path, bytes / MIB,
                        wanted / MIB);
}

static void check_image(const struct preflight_needs *needs, struct preflight *preflight)
{
    char full[VT_PATH_MAX];

    if (needs->image && needs->image[0] &&
        access(preflight_at(needs, needs->image, full, sizeof(full)), R_OK) < 0)
        preflight_findf(preflight, PREFLIGHT_ERROR, "image", "run `vtile image build`",
                        "the guest image %s: %s", needs->image, strerror(errno));
}

static bool any_file(const struct preflight_needs *needs, const char *const *patterns)
{
    bool found = false;

    for (size_t i = 0; patterns[i] && !found; i++) {
        char full[VT_PATH_MAX];
        glob_t matches;
        if (glob(preflight_at(needs, patterns[i], full, sizeof(full)), GLOB_NOSORT, NULL,
                 &matches) == 0) {
            found = true;
            globfree(&matches);
        }
    }
    return found;
}

static void check_programs(const struct preflight_needs *needs, struct preflight *preflight)
{
    static const char *const emulators[] = {"/usr/bin/qemu-system-x86_64",
                                            "/usr/local/bin/qemu-system-x86_64",
                                            "/usr/libexec/qemu-kvm", NULL};
    static const char *const drivers[] = {
        "/usr/lib/*/libvirt/connection-driver/libvirt_driver_qemu.so",
        "/usr/lib64/libvirt/connection-driver/libvirt_driver_qemu.so",
        "/usr/lib/libvirt/connection-driver/libvirt_driver_qemu.so", NULL};

    if (!any_file(needs, emulators))
        preflight_add(preflight, PREFLIGHT_ERROR, "emulator",
                      "there is no qemu-system-x86_64 on this machine",
                      "install it (Debian: qemu-system-x86)");
    if (!any_file(needs, drivers))
        preflight_add(preflight, PREFLIGHT_ERROR, "driver",
                      "libvirt has no QEMU driver on this machine",
                      "install it (Debian: libvirt-daemon-driver-qemu)");
}

static void check_accel(const struct preflight_needs *needs, struct preflight *preflight)
{
    char device[VT_PATH_MAX], why[200];

    if (host_kvm_runs(preflight_at(needs, "/dev/kvm", device, sizeof(device)), why, sizeof(why)))
        return;
    preflight_findf(preflight, PREFLIGHT_NOTE, "accel", "",
                    "CPUs are emulated (TCG), which makes a run DEGRADED at best: no KVM (%s)",
                    why + (needs->root ? strlen(needs->root) : 0));
}

void preflight_run(const struct preflight_needs *needs, struct preflight *ret)
{
    memset(ret, 0, sizeof(*ret));
    bool local_qemu =
        needs->uri && (!strncmp(needs->uri, "qemu:///", 8) || host_uri_is_system(needs->uri));

    if (local_qemu) {
        check_programs(needs, ret);
        check_accel(needs, ret);
        preflight_check_rights(needs, ret);
    }
    preflight_check_system(needs, ret);
    preflight_check_embed(needs, ret);
    preflight_check_leftovers(needs, ret);
    if (local_qemu) {
        check_memory(needs, ret);
        check_cpus(needs, ret);
        preflight_check_fit(needs, ret);
    }
    check_space(needs, needs->state, needs->state_bytes,
                "free space, or set VTILE_STATE to a folder that has more", ret);
    check_space(needs, needs->cache, needs->cache_bytes,
                "free space, or set VTILE_CACHE to a folder that has more", ret);
    check_image(needs, ret);
    preflight_check_names(needs, ret);
    if (local_qemu) {
        preflight_check_paths(needs, ret);
        preflight_check_firewall(needs, ret);
    }
}

int preflight_error(const struct preflight *preflight, struct vt_error *err)
{
    if (!preflight->errors)
        return 0;
    return vt_error_set(err, VT_KIND_CONFIG, -EINVAL, "%u error%s, above", preflight->errors,
                        preflight->errors == 1 ? "" : "s");
}
