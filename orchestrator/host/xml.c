/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/host/xml.h"

#include <errno.h>
#include <inttypes.h>
#include <libxml/parser.h>
#include <libxml/xmlwriter.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "base/text.h"

#define MEMORY_MIN_BYTES (16ULL << 20)
#define MEMORY_MAX_BYTES (16ULL << 40)
#define CHANNEL_NAME "dev.vtile.agent.0"

/* Slots of the root bus of q35 for our devices: 0 is the memory controller's, 1 is kept by libvirt
 * for a graphics card, from 26 on stand devices of the chip set. */
#define PCI_SLOT_FIRST 2
#define PCI_SLOT_END 26
_Static_assert(PCI_SLOT_FIRST + VT_DOMAIN_DISKS_MAX + VT_DOMAIN_NICS_MAX + 1 <= PCI_SLOT_END,
               "a slot for each disk, NIC and the channel");

/* A writer that remembers whether any call failed, so that the caller asks once. */
struct writer {
    xmlTextWriterPtr xml;
    bool failed;
    unsigned next_slot; /* PCI; 0: this machine is none with slots */
};

static void start(struct writer *w, const char *name)
{
    w->failed |= xmlTextWriterStartElement(w->xml, BAD_CAST name) < 0;
}

static void end(struct writer *w)
{
    w->failed |= xmlTextWriterEndElement(w->xml) < 0;
}

static void attribute(struct writer *w, const char *name, const char *value)
{
    w->failed |= xmlTextWriterWriteAttribute(w->xml, BAD_CAST name, BAD_CAST value) < 0;
}

static void text(struct writer *w, const char *name, const char *value)
{
    w->failed |= xmlTextWriterWriteElement(w->xml, BAD_CAST name, BAD_CAST value) < 0;
}

/* <name attribute="value" ...>, pairs up to NULL; left open. */
static void __attribute__((sentinel)) open_with(struct writer *w, const char *name, ...)
{
    va_list args;
    const char *key;

    start(w, name);
    va_start(args, name);
    while ((key = va_arg(args, const char *)))
        attribute(w, key, va_arg(args, const char *));
    va_end(args);
}

#define empty(w, ...) (open_with(w, __VA_ARGS__, NULL), end(w))

/* Directly on the root bus: libvirt's own choice is a root port a device, each of which costs the
 * guest's kernel CPU time at boot and buys nothing but hot-plugging. */
static void write_slot(struct writer *w)
{
    char slot[16];

    if (!w->next_slot)
        return;
    snprintf(slot, sizeof(slot), "0x%02x", w->next_slot++);
    empty(w, "address", "type", "pci", "domain", "0x0000", "bus", "0x00", "slot", slot, "function",
          "0x0");
}

static const char *accel_type(enum vt_accel accel)
{
    switch (accel) {
    case VT_ACCEL_TCG:
        return "qemu";
    case VT_ACCEL_KVM:
        return "kvm";
    case VT_ACCEL_XEN:
        return "xen";
    case VT_ACCEL_TEST:
        return "test";
    }
    return NULL;
}

/* Everything printable that XML can hold; control characters never stand in our values. */
static int check_text(const char *what, const char *value, const char *allowed,
                      struct vt_error *err)
{
    bool ok = allowed ? value[strspn(value, allowed)] == 0 : vt_text_is_utf8(value);

    for (const unsigned char *p = (const unsigned char *)value; *p; p++)
        ok = ok && *p >= 0x20 && *p != 0x7f;
    if (ok)
        return 0;
    return vt_error_set(err, VT_KIND_CONFIG, -EINVAL,
                        "%s holds a character that must not stand in a domain's definition", what);
}

#define ALNUM "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

static int check_path(const char *what, const char *path, struct vt_error *err)
{
    if (path[0] && path[0] != '/')
        return vt_error_set(err, VT_KIND_CONFIG, -EINVAL, "%s '%s' is no absolute path", what,
                            path);
    return check_text(what, path, NULL, err);
}

