/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <zlib.h>

#include "base/confdisk.h"
#include "base/text.h"
#include "tests/unit/sanitized.h"

static struct vt_confdisk conf, back;
static uint8_t disk[VT_CONFDISK_BYTES];

static void fill(void)
{
    memset(&conf, 0, sizeof conf);
    vt_text_copy(conf.run, sizeof conf.run, "4f1c02a9b3d7");
    vt_text_copy(conf.role, sizeof conf.role, "web");
    vt_text_copy(conf.agent, sizeof conf.agent, "web-1");
    vt_text_copy(conf.hostname, sizeof conf.hostname, "vt-4f1c02-001-web");
    vt_text_copy(conf.mac, sizeof conf.mac, "52:54:00:0a:0b:0c");
    vt_text_copy(conf.address, sizeof conf.address, "10.86.0.12/16");
    vt_text_copy(conf.gateway, sizeof conf.gateway, "10.86.0.1");
    vt_text_copy(conf.controller, sizeof conf.controller, "10.86.0.1:7443");
    vt_text_copy(conf.token, sizeof conf.token, "00112233445566778899aabbccddeeff");
    vt_text_copy(conf.ca, sizeof conf.ca,
                 "-----BEGIN CERTIFICATE-----\nTUlJ\n-----END CERTIFICATE-----\n");
    conf.tile = 1;
    conf.unattended = true;
    conf.n_peers = 1;
    vt_text_copy(conf.peers[0].name, sizeof conf.peers[0].name, "infra");
    vt_text_copy(conf.peers[0].address, sizeof conf.peers[0].address, "10.86.0.13");
    conf.n_params = 1;
    vt_text_copy(conf.params[0].name, sizeof conf.params[0].name, "children");
    vt_text_copy(conf.params[0].value, sizeof conf.params[0].value, "a = b; c");
}

/* A disk with this text, its sum from zlib: not by the code under test. */
static void disk_of(const char *text, size_t len)
{
    uint32_t words[2] = {(uint32_t)len, (uint32_t)crc32(0, (const uint8_t *)text, (uInt)len)};

    memset(disk, 0, sizeof disk);
    memcpy(disk, "VTCONF1\n", 8);
    for (int i = 0; i < 8; i++)
        disk[8 + i] = (uint8_t)(words[i / 4] >> (i % 4 * 8));
    memcpy(disk + 16, text, len);
}

static int decode_text(const char *text, struct vt_error *err)
{
    disk_of(text, strlen(text));
    return vt_confdisk_decode(disk, sizeof disk, &back, err);
}

#define REQUIRED "run=r\nrole=web\nagent=a\nhostname=h\n"

static void what_is_written_is_read(void **state)
{
    (void)state;
    fill();
    assert_int_equal(vt_confdisk_encode(&conf, disk, NULL), 0);
    assert_int_equal(vt_confdisk_decode(disk, sizeof disk, &back, NULL), 0);
    assert_memory_equal(&back, &conf, sizeof conf);
    assert_string_equal(vt_confdisk_param(&back, "children", "?"), "a = b; c");
    assert_string_equal(vt_confdisk_param(&back, "absent", "?"), "?");
}

static void a_disk_made_by_hand_is_read(void **state)
{
    struct vt_error err = VT_ERROR_INIT;

    (void)state;
    /* "TUlJCg==" is what base64(1) makes of "MII\n"; PEM starts otherwise. */
    assert_int_equal(decode_text(REQUIRED "tile=7\nunattended=0\n", &err), 0);
    assert_string_equal(back.role, "web");
    assert_int_equal(back.tile, 7);
    assert_false(back.unattended);
    assert_int_equal(decode_text(REQUIRED "ca=LS0tLS1CRUdJTiBYLS0tLS0K\n", &err), 0);
    assert_string_equal(back.ca, "-----BEGIN X-----\n");
    assert_int_equal(decode_text(REQUIRED "ca=TUlJCg==\n", &err), -EBADMSG);
}

/* Sixty-four kibibytes by eight bits; each changes something. */
static void every_flipped_bit_is_refused(void **state)
{
    (void)state;
    fill();
    assert_int_equal(vt_confdisk_encode(&conf, disk, NULL), 0);
    /* A sum goes over each of the zeros alike: a sanitizer sees only some of them changed. */
    for (size_t i = 0; i < sizeof disk; i += SANITIZED && i >= 2048 ? 61 : 1) {
        /* All bits where there is text, one in the zeros behind it. */
        int bits = i < 2048 ? 8 : 1;

        for (int bit = 0; bit < bits; bit++) {
            disk[i] ^= (uint8_t)(1 << bit);
            if (vt_confdisk_decode(disk, sizeof disk, &back, NULL) != -EBADMSG)
                fail_msg("bit %d of byte %zu: accepted", bit, i);
            disk[i] ^= (uint8_t)(1 << bit);
        }
    }
    assert_int_equal(vt_confdisk_decode(disk, sizeof disk, &back, NULL), 0);
}

