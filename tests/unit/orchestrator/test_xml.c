/* SPDX-License-Identifier: Apache-2.0 */
/* Domain XML against golden files and against libvirt's own schema. VTILE_GOLDEN_WRITE=1 writes the
 * golden files anew; look at their difference before committing it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <libxml/parser.h>
#include <libxml/relaxng.h>

#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/host/xml.h"

#define SCHEMA "/usr/share/libvirt/schemas/domain.rng"

static void fill_common(struct vt_domain *d, const char *role, unsigned tile)
{
    memset(d, 0, sizeof(*d));
    snprintf(d->name, sizeof(d->name), "vt-1a2b3c-%03u-%s", tile, role);
    vt_text_copy(d->uuid, sizeof(d->uuid), "6b7f4c1e-9a52-4d0e-8f3b-000000000001");
    vt_text_copy(d->run, sizeof(d->run), "1a2b3c4d5e6f");
    vt_text_copy(d->controller, sizeof(d->controller), "00112233445566778899aabbccddeeff");
    vt_text_copy(d->role, sizeof(d->role), role);
    d->tile = tile;
    d->vcpus = 1;
    d->memory_bytes = 128ULL << 20;
}

static void fill_tcg(struct vt_domain *d)
{
    fill_common(d, "web", 1);
    d->accel = VT_ACCEL_TCG;
    d->tb_cache_bytes = 32ULL << 20;
    vt_text_copy(d->kernel, sizeof(d->kernel), "/var/lib/vtile/image/vmlinux");
    vt_text_copy(d->initrd, sizeof(d->initrd), "/var/lib/vtile/image/initrd");
    vt_text_copy(d->cmdline, sizeof(d->cmdline), "console=ttyS0 quiet mitigations=off a=\"b<&>c\"");
    d->ndisks = 3;
    d->disks[0] = (struct vt_disk){
        .path = "/var/lib/vtile/image/packages.erofs", .serial = "packages", .readonly = true};
    d->disks[1] = (struct vt_disk){
        .path = "/var/lib/vtile/image/roles.erofs", .serial = "roles", .readonly = true};
    d->disks[2] = (struct vt_disk){
        .path = "/run/vtile/1a2b3c/web-1.conf", .serial = "config", .readonly = true};
    d->nnics = 1;
    d->nics[0] = (struct vt_nic){"02:11:22:33:44:55", "vt-1a2b3c-001w", ""};
    vt_text_copy(d->console_log, sizeof(d->console_log), "/run/vtile/1a2b3c/web-1.console");
}

static void fill_kvm(struct vt_domain *d)
{
    fill_common(d, "db", 256);
    d->accel = VT_ACCEL_KVM;
    d->vcpus = 4;
    d->memory_bytes = 8ULL << 30;
    vt_text_copy(d->kernel, sizeof(d->kernel), "/var/lib/vtile/image/vmlinux");
    d->ndisks = 2;
    d->disks[0] = (struct vt_disk){.path = "/srv/data ü/db.raw", .serial = "data", .direct = true};
    d->disks[1] = (struct vt_disk){.path = "/srv/data/more.raw", .serial = "more"};
    d->nnics = 2;
    d->nics[0] = (struct vt_nic){"02:11:22:33:44:56", "", "br0"};
    d->nics[1] = (struct vt_nic){"02:11:22:33:44:57", "vt-1a2b3c-256d1", ""};
    vt_text_copy(d->channel_path, sizeof(d->channel_path), "/run/vtile/1a2b3c/db-256.sock");
}

static void fill_test(struct vt_domain *d)
{
    fill_common(d, "infra", 2);
    d->accel = VT_ACCEL_TEST;
}

static const struct {
    const char *name;
    void (*fill)(struct vt_domain *d);
    struct xml_host host;
} cases[] = {
    {"tcg-web", fill_tcg, {0}},
    {"kvm-db", fill_kvm, {"/usr/bin/qemu-system-x86_64", true, 64055, 64056}},
    {"test-infra", fill_test, {.emulator = ""}},
};

static void golden_path(char *path, size_t size, const char *name)
{
    snprintf(path, size, "%s/tests/unit/orchestrator/golden/%s.xml", VTILE_SOURCE, name);
}

static char *read_file(const char *path)
{
    VT_AUTO_FCLOSE FILE *f = fopen(path, "r");
    char *data = calloc(1, XML_DOMAIN_MAX + 1);

    assert_non_null(data);
    if (!f)
        fail_msg("cannot read %s", path);
    assert_true(fread(data, 1, XML_DOMAIN_MAX, f) > 0);
    return data;
}

static void documents_are_golden(void **state)
{
    (void)state;
    for (size_t i = 0; i < VT_COUNT(cases); i++) {
        struct vt_domain d;
        VT_AUTO_FREE char *xml = NULL, *golden = NULL;
        char path[512];

        cases[i].fill(&d);
        assert_int_equal(xml_write_domain(&d, &cases[i].host, &xml, NULL), 0);
        golden_path(path, sizeof(path), cases[i].name);
        if (getenv("VTILE_GOLDEN_WRITE")) {
            VT_AUTO_FCLOSE FILE *f = fopen(path, "w");
            assert_non_null(f);
            assert_true(fputs(xml, f) >= 0);
            continue;
        }
        golden = read_file(path);
        assert_string_equal(xml, golden);
    }
}

static void documents_follow_libvirts_schema(void **state)
{
    (void)state;
    if (access(SCHEMA, R_OK) < 0) {
        print_message("skipped: no %s (package libvirt0)\n", SCHEMA);
        skip();
    }
    xmlRelaxNGParserCtxtPtr parser = xmlRelaxNGNewParserCtxt(SCHEMA);
    xmlRelaxNGPtr schema = xmlRelaxNGParse(parser);
    assert_non_null(schema);
    xmlRelaxNGValidCtxtPtr valid = xmlRelaxNGNewValidCtxt(schema);
    for (size_t i = 0; i < VT_COUNT(cases); i++) {
        struct vt_domain d;
        VT_AUTO_FREE char *xml = NULL;

        cases[i].fill(&d);
        assert_int_equal(xml_write_domain(&d, &cases[i].host, &xml, NULL), 0);
        xmlDocPtr doc = xmlReadMemory(xml, (int)strlen(xml), cases[i].name, NULL, XML_PARSE_NONET);
        assert_non_null(doc);
        if (xmlRelaxNGValidateDoc(valid, doc) != 0)
            fail_msg("%s does not follow %s", cases[i].name, SCHEMA);
        /* The check can fail: a word that libvirt does not know. */
        xmlNewChild(xmlDocGetRootElement(doc), NULL, BAD_CAST "no-such-element", NULL);
        xmlRelaxNGSetValidErrors(valid, NULL, NULL, NULL);
        assert_int_not_equal(xmlRelaxNGValidateDoc(valid, doc), 0);
        xmlFreeDoc(doc);
    }
    xmlRelaxNGFreeValidCtxt(valid);
    xmlRelaxNGFree(schema);
    xmlRelaxNGFreeParserCtxt(parser);
}