static int check_devices(const struct vt_domain *domain, struct vt_error *err)
{
    int code = 0;

    if (domain->ndisks > VT_DOMAIN_DISKS_MAX || domain->nnics > VT_DOMAIN_NICS_MAX)
        return vt_error_set(err, VT_KIND_CONFIG, -E2BIG, "more than %d disks or %d NICs",
                            VT_DOMAIN_DISKS_MAX, VT_DOMAIN_NICS_MAX);
    for (unsigned i = 0; i < domain->ndisks && code == 0; i++) {
        const struct vt_disk *disk = &domain->disks[i];
        if (!disk->path[0])
            return vt_error_set(err, VT_KIND_CONFIG, -EINVAL, "disk %u has no path", i);
        code = check_path("the path of a disk", disk->path, err);
        if (code == 0)
            code = check_text("the serial of a disk", disk->serial, ALNUM "_.-", err);
    }
    for (unsigned i = 0; i < domain->nnics && code == 0; i++) {
        const struct vt_nic *nic = &domain->nics[i];
        if (domain->accel != VT_ACCEL_TEST && !nic->tap[0] == !nic->bridge[0])
            return vt_error_set(err, VT_KIND_CONFIG, -EINVAL,
                                "NIC %u must have either a tap or a bridge", i);
        code = check_text("a MAC address", nic->mac, "0123456789abcdef:", err);
        if (code == 0)
            code = check_text("an interface name", nic->tap[0] ? nic->tap : nic->bridge,
                              ALNUM "_.-", err);
    }
    return code;
}

static int check(const struct vt_domain *domain, const char *emulator, struct vt_error *err)
{
    int code;

    if (!domain->name[0] || !domain->run[0] || !domain->controller[0] || !domain->role[0])
        return vt_error_set(err, VT_KIND_CONFIG, -EINVAL,
                            "name, run, controller and role must be given");
    if (domain->vcpus < 1 || domain->vcpus > VT_DOMAIN_VCPUS_MAX)
        return vt_error_set(err, VT_KIND_CONFIG, -EINVAL, "%u vCPUs: 1 to %d are possible",
                            domain->vcpus, VT_DOMAIN_VCPUS_MAX);
    if (domain->memory_bytes < MEMORY_MIN_BYTES || domain->memory_bytes > MEMORY_MAX_BYTES ||
        domain->memory_bytes % 1024)
        return vt_error_set(err, VT_KIND_CONFIG, -EINVAL,
                            "%" PRIu64 " bytes of memory: 16 MiB to 16 TiB in whole KiB are "
                            "possible",
                            domain->memory_bytes);
    if (domain->tb_cache_bytes % (1 << 20))
        return vt_error_set(err, VT_KIND_CONFIG, -EINVAL,
                            "a translation buffer of %" PRIu64 " bytes is no whole MiB",
                            domain->tb_cache_bytes);
    if (!accel_type(domain->accel))
        return vt_error_set(err, VT_KIND_CONFIG, -EINVAL, "unknown way to run it");
    if ((code = check_text("the name", domain->name, ALNUM "_.-", err)) < 0 ||
        (code = check_text("the UUID", domain->uuid, "0123456789abcdef-", err)) < 0 ||
        (code = check_text("the run", domain->run, ALNUM "_.-", err)) < 0 ||
        (code = check_text("the controller", domain->controller, ALNUM "_.-", err)) < 0 ||
        (code = check_text("the role", domain->role, ALNUM "_.-", err)) < 0 ||
        (code = check_path("the kernel", domain->kernel, err)) < 0 ||
        (code = check_path("the initrd", domain->initrd, err)) < 0 ||
        (code = check_text("the kernel's command line", domain->cmdline, NULL, err)) < 0 ||
        (code = check_path("the console's log", domain->console_log, err)) < 0 ||
        (code = check_path("the agent's channel", domain->channel_path, err)) < 0 ||
        (code = check_path("the emulator", emulator ? emulator : "", err)) < 0)
        return code;
    return check_devices(domain, err);
}

