/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/host/facts.h"

#include <libxml/parser.h>
#include <libxml/xpath.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/host/host.h"
#include "orchestrator/host/xml.h"

const char *host_facts_find(const struct host_facts *facts, const char *name)
{
    for (size_t i = 0; i < facts->n; i++)
        if (!strcmp(facts->all[i].name, name))
            return facts->all[i].value;
    return NULL;
}

void host_facts_put(struct host_facts *facts, const char *name, const char *fmt, ...)
{
    struct host_fact *fact = &facts->all[facts->n];
    va_list args;

    if (facts->n == HOST_FACTS_MAX || strlen(name) >= sizeof(fact->name) ||
        host_facts_find(facts, name))
        return;
    vt_text_copy(fact->name, sizeof(fact->name), name);
    va_start(args, fmt);
    vsnprintf(fact->value, sizeof(fact->value), fmt, args);
    va_end(args);
    facts->n++;
}

void host_facts_lack(struct host_facts *facts, const char *name, const char *why)
{
    host_facts_put(facts, name, "not available, because %s", why);
}

/* --- libvirt's capabilities --- */

#define SOCKETS_MAX 1024

static void put_text(struct host_facts *facts, const char *name, xmlXPathContextPtr xpath,
                     const char *path)
{
    xmlXPathObjectPtr found = xmlXPathEval(BAD_CAST path, xpath);

    if (found && found->type == XPATH_STRING && found->stringval[0])
        host_facts_put(facts, name, "%s", (const char *)found->stringval);
    xmlXPathFreeObject(found);
}

static double number_at(xmlXPathContextPtr xpath, const char *path)
{
    xmlXPathObjectPtr found = xmlXPathEval(BAD_CAST path, xpath);
    double value = found && found->type == XPATH_NUMBER ? found->floatval : -1;

    xmlXPathFreeObject(found);
    return value >= 0 && value < 1e15 ? value : -1; /* NaN too */
}

static void put_number(struct host_facts *facts, const char *name, xmlXPathContextPtr xpath,
                       const char *path, double unit)
{
    double value = number_at(xpath, path);

    if (value >= 0)
        host_facts_put(facts, name, "%.0f", value * unit);
}

/* All nodes, each by its own id. */
static void put_nodes(struct host_facts *facts, xmlXPathContextPtr xpath)
{
    double n = number_at(xpath, "count(/capabilities/host/topology/cells/cell)");
    char path[160], name[48];

    if (n < 1)
        return;
    host_facts_put(facts, "numa.nodes", "%.0f", n);
    for (int i = 1; i <= n && i <= HOST_FACT_NODES_MAX; i++) {
        double id;

        snprintf(path, sizeof(path), "number(/capabilities/host/topology/cells/cell[%d]/@id)", i);
        if ((id = number_at(xpath, path)) < 0 || id > 1e6)
            continue;
        snprintf(name, sizeof(name), "numa.%.0f.memory_bytes", id);
        snprintf(path, sizeof(path),
                 "number(/capabilities/host/topology/cells/cell[%d]/memory[@unit='KiB'])", i);
        put_number(facts, name, xpath, path, 1024);
        snprintf(name, sizeof(name), "numa.%.0f.cpus", id);
        snprintf(path, sizeof(path), "number(/capabilities/host/topology/cells/cell[%d]/cpus/@num)",
                 i);
        put_number(facts, name, xpath, path, 1);
    }
}

/* libvirt tells the caches that can be allocated: of one bank the size, and how many there are. */
static void put_caches(struct host_facts *facts, xmlXPathContextPtr xpath)
{
    for (int level = 1; level <= 4; level++) {
        char path[160], name[16];
        double n, size;

        snprintf(path, sizeof(path), "count(/capabilities/host/cache/bank[@level='%d'])", level);
        n = number_at(xpath, path);
        snprintf(
            path, sizeof(path),
            "number(/capabilities/host/cache/bank[@level='%d'][1]/@size)"
            " * (1 + 1023 * number(/capabilities/host/cache/bank[@level='%d'][1]/@unit='MiB'))",
            level, level);
        size = number_at(xpath, path);
        snprintf(name, sizeof(name), "cache.l%d", level);
        if (n >= 1 && size > 0)
            host_facts_put(facts, name, "%.0f KiB x %.0f", size, n);
    }
}

