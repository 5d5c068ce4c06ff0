/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vtile-init: PID 1 of a guest. From the initramfs it loads the virtio modules, finds the disks by
 * their serial, joins packages, roles and memory into one root, mounts the data disk where there is
 * one, takes name and address from the config disk and runs the agent. Order of main(): modules,
 * disks, root, identity, network, data, agent.
 *
 * To end the guest: SIGTERM, SIGINT (also Ctrl-Alt-Del) or SIGUSR2 to PID 1 powers off, SIGHUP
 * restarts it. The ACPI power button is not heard: that would need two more modules and an input
 * reader in each guest, while the agent can send the signal.
 */
#ifndef VTILE_TILES_IMAGE_INIT_INIT_H
#define VTILE_TILES_IMAGE_INIT_INIT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/confdisk.h"

#define INIT_DISK_PATH_MAX 32

/* A line on the console, with "vtile-init: " before it. */
void init_log(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The same and then power off: a guest that cannot serve must end, not linger. errnum 0: none. */
void init_die(int errnum, const char *fmt, ...) __attribute__((noreturn, format(printf, 2, 3)));

/* attribute.c: a file of /sys, without its line's end; at most size - 1 bytes. False: there is
 * none. */
bool init_read_attribute(const char *path, char *text, size_t size);

/* root.c: mount points of the initramfs, then the guest's root. */
void init_mount_early(void);
/* packages, roles: block devices. Afterwards the process stands in the new root. */
void init_enter_root(const char *packages, const char *roles);

/* devices.c */
/* Loads /modules/<n>-<name>.ko in the order of their names, but those of the data disk. */
void init_load_modules(void);
/* The rest: loads what the data disk needs, or only makes its memory free. */
void init_load_data_modules(bool wanted);
/* The block device whose serial is this; waits up to ten seconds for it to appear. */
void init_find_disk(const char *serial, char path[INIT_DISK_PATH_MAX]);

/* data.c: the data disk at IMAGE_DATA_DIR; or memory, not below the root's overlay, where each file
 * has two inodes and each call goes two ways. */
void init_mount_data(const char *disk);
void init_mount_memory(void);

/* identity.c: host name, machine id, hosts file. */
void init_set_identity(const struct vt_confdisk *conf);

/* network.c: lo, and the interface with conf->mac. */
void init_set_network(const struct vt_confdisk *conf);

/* supervise.c: runs the agent until a signal ends the guest; does not return. */
void init_supervise(const char *config_disk) __attribute__((noreturn));

#endif