static void write_mark(struct writer *w, const struct vt_domain *domain)
{
    char tile[16];

    snprintf(tile, sizeof(tile), "%u", domain->tile);
    start(w, "metadata");
    w->failed |= xmlTextWriterStartElementNS(w->xml, BAD_CAST "vtile", BAD_CAST "run",
                                             BAD_CAST XML_NAMESPACE) < 0;
    attribute(w, "run", domain->run);
    attribute(w, "controller", domain->controller);
    attribute(w, "tile", tile);
    attribute(w, "role", domain->role);
    end(w);
    end(w);
}

static void write_boot(struct writer *w, const struct vt_domain *domain)
{
    start(w, "os");
    start(w, "type");
    if (domain->accel == VT_ACCEL_TCG || domain->accel == VT_ACCEL_KVM) {
        attribute(w, "arch", "x86_64");
        /* On "pc" ACPI routes interrupts by a loop in byte code, 0.2 s of emulated CPU for each
         * virtio device; q35 has a table. */
        attribute(w, "machine", XML_MACHINE);
    }
    w->failed |= xmlTextWriterWriteString(w->xml, BAD_CAST "hvm") < 0;
    end(w);
    if (domain->kernel[0])
        text(w, "kernel", domain->kernel);
    if (domain->initrd[0])
        text(w, "initrd", domain->initrd);
    if (domain->cmdline[0])
        text(w, "cmdline", domain->cmdline);
    end(w);
}

static void write_cpu(struct writer *w, const struct vt_domain *domain)
{
    char number[32];

    start(w, "features");
    empty(w, "acpi");
    if (domain->accel == VT_ACCEL_TCG && domain->tb_cache_bytes) {
        snprintf(number, sizeof(number), "%" PRIu64, domain->tb_cache_bytes >> 20);
        start(w, "tcg");
        open_with(w, "tb-cache", "unit", "MiB", NULL);
        w->failed |= xmlTextWriterWriteString(w->xml, BAD_CAST number) < 0;
        end(w);
        end(w);
    }
    end(w);
    if (domain->accel == VT_ACCEL_TCG) /* becomes -cpu max */
        empty(w, "cpu", "mode", "maximum");
    else if (domain->accel == VT_ACCEL_KVM)
        empty(w, "cpu", "mode", "host-passthrough");
}

static void write_disk(struct writer *w, const struct vt_disk *disk, unsigned index)
{
    char target[8];

    snprintf(target, sizeof(target), "vd%c", (char)('a' + index));
    open_with(w, "disk", "type", "file", "device", "disk", NULL);
    if (disk->readonly)
        empty(w, "driver", "name", "qemu", "type", "raw");
    else /* never "unsafe", which drops flushes */
        empty(w, "driver", "name", "qemu", "type", "raw", "cache",
              disk->direct ? "none" : "writeback", "discard", "unmap");
    empty(w, "source", "file", disk->path);
    empty(w, "target", "dev", target, "bus", "virtio");
    if (disk->readonly)
        empty(w, "readonly");
    if (disk->serial[0])
        text(w, "serial", disk->serial);
    write_slot(w);
    end(w);
}

static void write_nic(struct writer *w, const struct vt_nic *nic)
{
    open_with(w, "interface", "type",
              nic->tap[0]      ? "ethernet"
              : nic->bridge[0] ? "bridge"
                               : "user",
              NULL);
    if (nic->mac[0])
        empty(w, "mac", "address", nic->mac);
    if (nic->tap[0])
        empty(w, "target", "dev", nic->tap, "managed", "no");
    else if (nic->bridge[0])
        empty(w, "source", "bridge", nic->bridge);
    empty(w, "model", "type", "virtio");
    /* No boot from the network: the option ROM is read and run for nothing. */
    empty(w, "rom", "enabled", "no");
    write_slot(w);
    end(w);
}