static void mark_is_read_back(void **state)
{
    struct vt_domain d;
    struct xml_mark mark = {0};
    VT_AUTO_FREE char *xml = NULL;

    (void)state;
    fill_tcg(&d);
    assert_int_equal(xml_write_domain(&d, NULL, &xml, NULL), 0);
    assert_int_equal(xml_read_mark(xml, &mark, NULL), 1);
    assert_string_equal(mark.run, d.run);
    assert_string_equal(mark.controller, d.controller);
    assert_string_equal(mark.role, "web");
    assert_int_equal(mark.tile, 1);
}

static void only_our_mark_counts(void **state)
{
    static const struct {
        const char *xml;
        int result;
    } documents[] = {
        {"<domain><metadata><v:run xmlns:v='https://vtile.dev/ns/1' run='r' controller='c' "
         "tile='7' role='db'/></metadata></domain>",
         1},
        /* virDomainGetMetadata gives the element alone and drops its namespace */
        {"<run run='r' controller='c' tile='7' role='db'/>", 1},
        {"<v:run xmlns:v='https://vtile.dev/ns/1' run='r' controller='c' tile='7' role='db'/>", 1},
        {"<domain><name>vt-1a2b3c-001-web</name></domain>", 0},
        {"<domain><metadata><run run='r' controller='c' tile='7' role='db'/></metadata></domain>",
         0},
        {"<domain><metadata><v:run xmlns:v='https://example.org/' run='r' controller='c' tile='7' "
         "role='db'/></metadata></domain>",
         0},
        {"<domain><metadata><v:run xmlns:v='https://vtile.dev/ns/1' controller='c' tile='7' "
         "role='db'/></metadata></domain>",
         0},
        {"<domain><metadata><v:run xmlns:v='https://vtile.dev/ns/1' run='r' controller='c' "
         "tile='x' role='db'/></metadata></domain>",
         0},
        {"<domain><metadata><v:run xmlns:v='https://vtile.dev/ns/1' "
         "run='0123456789012345678901234567890123' controller='c' tile='7' role='db'/>"
         "</metadata></domain>",
         0},
        {"<domain><other><v:run xmlns:v='https://vtile.dev/ns/1' run='r' controller='c' tile='7' "
         "role='db'/></other></domain>",
         0},
        /* a driver's status file */
        {"<domstatus state='paused' pid='0'><domain><metadata><v:run "
         "xmlns:v='https://vtile.dev/ns/1' run='r' controller='c' tile='7' role='db'/>"
         "</metadata></domain></domstatus>",
         1},
        {"<domstatus/>", 0},
        {"<domain>", -EBADMSG},
        {"", -EBADMSG},
    };

    (void)state;
    for (size_t i = 0; i < VT_COUNT(documents); i++) {
        struct xml_mark mark = {0};
        assert_int_equal(xml_read_mark(documents[i].xml, &mark, NULL), documents[i].result);
        assert_int_equal(mark.tile, documents[i].result == 1 ? 7 : 0);
    }
}