static void every_other_length_is_refused(void **state)
{
    static uint8_t longer[VT_CONFDISK_BYTES + 512];

    (void)state;
    fill();
    assert_int_equal(vt_confdisk_encode(&conf, disk, NULL), 0);
    for (size_t len = 0; len < sizeof disk; len++)
        assert_int_equal(vt_confdisk_decode(disk, len, &back, NULL), -EBADMSG);
    memcpy(longer, disk, sizeof disk);
    assert_int_equal(vt_confdisk_decode(longer, sizeof disk + 1, &back, NULL), -EBADMSG);
    assert_int_equal(vt_confdisk_decode(longer, sizeof longer, &back, NULL), -EBADMSG);
}

static void a_text_cut_anywhere_with_a_right_sum_is_refused_or_says_less(void **state)
{
    static const char text[] = REQUIRED "tile=12\nmac=52:54:00:0a:0b:0c\naddress=10.0.0.1/8\n";

    (void)state;
    for (size_t len = 0; len < sizeof text - 1; len++) {
        int r;

        disk_of(text, len);
        r = vt_confdisk_decode(disk, sizeof disk, &back, NULL);
        /* Complete lines with all that is required: only these two places. */
        if (len == strlen(REQUIRED) || len == strlen(REQUIRED "tile=12\n"))
            assert_int_equal(r, 0);
        else
            assert_int_equal(r, -EBADMSG);
    }
}

