/* SPDX-License-Identifier: Apache-2.0 */
/*
 * domain: a virtual machine as placement, knobs and roles see it, free of any hypervisor's words.
 * The orchestrator turns it into libvirt's XML.
 */
#ifndef VT_BASE_DOMAIN_H
#define VT_BASE_DOMAIN_H

#include <stdbool.h>
#include <stdint.h>

#define VT_DOMAIN_DISKS_MAX 8
#define VT_DOMAIN_NICS_MAX 4
#define VT_DOMAIN_VCPUS_MAX 64
#define VT_PATH_MAX 1024
#define VT_IFNAME_MAX 16 /* with NUL: the kernel's own bound */

enum vt_accel { VT_ACCEL_TCG, VT_ACCEL_KVM, VT_ACCEL_XEN, VT_ACCEL_TEST };

/* As programs and the record read it. */
static inline const char *vt_accel_name(enum vt_accel accel)
{
    static const char *const names[] = {"tcg", "kvm", "xen", "test"};
    return names[accel];
}

struct vt_disk {
    char path[VT_PATH_MAX];
    char serial[21]; /* at most 20 bytes reach the guest */
    bool readonly;
    /* Of one that is written: past the host's page cache. Either way a flush of the guest is one of
     * the host's storage, and discarded blocks are given back. */
    bool direct;
};
struct vt_nic {
    char mac[18];
    char tap[VT_IFNAME_MAX];    /* a tap made by us, or "" */
    char bridge[VT_IFNAME_MAX]; /* a bridge of the host, or "" */
};
struct vt_domain {
    char name[64]; /* vt-<6hex>-003-db */
    char uuid[37];
    char run[33]; /* run and controller stand in <metadata>: our mark */
    char controller[33];
    unsigned tile; /* 1-based */
    char role[16];
    enum vt_accel accel;
    unsigned vcpus;
    uint64_t memory_bytes;
    uint64_t tb_cache_bytes; /* TCG's translation buffer; 0 = the emulator's default */
    char kernel[VT_PATH_MAX], initrd[VT_PATH_MAX], cmdline[512];
    struct vt_disk disks[VT_DOMAIN_DISKS_MAX];
    unsigned ndisks;
    struct vt_nic nics[VT_DOMAIN_NICS_MAX];
    unsigned nnics;
    char console_log[VT_PATH_MAX]; /* "" = none */
    char channel_path[108];        /* host side of the agent's virtio-serial port, "" = none */
};

#endif