#define REFUSE(statement, expect)                                \
    do {                                                         \
        struct vt_domain d;                                      \
        struct vt_error err = VT_ERROR_INIT;                     \
        char *xml = NULL;                                        \
        fill_tcg(&d);                                            \
        statement;                                               \
        assert_true(xml_write_domain(&d, NULL, &xml, &err) < 0); \
        assert_null(xml);                                        \
        assert_non_null(strstr(err.text, expect));               \
        assert_int_equal(vt_error_exit_code(&err), 2);           \
    } while (0)

static void impossible_domains_are_refused(void **state)
{
    (void)state;
    REFUSE(d.name[0] = 0, "name");
    REFUSE(d.name[3] = '\n', "the name");
    REFUSE(d.run[0] = 0, "run");
    REFUSE(d.role[0] = '"', "the role");
    REFUSE(d.vcpus = 0, "0 vCPUs");
    REFUSE(d.vcpus = VT_DOMAIN_VCPUS_MAX + 1, "65 vCPUs");
    REFUSE(d.memory_bytes = 0, "0 bytes of memory");
    REFUSE(d.memory_bytes = (128 << 20) + 1, "134217729 bytes of memory");
    REFUSE(d.memory_bytes = UINT64_MAX / 1024 * 1024, "of memory");
    REFUSE(d.tb_cache_bytes = 1000, "translation buffer");
    REFUSE(d.accel = (enum vt_accel)99, "unknown way");
    REFUSE(d.kernel[0] = '.', "no absolute path");
    REFUSE(d.cmdline[0] = '\1', "command line");
    REFUSE(d.cmdline[0] = (char)0xff, "command line");
    REFUSE(d.disks[1].path[0] = 0, "disk 1 has no path");
    REFUSE(d.disks[1].path[5] = '\x7f', "path of a disk");
    REFUSE(d.disks[0].serial[0] = '/', "serial");
    REFUSE(d.nics[0].tap[0] = 0, "either a tap or a bridge");
    REFUSE(d.nics[0].bridge[0] = 'b', "either a tap or a bridge");
    REFUSE(d.nics[0].mac[0] = 'g', "MAC");
    REFUSE(d.nics[0].tap[0] = '/', "interface name");
    REFUSE(d.ndisks = VT_DOMAIN_DISKS_MAX + 1, "more than 8 disks");
    REFUSE(d.nnics = VT_DOMAIN_NICS_MAX + 1, "4 NICs");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documents_are_golden),
        cmocka_unit_test(documents_follow_libvirts_schema),
        cmocka_unit_test(mark_is_read_back),
        cmocka_unit_test(only_our_mark_counts),
        cmocka_unit_test(impossible_domains_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
