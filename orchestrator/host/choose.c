/* SPDX-License-Identifier: Apache-2.0 */
/* Which host, and whether it has KVM that deserves the name. */
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/host/embed.h"
#include "orchestrator/host/host.h"

#define EMBED "qemu:///embed"
#define SYSTEM "qemu:///system"

bool host_daemon_answers(const char *socket_path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    VT_AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    return fd >= 0 && vt_text_copy(address.sun_path, sizeof(address.sun_path), socket_path) &&
           connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
}

const char *host_system_socket(void)
{
    /* The split daemon first: where both sockets exist, the old one is a proxy for it. */
    static const char *const sockets[] = {"/run/libvirt/virtqemud-sock",
                                          "/run/libvirt/libvirt-sock"};

    for (size_t i = 0; i < VT_COUNT(sockets); i++)
        if (host_daemon_answers(sockets[i]))
            return sockets[i];
    return NULL;
}

/* With or without parameters. */
static bool uri_is(const char *uri, const char *base)
{
    size_t len = strlen(base);

    return !strncmp(uri, base, len) && (uri[len] == 0 || uri[len] == '?');
}

bool host_uri_is_embed(const char *uri)
{
    return uri_is(uri, EMBED);
}

bool host_uri_is_system(const char *uri)
{
    return uri_is(uri, SYSTEM) || uri_is(uri, "qemu+unix:///system");
}

bool host_uri_is_local(const char *uri)
{
    return host_uri_is_embed(uri) || host_uri_is_system(uri);
}

/* Locks, journals and `vtile clean` know one root only. */
static bool is_root_of(const char *uri, const char *root)
{
    const char *named = embed_root_of(uri);

    return named && !strcmp(named, root);
}

int host_choose_uri(const char *wanted, const char *embed_root, char *uri, size_t size,
                    struct vt_error *err)
{
    const char *chosen = wanted;
    int n;

    if (!strcmp(wanted, "auto"))
        chosen = host_system_socket() ? SYSTEM : "embed";
    if (!strcmp(chosen, "embed") || !strcmp(chosen, EMBED))
        n = snprintf(uri, size, EMBED "?root=%s", embed_root);
    else if (host_uri_is_embed(chosen) && !is_root_of(chosen, embed_root))
        return vt_error_set(err, VT_KIND_USAGE, -EINVAL,
                            "host '%s': the embedded host's folder is %s; VTILE_STATE chooses "
                            "another, --host embed is enough",
                            chosen, embed_root);
    else if (strstr(chosen, "://"))
        n = snprintf(uri, size, "%s", chosen);
    else
        return vt_error_set(err, VT_KIND_USAGE, -EINVAL,
                            "host '%s' is neither auto, embed nor a libvirt URI such as "
                            "qemu:///system",
                            wanted);
    if (n < 0 || (size_t)n >= size)
        return vt_error_set(err, VT_KIND_USAGE, -ENAMETOOLONG, "the host's URI is too long: '%s'",
                            wanted);
    return 0;
}

/* Without VT-x or AMD-V a kvm module can only interpret the guest, far slower than TCG. */
static bool cpu_virtualizes(void)
{
    VT_AUTO_FCLOSE FILE *f = fopen("/proc/cpuinfo", "re");
    char line[8192];

    while (f && fgets(line, sizeof(line), f)) {
        if (strncmp(line, "flags", 5) != 0)
            continue;
        line[strcspn(line, "\n")] = 0;
        for (char *save = NULL, *flag = strtok_r(line, " \t:", &save); flag;
             flag = strtok_r(NULL, " \t:", &save))
            if (!strcmp(flag, "vmx") || !strcmp(flag, "svm"))
                return true;
        return false;
    }
    return false;
}

/* A page at 0x1000 that holds `hlt`, entered in real mode. NULL, or what went wrong. */
static const char *run_hlt(int kvm)
{
    const uint64_t at = 0x1000;
    long map_bytes = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
    const char *wrong = NULL;
    uint8_t *page = MAP_FAILED;
    struct kvm_run *run = MAP_FAILED;
    struct kvm_sregs sregs;
    struct kvm_regs regs = {.rip = at, .rflags = 2};
    VT_AUTO_CLOSE int vcpu = -1;
    VT_AUTO_CLOSE int vm = ioctl(kvm, KVM_CREATE_VM, 0);

    if (vm < 0 || map_bytes < (long)sizeof(*run))
        return "no VM can be made";
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct kvm_userspace_memory_region region = {
        .guest_phys_addr = at, .memory_size = 4096, .userspace_addr = (uintptr_t)page};
    if (page != MAP_FAILED) {
        page[0] = 0xf4;
        if (ioctl(vm, KVM_SET_USER_MEMORY_REGION, &region) == 0)
            vcpu = ioctl(vm, KVM_CREATE_VCPU, 0);
    }
    if (vcpu >= 0)
        run = mmap(NULL, (size_t)map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, vcpu, 0);
    if (run == MAP_FAILED || ioctl(vcpu, KVM_GET_SREGS, &sregs) < 0) {
        wrong = "no vCPU can be made";
        goto out;
    }
    sregs.cs.base = 0;
    sregs.cs.selector = 0;
    if (ioctl(vcpu, KVM_SET_SREGS, &sregs) < 0 || ioctl(vcpu, KVM_SET_REGS, &regs) < 0 ||
        ioctl(vcpu, KVM_RUN, 0) < 0 || run->exit_reason != KVM_EXIT_HLT)
        wrong = "a vCPU does not run";
out:
    if (run != MAP_FAILED)
        munmap(run, (size_t)map_bytes);
    if (page != MAP_FAILED)
        munmap(page, 4096);
    return wrong;
}

bool host_kvm_runs(const char *device, char *why, size_t size)
{
    VT_AUTO_CLOSE int kvm = open(device, O_RDWR | O_CLOEXEC);
    const char *wrong = NULL;

    if (kvm < 0) {
        if (why)
            snprintf(why, size, "%s: %s", device, strerror(errno));
        return false;
    }
    if (ioctl(kvm, KVM_GET_API_VERSION, 0) != KVM_API_VERSION)
        wrong = "it is no KVM device";
    else if (!cpu_virtualizes())
        wrong = "it is there, but the CPU has neither VT-x nor AMD-V";
    else
        wrong = run_hlt(kvm);
    if (wrong && why)
        snprintf(why, size, "%s: %s", device, wrong);
    return !wrong;
}