/* Otherwise a daemon would give each file of a domain to QEMU's user: the kernel that other VMs
 * boot too, and a read-only disk for good. */
static void write_user(struct writer *w, const struct xml_host *host)
{
    char label[64];

    if (!host->user_known)
        return;
    snprintf(label, sizeof(label), "+%u:+%u", (unsigned)host->user, (unsigned)host->group);
    open_with(w, "seclabel", "type", "static", "model", "dac", "relabel", "no", NULL);
    text(w, "label", label);
    end(w);
}

static void write_devices(struct writer *w, const struct vt_domain *domain, const char *emulator)
{
    start(w, "devices");
    if (emulator && emulator[0])
        text(w, "emulator", emulator);
    for (unsigned i = 0; i < domain->ndisks; i++)
        write_disk(w, &domain->disks[i], i);
    if (domain->accel != VT_ACCEL_TEST)
        empty(w, "controller", "type", "usb", "index", "0", "model", "none");
    if (w->next_slot)
        empty(w, "controller", "type", "pci", "index", "0", "model", "pcie-root");
    for (unsigned i = 0; i < domain->nnics; i++)
        write_nic(w, &domain->nics[i]);
    if (domain->console_log[0]) {
        /* A serial port, since its driver is in the kernel itself: a panic before any module is
         * loaded is seen too. */
        open_with(w, "serial", "type", "file", NULL);
        empty(w, "source", "path", domain->console_log);
        empty(w, "target", "port", "0");
        end(w);
    }
    if (domain->channel_path[0]) {
        if (w->next_slot) {
            open_with(w, "controller", "type", "virtio-serial", "index", "0", NULL);
            write_slot(w);
            end(w);
        }
        open_with(w, "channel", "type", "unix", NULL);
        empty(w, "source", "mode", "bind", "path", domain->channel_path);
        empty(w, "target", "type", "virtio", "name", CHANNEL_NAME);
        end(w);
    }
    if (domain->accel != VT_ACCEL_TEST)
        empty(w, "memballoon", "model", "none");
    end(w);
}

static void write_domain(struct writer *w, const struct vt_domain *domain,
                         const struct xml_host *host)
{
    char number[32];

    if (domain->accel == VT_ACCEL_TCG || domain->accel == VT_ACCEL_KVM)
        w->next_slot = PCI_SLOT_FIRST;
    open_with(w, "domain", "type", accel_type(domain->accel), NULL);
    text(w, "name", domain->name);
    if (domain->uuid[0])
        text(w, "uuid", domain->uuid);
    write_mark(w, domain);
    snprintf(number, sizeof(number), "%" PRIu64, domain->memory_bytes / 1024);
    open_with(w, "memory", "unit", "KiB", NULL);
    w->failed |= xmlTextWriterWriteString(w->xml, BAD_CAST number) < 0;
    end(w);
    snprintf(number, sizeof(number), "%u", domain->vcpus);
    text(w, "vcpu", number);
    write_boot(w, domain);
    write_cpu(w, domain);
    empty(w, "clock", "offset", "utc");
    /* A guest that reboots by itself has died: it must be seen as gone, not come back unasked. */
    text(w, "on_poweroff", "destroy");
    text(w, "on_reboot", "destroy");
    text(w, "on_crash", "destroy");
    write_devices(w, domain, host->emulator);
    write_user(w, host);
    end(w);
}

int xml_write_domain(const struct vt_domain *domain, const struct xml_host *host, char **ret_xml,
                     struct vt_error *err)
{
    static const struct xml_host any = {0};
    int code = check(domain, host ? host->emulator : NULL, err);
    struct writer w = {0};
    xmlBufferPtr buffer = NULL;