static void wrong_lines_are_refused_by_number(void **state)
{
    static const struct {
        const char *line, *says;
    } cases[] = {
        {"colour=red\n", "line 5: colour: is not a key"},
        {"role=mail\n", "line 5: role: given twice"},
        {"no sign\n", "line 5 is not key=value"},
        {"tile=1\ntile=1\n", "line 6: tile: given twice"},
        {"tile=-1\n", "line 5: tile"},
        {"tile=01\n", "line 5: tile"},
        {"tile=4294967297\n", "line 5: tile"},
        {"tile=\n", "line 5: tile"},
        {"unattended=yes\n", "line 5: unattended"},
        {"mac=52:54:00:0A:0B:0C\naddress=10.0.0.1/8\n", "line 5: mac"},
        {"mac=52:54:00:0a:0b\n", "line 5: mac"},
        {"mac=52:54:00:0a:0b:0c\n", "address is missing"},
        {"address=10.0.0.1/8\n", "mac is missing"},
        {"address=10.0.0.1\n", "line 5: address"},
        {"address=10.0.0.1/0\n", "line 5: address"},
        {"address=10.0.0.1/33\n", "line 5: address"},
        {"address=10.0.0.256/8\n", "line 5: address"},
        {"gateway=fe80::1\n", "line 5: gateway"},
        {"controller=10.0.0.1:0\n", "line 5: controller"},
        {"controller=10.0.0.1:65536\n", "line 5: controller"},
        {"controller=host:1\n", "line 5: controller"},
        {"token=00\n", "line 5: token"},
        {"token=0011223344556677889900112233445g\n", "line 5: token"},
        {"ca=LS0tLS1CRUdJTiBYLS0tLS0=\nca=x\n", "line 6: ca: given twice"},
        {"ca=LS0tLS1CRUdJTiBYLS0tLS1=\n", "line 5: ca"}, /* spare bits set */
        {"ca=LS0t=S1C\n", "line 5: ca"},
        {"ca=LS0\n", "line 5: ca"},
        {"peer.=10.0.0.1\n", "line 5: peer."},
        {"peer.a=b\n", "line 5: peer.a"},
        {"peer.a=10.0.0.1\npeer.a=10.0.0.2\n", "line 6: peer.a: given twice"},
        {"param.a=\x01\n", "line 5: param.a"},
        {"param.a b=1\n", "line 5: param.a b"},
        {"channel=a/b\n", "line 5: channel"},
        {"=\n", "line 5"},
        {"\n", "line 5"},
        {"\x80=1\n", "line 5: a key of odd bytes"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct vt_error err = VT_ERROR_INIT;
        char text[512];

        snprintf(text, sizeof text, REQUIRED "%s", cases[i].line);
        if (decode_text(text, &err) != -EBADMSG || !strstr(err.text, cases[i].says))
            fail_msg("%s: \"%s\", expected \"%s\"", cases[i].line, err.text, cases[i].says);
        assert_int_equal(err.kind, VT_KIND_REFUSED);
    }
}

static void each_required_key_is_missed(void **state)
{
    static const char *const lines[] = {"run=r\n", "role=web\n", "agent=a\n", "hostname=h\n"};

    (void)state;
    for (size_t missing = 0; missing < 4; missing++) {
        struct vt_error err = VT_ERROR_INIT;
        char text[128] = "", key[16];
        size_t len = 0;

        for (size_t i = 0; i < 4; i++)
            if (i != missing)
                len += (size_t)snprintf(text + len, sizeof text - len, "%s", lines[i]);
        assert_int_equal(decode_text(text, &err), -EBADMSG);
        snprintf(key, sizeof key, "%.*s is", (int)strcspn(lines[missing], "="), lines[missing]);
        assert_non_null(strstr(err.text, key));
    }
}

static void a_value_cannot_smuggle_a_line(void **state)
{
    (void)state;
    fill();
    vt_text_copy(conf.params[0].value, sizeof conf.params[0].value, "1\nparam.b=2");
    assert_int_equal(vt_confdisk_encode(&conf, disk, NULL), -EINVAL);
    vt_text_copy(conf.params[0].value, sizeof conf.params[0].value, "1\nchannel=x");
    assert_int_equal(vt_confdisk_encode(&conf, disk, NULL), -EINVAL);
    fill();
    vt_text_copy(conf.gateway, sizeof conf.gateway, "no address");
    assert_true(vt_confdisk_encode(&conf, disk, NULL) < 0);
    fill();
    *conf.hostname = '\0';
    assert_true(vt_confdisk_encode(&conf, disk, NULL) < 0);
}

static void tables_and_disk_have_a_bound(void **state)
{
    struct vt_error err = VT_ERROR_INIT;
    char text[8192];
    size_t len = (size_t)snprintf(text, sizeof text, REQUIRED);

    (void)state;
    for (int i = 0; i < VT_CONFDISK_PEERS_MAX; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "peer.p%d=10.0.0.1\n", i);
    assert_int_equal(decode_text(text, &err), 0);
    snprintf(text + len, sizeof text - len, "peer.more=10.0.0.1\n");
    assert_int_equal(decode_text(text, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "too many"));

    fill();
    memset(conf.ca, 'x', sizeof conf.ca - 1);
    memcpy(conf.ca, "-----BEGIN ", 11);
    conf.n_params = VT_CONFDISK_PARAMS_MAX;
    for (size_t i = 0; i < conf.n_params; i++) {
        memset(&conf.params[i], 0, sizeof conf.params[i]);
        snprintf(conf.params[i].name, sizeof conf.params[i].name, "p%zu", i);
        memset(conf.params[i].value, 'v', VT_CONFDISK_PARAM_VALUE_MAX - 1);
    }
    assert_int_equal(vt_confdisk_encode(&conf, disk, &err), 0);
    assert_int_equal(vt_confdisk_decode(disk, sizeof disk, &back, &err), 0);
    assert_memory_equal(&back, &conf, sizeof conf);
}

static void the_file_is_private_and_whole(void **state)
{
    char folder[] = "/tmp/vt-confdisk-XXXXXX", path[64];
    struct vt_error err = VT_ERROR_INIT;
    struct stat st;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/web-1.conf", folder);
    fill();
    assert_int_equal(vt_confdisk_write(path, &conf, &err), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(st.st_size, 65536);
    memset(&back, 0, sizeof back);
    assert_int_equal(vt_confdisk_read(path, &back, &err), 0);
    assert_memory_equal(&back, &conf, sizeof conf);
    assert_int_equal(truncate(path, 65537), 0);
    assert_int_equal(vt_confdisk_read(path, &back, &err), -EBADMSG);
    assert_non_null(strstr(err.text, path));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(vt_confdisk_read(path, &back, &err), -ENOENT);
    /* A failed write leaves no file of its own. */
    assert_int_equal(mkdir(path, 0700), 0);
    assert_true(vt_confdisk_write(path, &conf, &err) < 0);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(a_disk_made_by_hand_is_read),
        cmocka_unit_test(every_flipped_bit_is_refused),
        cmocka_unit_test(every_other_length_is_refused),
        cmocka_unit_test(a_text_cut_anywhere_with_a_right_sum_is_refused_or_says_less),
        cmocka_unit_test(wrong_lines_are_refused_by_number),
        cmocka_unit_test(each_required_key_is_missed),
        cmocka_unit_test(a_value_cannot_smuggle_a_line),
        cmocka_unit_test(tables_and_disk_have_a_bound),
        cmocka_unit_test(the_file_is_private_and_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
