/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/host/calls.h"

#include <errno.h>
#include <libvirt/virterror.h>
#include <libxml/parser.h>
#include <libxml/xpath.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/point.h"
#include "base/scope.h"
#include "base/text.h"

void (*host_call_hook)(const char *call, bool before);
static _Thread_local _Atomic(const char *) *told_call;

const unsigned host_stats_dear =
    VIR_DOMAIN_STATS_BALLOON | VIR_DOMAIN_STATS_INTERFACE | VIR_DOMAIN_STATS_BLOCK;
const unsigned host_stats_remote = VIR_DOMAIN_STATS_BALLOON | VIR_DOMAIN_STATS_INTERFACE |
                                   VIR_DOMAIN_STATS_BLOCK | VIR_DOMAIN_STATS_STATE |
                                   VIR_DOMAIN_STATS_CPU_TOTAL | VIR_DOMAIN_STATS_VCPU;

VT_POINT void vt_host_call_point(const char *call, bool before)
{
    __asm__ volatile("" : : "r"(call), "r"((int)before) : "memory");
    if (told_call)
        atomic_store(told_call, before ? call : NULL);
    if (host_call_hook)
        host_call_hook(call, before);
}

void calls_tell(_Atomic(const char *) *call)
{
    told_call = call;
}

/* CALL(virDomainCreate, domain): the call between its two points. */
#define CALL(function, ...)                          \
    ({                                               \
        vt_host_call_point(#function, true);         \
        __auto_type result_ = function(__VA_ARGS__); \
        vt_host_call_point(#function, false);        \
        result_;                                     \
    })

static int code_of(int vir_code)
{
    switch (vir_code) {
    case VIR_ERR_NO_DOMAIN:
        return -ENOENT;
    case VIR_ERR_DOM_EXIST:
        return -EEXIST;
    case VIR_ERR_NO_MEMORY:
        return -ENOMEM;
    case VIR_ERR_AUTH_FAILED:
    case VIR_ERR_AUTH_CANCELLED:
    case VIR_ERR_ACCESS_DENIED:
        return -EACCES;
    case VIR_ERR_NO_SUPPORT:
    case VIR_ERR_CONFIG_UNSUPPORTED:
        return -ENOTSUP;
    case VIR_ERR_XML_ERROR:
    case VIR_ERR_XML_DETAIL:
    case VIR_ERR_XML_INVALID_SCHEMA:
    case VIR_ERR_INVALID_ARG:
        return -EINVAL;
    case VIR_ERR_OPERATION_TIMEOUT:
        return -ETIMEDOUT;
    default:
        return -EIO;
    }
}

static int last_code(void)
{
    const virError *error = virGetLastError();

    return error ? code_of(error->code) : -EIO;
}

/* "<what> <object>: <libvirt's words>". */
static int fail(const char *what, const char *object, struct vt_error *err)
{
    const virError *error = virGetLastError();

    return vt_error_set(err, VT_KIND_INFRA, last_code(), "%s %s: %s", what, object,
                        error && error->message ? error->message : "libvirt gave no reason");
}

static void silent(void *ctx, virErrorPtr error)
{
    (void)ctx;
    (void)error; /* told by value, by whoever asked for the call */
}

/* xpath to one string; false where it is absent or does not fit. */
static bool xpath_text(xmlXPathContextPtr xpath, const char *path, char *value, size_t size)
{
    xmlXPathObjectPtr found = xmlXPathEval(BAD_CAST path, xpath);
    bool ok = found && found->type == XPATH_STRING && found->stringval[0] &&
              vt_text_copy(value, size, (const char *)found->stringval);

    xmlXPathFreeObject(found);
    return ok;
}

int calls_parse_capabilities(const char *xml, struct host_info *info, struct vt_error *err)
{
    size_t len = strnlen(xml, XML_READ_MAX + 1);
    char type[16], label[64];
    int used = 0;

    xmlDocPtr doc = len > XML_READ_MAX
                        ? NULL
                        : xmlReadMemory(xml, (int)len, "capabilities", NULL,
                                        XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING);
    xmlXPathContextPtr xpath = doc ? xmlXPathNewContext(doc) : NULL;
    if (!xpath) {
        xmlFreeDoc(doc);
        return vt_error_refuse(err, "the host's capabilities are no XML or longer than 4 MiB");
    }
#define ARCH "/capabilities/guest/arch[@name='x86_64']"
    if (!xpath_text(xpath, "string(" ARCH "/emulator)", info->emulator, sizeof(info->emulator)))
        info->emulator[0] = 0;
    info->user_known =
        xpath_text(xpath, "string(/capabilities/host/secmodel[model='dac']/baselabel[1])", label,
                   sizeof(label)) &&
        sscanf(label, "+%u:+%u%n", &info->user, &info->group, &used) == 2 && !label[used];
    info->kvm_listed =
        xpath_text(xpath, "string(" ARCH "/domain[@type='kvm']/@type)", type, sizeof(type));
    xmlXPathFreeContext(xpath);
    xmlFreeDoc(doc);
    return 0;
}

static bool is_remote(const char *uri)
{
    const char *authority = strstr(uri, "://");

    return authority && authority[3] != '/';
}

static int read_info(virConnectPtr conn, const char *uri, struct host_info *info,
                     struct vt_error *err)
{
    VT_AUTO_FREE char *capabilities = NULL, *name = NULL;
    virNodeInfo node;
    const char *driver = CALL(virConnectGetType, conn);

    vt_text_copy(info->uri, sizeof(info->uri), uri);
    if (!driver || CALL(virNodeGetInfo, conn, &node) < 0)
        return fail("ask host", uri, err);
    vt_text_copy(info->driver, sizeof(info->driver), driver);
    info->cpus = node.cpus;
    info->memory_bytes = (uint64_t)node.memory * 1024;
    info->free_bytes = CALL(virNodeGetFreeMemory, conn); /* 0 where the driver cannot tell */
    name = CALL(virConnectGetHostname, conn);
    vt_text_copy(info->name, sizeof(info->name), name ? name : "");
    if (CALL(virConnectGetLibVersion, conn, &info->libvirt_version) < 0 ||
        CALL(virConnectGetVersion, conn, &info->hypervisor_version) < 0)
        return fail("ask the versions of host", uri, err);
    capabilities = CALL(virConnectGetCapabilities, conn);
    if (!capabilities)
        return fail("ask the capabilities of host", uri, err);
    int code = calls_parse_capabilities(capabilities, info, err);
    if (code < 0)
        return code;
    if (!strcasecmp(driver, "test"))
        info->accel = VT_ACCEL_TEST;
    else if (!strcasecmp(driver, "xen"))
        info->accel = VT_ACCEL_XEN;
    else
        info->accel = VT_ACCEL_TCG;
    /* A far host's device is not ours to try; there libvirt's word counts. */
    if (info->accel == VT_ACCEL_TCG && info->kvm_listed &&
        (is_remote(uri) || host_kvm_runs("/dev/kvm", NULL, 0)))
        info->accel = VT_ACCEL_KVM;
    return 0;
}

int calls_facts(virConnectPtr conn, const char *uri, struct host_facts *facts, struct vt_error *err)
{
    VT_AUTO_FREE struct host_info *info = calloc(1, sizeof(*info));
    VT_AUTO_FREE char *capabilities = NULL;
    bool local = host_uri_is_local(uri);
    int code;

    if (!info)
        return vt_error_no_memory(err, "facts of the host");
    code = read_info(conn, uri, info, err);
    if (code < 0)
        return code;
    capabilities = CALL(virConnectGetCapabilities, conn);
    if (!capabilities)
        return fail("ask the capabilities of host", uri, err);
    if (local)
        host_facts_add_machine(facts, "");
    code = host_facts_add_capabilities(facts, capabilities, err);
    if (code == 0)
        host_facts_add_info(facts, info, local);
    return code;
}

int calls_open(const char *uri, virConnectPtr *ret, struct host_info *info, struct vt_error *err)
{
    virConnectPtr conn;

    virSetErrorFunc(NULL, silent);
    if (CALL(virInitialize) < 0)
        return fail("initialise libvirt for", uri, err);
    conn = CALL(virConnectOpen, uri);
    if (!conn)
        return fail("open host", uri, err);
    int code = read_info(conn, uri, info, err);
    if (code < 0) {
        calls_close(conn);
        return code;
    }
    *ret = conn;
    return 0;
}

void calls_close(virConnectPtr conn)
{
    if (conn)
        CALL(virConnectClose, conn);
}

static void domain_free(virDomainPtr *domain)
{
    if (*domain)
        virDomainFree(*domain);
}
#define AUTO_DOMAIN __attribute__((cleanup(domain_free))) virDomainPtr

/* Fills all of *ret; a domain that vanishes meanwhile has no mark. */
static int describe(virDomainPtr domain, struct host_domain *ret, struct vt_error *err)
{
    VT_AUTO_FREE char *metadata = NULL;
    const char *name = virDomainGetName(domain);

    memset(ret, 0, sizeof(*ret));
    if (!name || virDomainGetUUIDString(domain, ret->uuid) < 0)
        return fail("ask the name of a domain of", "the host", err);
    /* Names of others may be longer; ours are not. */
    if (!vt_text_copy(ret->name, sizeof(ret->name), name))
        return 0;
    ret->active = CALL(virDomainIsActive, domain) == 1;
    ret->persistent = CALL(virDomainIsPersistent, domain) == 1;
    metadata = CALL(virDomainGetMetadata, domain, VIR_DOMAIN_METADATA_ELEMENT, XML_NAMESPACE,
                    VIR_DOMAIN_AFFECT_CURRENT);
    if (metadata && xml_read_mark(metadata, &ret->mark, NULL) != 1)
        memset(&ret->mark, 0, sizeof(ret->mark));
    return 0;
}

struct watch {
    void (*stopped)(void *ctx, const char *uuid);
    void *ctx;
};

static int on_lifecycle(virConnectPtr conn, virDomainPtr domain, int event, int detail,
                        void *opaque)
{
    const struct watch *watch = opaque;
    char uuid[VIR_UUID_STRING_BUFLEN];

    (void)conn;
    (void)detail;
    if (event == VIR_DOMAIN_EVENT_STOPPED && virDomainGetUUIDString(domain, uuid) == 0)
        watch->stopped(watch->ctx, uuid);
    return 0;
}

int calls_watch(virConnectPtr conn, void (*stopped)(void *ctx, const char *uuid), void *ctx)
{
    struct watch *watch = malloc(sizeof(*watch));
    int id = -1;

    if (!watch)
        return -1;
    *watch = (struct watch){stopped, ctx};
    id = CALL(virConnectDomainEventRegisterAny, conn, NULL, VIR_DOMAIN_EVENT_ID_LIFECYCLE,
              VIR_DOMAIN_EVENT_CALLBACK(on_lifecycle), watch, free);
    if (id < 0)
        free(watch);
    return id;
}

void calls_unwatch(virConnectPtr conn, int watch)
{
    if (watch >= 0)
        CALL(virConnectDomainEventDeregisterAny, conn, watch);
}

int calls_start(virConnectPtr conn, const char *xml, struct host_domain *ret, struct vt_error *err)
{
    unsigned flags = VIR_DOMAIN_START_VALIDATE;
    AUTO_DOMAIN domain = CALL(virDomainCreateXML, conn, xml, flags);

    if (!domain) {
        char name[64] = "";
        const char *from = strstr(xml, "<name>");
        if (from)
            snprintf(name, sizeof(name), "%.*s", (int)strcspn(from + 6, "<"), from + 6);
        return fail("start domain", name, err);
    }
    return describe(domain, ret, err);
}

/* Undefine with everything that belongs to the domain; the driver may know fewer flags. */
static int undefine(virDomainPtr domain, const char *name, struct vt_error *err)
{
    static const unsigned tries[] = {
        VIR_DOMAIN_UNDEFINE_MANAGED_SAVE | VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA |
            VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA | VIR_DOMAIN_UNDEFINE_NVRAM,
        VIR_DOMAIN_UNDEFINE_MANAGED_SAVE | VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA,
        0,
    };

    for (size_t i = 0; i < VT_COUNT(tries); i++) {
        if (CALL(virDomainUndefineFlags, domain, tries[i]) == 0 || last_code() == -ENOENT)
            return 0;
        if (virGetLastError() && virGetLastError()->code != VIR_ERR_INVALID_ARG &&
            virGetLastError()->code != VIR_ERR_NO_SUPPORT)
            break;
    }
    return fail("undefine domain", name, err);
}

static int check_mark(virDomainPtr domain, const char *name, const struct xml_mark *mark,
                      struct vt_error *err)
{
    struct host_domain found;
    int code = describe(domain, &found, err);

    if (code < 0)
        return code;
    if (!found.mark.run[0] || (mark->run[0] && strcmp(mark->run, found.mark.run) != 0) ||
        (mark->controller[0] && strcmp(mark->controller, found.mark.controller) != 0))
        return vt_error_set(err, VT_KIND_INFRA, -EPERM,
                            "domain %s does not carry the mark of %s %s: it is left alone", name,
                            mark->run[0] ? "run" : "controller",
                            mark->run[0] ? mark->run : mark->controller);
    return 0;
}

int calls_destroy(virConnectPtr conn, const char *name_or_uuid, const struct xml_mark *mark,
                  struct vt_error *err)
{
    AUTO_DOMAIN domain = CALL(virDomainLookupByUUIDString, conn, name_or_uuid);

    if (!domain)
        domain = CALL(virDomainLookupByName, conn, name_or_uuid);
    if (!domain)
        return last_code() == -ENOENT ? 0 : fail("look for domain", name_or_uuid, err);
    int code = mark ? check_mark(domain, name_or_uuid, mark, err) : 0;
    if (code < 0)
        return code;
    bool persistent = CALL(virDomainIsPersistent, domain) == 1;
    if (CALL(virDomainIsActive, domain) == 1 && CALL(virDomainDestroyFlags, domain, 0) < 0) {
        code = fail("stop domain", name_or_uuid, err);
        if (CALL(virDomainIsActive, domain) == 1)
            return code;
        vt_error_clear(err); /* it ended by itself meanwhile */
    }
    return persistent ? undefine(domain, name_or_uuid, err) : 0;
}

int calls_list(virConnectPtr conn, const char *controller, struct host_domain **ret, size_t *ret_n,
               struct vt_error *err)
{
    virDomainPtr *all = NULL;
    struct host_domain *ours = NULL;
    size_t n = 0;
    int code = 0, found = CALL(virConnectListAllDomains, conn, &all, 0);

    if (found < 0)
        return fail("list domains of", "the host", err);
    if (found > CALLS_DOMAINS_MAX)
        code = vt_error_set(err, VT_KIND_REFUSED, -E2BIG, "the host has %d domains, more than %d",
                            found, CALLS_DOMAINS_MAX);
    else if (!(ours = calloc((size_t)found + 1, sizeof(*ours))))
        code = vt_error_no_memory(err, "list domains");
    for (int i = 0; i < found; i++) {
        if (code == 0 && describe(all[i], &ours[n], NULL) == 0 && ours[n].mark.run[0] &&
            (!controller || !strcmp(controller, ours[n].mark.controller)))
            n++;
        virDomainFree(all[i]);
    }
    free(all);
    if (code < 0) {
        free(ours);
        return code;
    }
    *ret = ours;
    *ret_n = n;
    return 0;
}

static bool to_number(const virTypedParameter *parameter, double *ret)
{
    switch (parameter->type) {
    case VIR_TYPED_PARAM_INT:
        *ret = parameter->value.i;
        return true;
    case VIR_TYPED_PARAM_UINT:
        *ret = parameter->value.ui;
        return true;
    case VIR_TYPED_PARAM_LLONG:
        *ret = (double)parameter->value.l;
        return true;
    case VIR_TYPED_PARAM_ULLONG:
        *ret = (double)parameter->value.ul;
        return true;
    case VIR_TYPED_PARAM_DOUBLE:
        *ret = parameter->value.d;
        return true;
    case VIR_TYPED_PARAM_BOOLEAN:
        *ret = parameter->value.b ? 1 : 0;
        return true;
    default:
        return false; /* names of disks and interfaces */
    }
}

/* All numbers of all records as rows. */
static int flatten(virDomainStatsRecordPtr *records, struct host_stat **ret, size_t *ret_n,
                   struct vt_error *err)
{
    size_t total = 0, n = 0;
    struct host_stat *rows;

    for (size_t i = 0; records[i]; i++)
        total += (size_t)records[i]->nparams;
    if (total > CALLS_STATS_MAX)
        return vt_error_set(err, VT_KIND_REFUSED, -E2BIG, "%zu statistics at once, more than %d",
                            total, CALLS_STATS_MAX);
    rows = calloc(total + 1, sizeof(*rows));
    if (!rows)
        return vt_error_no_memory(err, "statistics");
    for (size_t i = 0; records[i]; i++) {
        const char *name = virDomainGetName(records[i]->dom);
        for (int j = 0; j < records[i]->nparams; j++) {
            const virTypedParameter *parameter = &records[i]->params[j];
            struct host_stat *row = &rows[n];
            if (name && vt_text_copy(row->domain, sizeof(row->domain), name) &&
                vt_text_copy(row->key, sizeof(row->key), parameter->field) &&
                to_number(parameter, &row->value))
                n++;
        }
    }
    *ret = rows;
    *ret_n = n;
    return 0;
}

int calls_stats(virConnectPtr conn, unsigned groups, const char (*uuids)[37], size_t n,
                struct host_stat **ret, size_t *ret_n, struct vt_error *err)
{
    virDomainStatsRecordPtr *records = NULL;
    virDomainPtr *domains = calloc(n + 1, sizeof(virDomainPtr));
    size_t found = 0;
    int code = 0;

    if (!domains)
        return vt_error_no_memory(err, "statistics");
    for (size_t i = 0; i < n; i++)
        if ((domains[found] = CALL(virDomainLookupByUUIDString, conn, uuids[i])))
            found++;
    /* An empty list would mean every domain of the host. */
    if (found && CALL(virDomainListGetStats, domains, groups, &records, 0) < 0) {
        code = fail("ask statistics of", "the host", err);
    } else if (found) {
        code = flatten(records, ret, ret_n, err);
    } else {
        *ret = NULL;
        *ret_n = 0;
    }
    for (size_t i = 0; i < found; i++)
        virDomainFree(domains[i]);
    free(domains);
    if (records)
        virDomainStatsRecordListFree(records);
    return code;
}