    if (code < 0)
        return vt_error_wrap(err, "define %s", domain->name[0] ? domain->name : "a domain");
    buffer = xmlBufferCreate();
    w.xml = buffer ? xmlNewTextWriterMemory(buffer, 0) : NULL;
    if (!w.xml) {
        code = vt_error_no_memory(err, "define %s", domain->name);
        goto out;
    }
    xmlTextWriterSetIndent(w.xml, 1);
    xmlTextWriterSetIndentString(w.xml, BAD_CAST "  ");
    write_domain(&w, domain, host ? host : &any);
    w.failed |= xmlTextWriterEndDocument(w.xml) < 0 || xmlTextWriterFlush(w.xml) < 0;
    if (w.failed || xmlBufferLength(buffer) > XML_DOMAIN_MAX) {
        code = vt_error_no_memory(err, "write the XML of %s", domain->name);
        goto out;
    }
    char *copy = strdup((const char *)xmlBufferContent(buffer));
    if (!copy) {
        code = vt_error_no_memory(err, "define %s", domain->name);
        goto out;
    }
    *ret_xml = copy;
out:
    if (w.xml)
        xmlFreeTextWriter(w.xml);
    if (buffer)
        xmlBufferFree(buffer);
    return code;
}

static bool is_run(const xmlNode *node, const char *namespace)
{
    return node->type == XML_ELEMENT_NODE && xmlStrEqual(node->name, BAD_CAST "run") &&
           xmlStrEqual(node->ns ? node->ns->href : NULL, BAD_CAST namespace);
}

static const xmlNode *child(const xmlNode *parent, const char *name)
{
    for (const xmlNode *node = parent->children; node; node = node->next)
        if (node->type == XML_ELEMENT_NODE && xmlStrEqual(node->name, BAD_CAST name))
            return node;
    return NULL;
}

static const xmlNode *find_mark(const xmlNode *root)
{
    if (!root || is_run(root, NULL) || is_run(root, XML_NAMESPACE))
        return root;
    if (xmlStrEqual(root->name, BAD_CAST "domstatus"))
        root = child(root, "domain");
    const xmlNode *metadata = root ? child(root, "metadata") : NULL;
    for (const xmlNode *node = metadata ? metadata->children : NULL; node; node = node->next)
        if (is_run(node, XML_NAMESPACE))
            return node;
    return NULL;
}

/* False when it is absent or longer than what we ever write. */
static bool read_attribute(const xmlNode *node, const char *name, char *value, size_t size)
{
    xmlChar *found = xmlGetNoNsProp(node, BAD_CAST name);
    bool ok = found && found[0] && vt_text_copy(value, size, (const char *)found);

    xmlFree(found);
    return ok;
}

int xml_read_mark(const char *xml, struct xml_mark *ret, struct vt_error *err)
{
    size_t len = strnlen(xml, XML_READ_MAX + 1);
    struct xml_mark mark = {0};
    char tile[16];
    int64_t number;

    if (len > XML_READ_MAX)
        return vt_error_set(err, VT_KIND_REFUSED, -E2BIG,
                            "a domain's definition is longer than 4 MiB");
    xmlDocPtr doc = xmlReadMemory(xml, (int)len, "domain", NULL,
                                  XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING);
    if (!doc)
        return vt_error_refuse(err, "a domain's definition is no XML");
    const xmlNode *node = find_mark(xmlDocGetRootElement(doc));
    bool ok = node && read_attribute(node, "run", mark.run, sizeof(mark.run)) &&
              read_attribute(node, "controller", mark.controller, sizeof(mark.controller)) &&
              read_attribute(node, "role", mark.role, sizeof(mark.role)) &&
              read_attribute(node, "tile", tile, sizeof(tile)) &&
              vt_text_parse_int(tile, 0, UINT32_MAX, &number, NULL) == 0;
    xmlFreeDoc(doc);
    if (!ok)
        return 0;
    mark.tile = (unsigned)number;
    *ret = mark;
    return 1;
}