/* libvirt's own count of sockets is that of one NUMA node: the ids of the CPUs tell them all. */
static void put_sockets(struct host_facts *facts, xmlXPathContextPtr xpath)
{
    xmlXPathObjectPtr found =
        xmlXPathEval(BAD_CAST "/capabilities/host/topology/cells/cell/cpus/cpu/@socket_id", xpath);
    xmlNodeSetPtr ids = found ? found->nodesetval : NULL;
    bool seen[SOCKETS_MAX] = {false};
    unsigned n = 0;

    for (int i = 0; ids && i < ids->nodeNr; i++) {
        xmlChar *text = xmlNodeGetContent(ids->nodeTab[i]);
        unsigned long id = text ? strtoul((const char *)text, NULL, 10) : SOCKETS_MAX;

        if (id < SOCKETS_MAX && !seen[id]) {
            seen[id] = true;
            n++;
        }
        xmlFree(text);
    }
    xmlXPathFreeObject(found);
    if (n > 0)
        host_facts_put(facts, "sockets", "%u", n);
}

int host_facts_add_capabilities(struct host_facts *facts, const char *xml, struct vt_error *err)
{
    size_t len = strnlen(xml, XML_READ_MAX + 1);
    xmlDocPtr doc = len > XML_READ_MAX
                        ? NULL
                        : xmlReadMemory(xml, (int)len, "capabilities", NULL,
                                        XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING);
    xmlXPathContextPtr xpath = doc ? xmlXPathNewContext(doc) : NULL;

    if (!xpath) {
        xmlFreeDoc(doc);
        return vt_error_refuse(err, "the host's capabilities are no XML or longer than 4 MiB");
    }
    put_text(facts, "cpu.model", xpath, "string(/capabilities/host/cpu/model)");
    put_sockets(facts, xpath);
    put_number(facts, "cores", xpath,
               "/capabilities/host/cpu/topology/@cores * /capabilities/host/cpu/topology/@dies", 1);
    put_number(facts, "threads", xpath, "number(/capabilities/host/cpu/topology/@threads)", 1);
    put_nodes(facts, xpath);
    put_caches(facts, xpath);
    put_text(facts, "machine", xpath,
             "string(/capabilities/guest/arch[@name='x86_64']/machine[text()='" XML_MACHINE
             "'][1]/@canonical)");
    xmlXPathFreeContext(xpath);
    xmlFreeDoc(doc);
    return 0;
}

/* --- the rest --- */

static void put_version(struct host_facts *facts, const char *name, unsigned long version)
{
    if (version > 0)
        host_facts_put(facts, name, "%lu.%lu.%lu", version / 1000000, version / 1000 % 1000,
                       version % 1000);
}

void host_facts_add_info(struct host_facts *facts, const struct host_info *info, bool local)
{
    static const char *const expected[] = {
        "kernel",  "distribution", "cpu",    "cpu.model",  "cpus",     "sockets",
        "cores",   "threads",      "memory", "numa.nodes", "cache.l3", "governor",
        "smt",     "mitigations",  "thp",    "ksm",        "cmdline",  "clocksource",
        "machine", "libvirt",      "qemu"};
    const char *why = local ? "neither libvirt nor the kernel tells it"
                            : "libvirt does not tell it, and the host is not this machine";
    bool qemu = !strcasecmp(info->driver, "qemu"), mitigations = false;

    host_facts_put(facts, "uri", "%s", info->uri);
    host_facts_put(facts, "name", "%s", info->name);
    host_facts_put(facts, "driver", "%s", info->driver);
    host_facts_put(facts, "hypervisor", "%s", vt_accel_name(info->accel));
    put_version(facts, "libvirt", info->libvirt_version);
    if (qemu)
        put_version(facts, "qemu", info->hypervisor_version);
    else
        host_facts_lack(facts, "qemu", "the host's driver is another");
    if (info->cpus > 0)
        host_facts_put(facts, "cpus", "%u", info->cpus);
    if (info->memory_bytes > 0)
        host_facts_put(facts, "memory", "%llu kB", (unsigned long long)info->memory_bytes / 1024);
    for (size_t i = 0; i < facts->n; i++)
        mitigations |= !strncmp(facts->all[i].name, "mitigations.", strlen("mitigations."));
    for (size_t i = 0; i < VT_COUNT(expected); i++)
        if (strcmp(expected[i], "mitigations") != 0 || !mitigations)
            host_facts_lack(facts, expected[i], why);
}
