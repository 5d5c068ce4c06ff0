/* SPDX-License-Identifier: Apache-2.0 */
#include "base/confdisk.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/scope.h"

#define MAGIC "VTCONF1\n"
#define HEADER_BYTES 16
#define TEXT_MAX (VT_CONFDISK_BYTES - HEADER_BYTES)

static uint32_t crc32_ieee(const uint8_t *data, size_t len)
{
    uint32_t crc = 0xffffffff;

    for (size_t i = 0; i < len; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (0xedb88320 & (0 - (crc & 1)));
    }
    return ~crc;
}

static void put_u32(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
    p[2] = (uint8_t)(v >> 16);
    p[3] = (uint8_t)(v >> 24);
}

static uint32_t get_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Forms of values. Each takes text of any content, bounded by its NUL. */

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_name(const char *s)
{
    if (!is_alnum(*s))
        return false;
    for (; *s; s++)
        if (!is_alnum(*s) && *s != '-' && *s != '_' && *s != '.')
            return false;
    return true;
}

static bool is_host(const char *s)
{
    return is_name(s) && !strpbrk(s, "_.");
}

static bool is_decimal(const char *s, uint32_t max)
{
    uint64_t v = 0;

    if (!*s || (s[0] == '0' && s[1]))
        return false;
    for (; *s; s++) {
        if (*s < '0' || *s > '9')
            return false;
        v = v * 10 + (uint64_t)(*s - '0');
        if (v > max)
            return false;
    }
    return true;
}

static uint32_t decimal(const char *s)
{
    uint32_t v = 0;

    for (; *s; s++)
        v = v * 10 + (uint32_t)(*s - '0');
    return v;
}

static bool is_tile(const char *s)
{
    return is_decimal(s, 1000000);
}

static bool is_ipv4(const char *s)
{
    struct in_addr a;

    return inet_pton(AF_INET, s, &a) == 1;
}

/* "<IPv4><mark><number in min..max>" */
static bool is_ipv4_and(const char *s, char mark, uint32_t min, uint32_t max)
{
    char ip[16];
    const char *at = strchr(s, mark);

    if (!at || (size_t)(at - s) >= sizeof ip)
        return false;
    memcpy(ip, s, (size_t)(at - s));
    ip[at - s] = '\0';
    return is_ipv4(ip) && is_decimal(at + 1, max) && decimal(at + 1) >= min;
}

static bool is_cidr(const char *s)
{
    return is_ipv4_and(s, '/', 1, 32);
}

static bool is_endpoint(const char *s)
{
    return is_ipv4_and(s, ':', 1, 65535);
}

static bool is_hex_digit(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

static bool is_mac(const char *s)
{
    if (strlen(s) != 17)
        return false;
    for (int i = 0; i < 17; i++)
        if (i % 3 == 2 ? s[i] != ':' : !is_hex_digit(s[i]))
            return false;
    return true;
}

static bool is_token(const char *s)
{
    size_t n = strlen(s);

    if (n < 32 || n > 128 || n % 2)
        return false;
    for (; *s; s++)
        if (!is_hex_digit(*s))
            return false;
    return true;
}

static bool is_flag(const char *s)
{
    return (*s == '0' || *s == '1') && !s[1];
}

/* Values stand on one line: printable ASCII. */
static bool is_plain(const char *s)
{
    for (; *s; s++)
        if (*s < 0x20 || *s > 0x7e)
            return false;
    return true;
}

static bool is_pem(const char *s)
{
    if (strncmp(s, "-----BEGIN ", 11) != 0)
        return false;
    for (; *s; s++)
        if ((*s < 0x20 || *s > 0x7e) && *s != '\n')
            return false;
    return true;
}

/* The keys with one value each; ca, tile, unattended, peer.* and param.* have their own code. */
struct field {
    const char *key;
    size_t offset, size;
    bool (*valid)(const char *);
    bool required;
};
#define FIELD(name, valid, required)                                                               \
    {                                                                                              \
#name, offsetof(struct vt_confdisk, name), sizeof(((struct vt_confdisk *)0)->name), valid, \
            required                                                                               \
    }
static const struct field fields[] = {
    FIELD(run, is_name, true),      FIELD(role, is_name, true),
    FIELD(agent, is_name, true),    FIELD(hostname, is_host, true),
    FIELD(mac, is_mac, false),      FIELD(address, is_cidr, false),
    FIELD(gateway, is_ipv4, false), FIELD(controller, is_endpoint, false),
    FIELD(channel, is_name, false), FIELD(token, is_token, false),
};

static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Text that grows in a fixed buffer; full is sticky. */
struct sink {
    char *at, *end;
    bool full;
};

static void sink_put(struct sink *out, const char *data, size_t len)
{
    if (out->full || (size_t)(out->end - out->at) < len) {
        out->full = true;
        return;
    }
    memcpy(out->at, data, len);
    out->at += len;
}

static void sink_line(struct sink *out, const char *prefix, const char *key, const char *value)
{
    sink_put(out, prefix, strlen(prefix));
    sink_put(out, key, strlen(key));
    sink_put(out, "=", 1);
    sink_put(out, value, strlen(value));
    sink_put(out, "\n", 1);
}

static void sink_base64(struct sink *out, const char *data, size_t len)
{
    for (size_t i = 0; i < len; i += 3) {
        uint32_t v = (uint32_t)(uint8_t)data[i] << 16;
        char quad[4];

        if (i + 1 < len)
            v |= (uint32_t)(uint8_t)data[i + 1] << 8;
        if (i + 2 < len)
            v |= (uint8_t)data[i + 2];
        quad[0] = base64_digits[v >> 18];
        quad[1] = base64_digits[v >> 12 & 63];
        quad[2] = i + 1 < len ? base64_digits[v >> 6 & 63] : '=';
        quad[3] = i + 2 < len ? base64_digits[v & 63] : '=';
        sink_put(out, quad, 4);
    }
}

/* Canonical base64 only (padding, zero spare bits), so that one text has one form. */
static bool base64_decode(const char *text, char *dst, size_t size)
{
    size_t len = strlen(text), n = 0;

    if (!len || len % 4)
        return false;
    for (size_t i = 0; i < len; i += 4) {
        uint32_t v = 0;
        int pad = 0;

        for (int k = 0; k < 4; k++) {
            const char *digit = strchr(base64_digits, text[i + (size_t)k]);

            if (text[i + (size_t)k] == '=' && i + 4 == len && k >= 2)
                pad++;
            else if (!digit || pad)
                return false;
            v = v << 6 | (pad ? 0 : (uint32_t)(digit - base64_digits));
        }
        if ((pad == 1 && v & 0xff) || (pad == 2 && v & 0xffff))
            return false;
        for (int k = 0; k < 3 - pad; k++) {
            if (n + 1 >= size)
                return false;
            dst[n++] = (char)(v >> (16 - 8 * k));
        }
    }
    dst[n] = '\0';
    return memchr(dst, '\0', n) == NULL;
}

static bool copy_value(char *dst, size_t size, const char *value)
{
    size_t len = strlen(value);

    if (len >= size)
        return false;
    memcpy(dst, value, len + 1);
    return true;
}

struct line_state {
    struct vt_confdisk *conf;
    bool seen_tile, seen_ca, seen_unattended;
};

/* NULL, or what is wrong with the value. */
static const char *take_peer(struct vt_confdisk *conf, const char *name, const char *value)
{
    struct vt_confdisk_peer *peer;

    if (!is_name(name) || !is_ipv4(value))
        return "expected peer.<name>=<IPv4 address>";
    for (size_t i = 0; i < conf->n_peers; i++)
        if (!strcmp(conf->peers[i].name, name))
            return "given twice";
    if (conf->n_peers == VT_CONFDISK_PEERS_MAX)
        return "too many peers";
    peer = &conf->peers[conf->n_peers];
    if (!copy_value(peer->name, sizeof peer->name, name) ||
        !copy_value(peer->address, sizeof peer->address, value))
        return "too long";
    conf->n_peers++;
    return NULL;
}

static const char *take_param(struct vt_confdisk *conf, const char *name, const char *value)
{
    struct vt_confdisk_param *param;

    if (!is_name(name) || !is_plain(value))
        return "expected param.<name>=<printable ASCII>";
    if (vt_confdisk_param(conf, name, NULL))
        return "given twice";
    if (conf->n_params == VT_CONFDISK_PARAMS_MAX)
        return "too many params";
    param = &conf->params[conf->n_params];
    if (!copy_value(param->name, sizeof param->name, name) ||
        !copy_value(param->value, sizeof param->value, value))
        return "too long";
    conf->n_params++;
    return NULL;
}

static const char *take_field(struct vt_confdisk *conf, const struct field *field,
                              const char *value)
{
    char *dst = (char *)conf + field->offset;

    if (*dst)
        return "given twice";
    if (!field->valid(value))
        return "has not the form that this key needs";
    if (!copy_value(dst, field->size, value))
        return "too long";
    return NULL;
}

static const char *take_line(struct line_state *state, const char *key, const char *value)
{
    struct vt_confdisk *conf = state->conf;
    bool *seen = NULL;

    for (size_t i = 0; i < VT_COUNT(fields); i++)
        if (!strcmp(fields[i].key, key))
            return take_field(conf, &fields[i], value);
    if (!strncmp(key, "peer.", 5))
        return take_peer(conf, key + 5, value);
    if (!strncmp(key, "param.", 6))
        return take_param(conf, key + 6, value);
    if (!strcmp(key, "tile"))
        seen = &state->seen_tile;
    else if (!strcmp(key, "ca"))
        seen = &state->seen_ca;
    else if (!strcmp(key, "unattended"))
        seen = &state->seen_unattended;
    else
        return "is not a key of this format";
    if (*seen)
        return "given twice";
    *seen = true;
    if (seen == &state->seen_tile) {
        if (!is_tile(value))
            return "expected a number up to 1000000";
        conf->tile = decimal(value);
    } else if (seen == &state->seen_unattended) {
        if (!is_flag(value))
            return "expected 0 or 1";
        conf->unattended = *value == '1';
    } else if (!base64_decode(value, conf->ca, sizeof conf->ca) || !is_pem(conf->ca)) {
        return "expected PEM in base64";
    }
    return NULL;
}

/* What no single line can tell. */
static const char *missing_key(const struct vt_confdisk *conf)
{
    for (size_t i = 0; i < VT_COUNT(fields); i++)
        if (fields[i].required && !*((const char *)conf + fields[i].offset))
            return fields[i].key;
    if (*conf->mac && !*conf->address)
        return "address";
    if (*conf->address && !*conf->mac)
        return "mac";
    return NULL;
}

/* text is writable and NUL-terminated at len; it is cut into lines. */
static int parse_text(char *text, size_t len, struct vt_confdisk *conf, struct vt_error *err)
{
    struct line_state state = {.conf = conf};
    const char *lacking, *wrong;
    int number = 0;

    memset(conf, 0, sizeof *conf);
    if (memchr(text, '\0', len))
        return vt_error_refuse(err, "config disk: NUL in its text");
    for (char *line = text, *next; line < text + len; line = next) {
        char *end = strchr(line, '\n'), *value;

        number++;
        if (!end)
            return vt_error_refuse(err, "config disk: line %d has no end", number);
        next = end + 1;
        *end = '\0';
        value = strchr(line, '=');
        if (!value)
            return vt_error_refuse(err, "config disk: line %d is not key=value", number);
        *value++ = '\0';
        wrong = take_line(&state, line, value);
        if (wrong)
            return vt_error_refuse(err, "config disk: line %d: %.64s: %s", number,
                                   is_plain(line) ? line : "a key of odd bytes", wrong);
    }
    lacking = missing_key(conf);
    if (lacking)
        return vt_error_refuse(err, "config disk: %s is missing", lacking);
    return 0;
}

int vt_confdisk_decode(const uint8_t *buf, size_t len, struct vt_confdisk *ret,
                       struct vt_error *err)
{
    /* One at a time: the callers are single-threaded set-up code, and 64 KiB are too much for
     * a thread's stack next to *ret. */
    static _Thread_local char text[TEXT_MAX + 1];
    static _Thread_local struct vt_confdisk conf;
    uint32_t text_len;
    int r;

    if (len != VT_CONFDISK_BYTES)
        return vt_error_refuse(err, "config disk: %zu bytes, expected %d", len, VT_CONFDISK_BYTES);
    if (memcmp(buf, MAGIC, 8) != 0)
        return vt_error_refuse(err, "config disk: no VTCONF1 at its start");
    text_len = get_u32(buf + 8);
    if (text_len > TEXT_MAX)
        return vt_error_refuse(err, "config disk: states %u bytes of text, at most %d fit",
                               text_len, TEXT_MAX);
    if (get_u32(buf + 12) != crc32_ieee(buf + HEADER_BYTES, text_len))
        return vt_error_refuse(err, "config disk: its checksum differs");
    for (size_t i = HEADER_BYTES + (size_t)text_len; i < len; i++)
        if (buf[i])
            return vt_error_refuse(err, "config disk: byte %zu behind its text is not zero", i);
    memcpy(text, buf + HEADER_BYTES, text_len);
    text[text_len] = '\0';
    r = parse_text(text, text_len, &conf, err);
    explicit_bzero(text, sizeof text); /* it holds the token */
    if (r < 0)
        return r;
    memcpy(ret, &conf, sizeof conf);
    explicit_bzero(&conf, sizeof conf);
    return 0;
}

static void write_text(const struct vt_confdisk *conf, struct sink *out)
{
    char number[16];

    for (size_t i = 0; i < VT_COUNT(fields); i++) {
        const char *value = (const char *)conf + fields[i].offset;

        if (*value)
            sink_line(out, "", fields[i].key, value);
    }
    snprintf(number, sizeof number, "%u", conf->tile);
    sink_line(out, "", "tile", number);
    if (conf->unattended)
        sink_line(out, "", "unattended", "1");
    for (size_t i = 0; i < conf->n_peers && i < VT_CONFDISK_PEERS_MAX; i++)
        sink_line(out, "peer.", conf->peers[i].name, conf->peers[i].address);
    for (size_t i = 0; i < conf->n_params && i < VT_CONFDISK_PARAMS_MAX; i++)
        sink_line(out, "param.", conf->params[i].name, conf->params[i].value);
    if (*conf->ca) {
        sink_put(out, "ca=", 3);
        sink_base64(out, conf->ca, strlen(conf->ca));
        sink_put(out, "\n", 1);
    }
}

int vt_confdisk_encode(const struct vt_confdisk *conf, uint8_t *buf, struct vt_error *err)
{
    static _Thread_local struct vt_confdisk back;
    struct sink out = {(char *)buf + HEADER_BYTES, (char *)buf + VT_CONFDISK_BYTES, false};
    size_t len;
    int r;

    if (conf->n_peers > VT_CONFDISK_PEERS_MAX || conf->n_params > VT_CONFDISK_PARAMS_MAX)
        return vt_error_set(err, VT_KIND_CONFIG, -EINVAL, "config disk: too many peers or params");
    memset(buf, 0, VT_CONFDISK_BYTES);
    write_text(conf, &out);
    if (out.full)
        return vt_error_set(err, VT_KIND_CONFIG, -ENOSPC,
                            "config disk: more than %d bytes of settings", TEXT_MAX);
    len = (size_t)(out.at - (char *)buf) - HEADER_BYTES;
    memcpy(buf, MAGIC, 8);
    put_u32(buf + 8, (uint32_t)len);
    put_u32(buf + 12, crc32_ieee(buf + HEADER_BYTES, len));
    /* A value with a line end in it could pass for a second key; the reader is the judge. */
    r = vt_confdisk_decode(buf, VT_CONFDISK_BYTES, &back, err);
    if (r < 0)
        return vt_error_wrap(err, "write settings of %.64s", conf->hostname);
    for (size_t i = 0; i < VT_COUNT(fields); i++)
        if (strcmp((const char *)&back + fields[i].offset, (const char *)conf + fields[i].offset))
            r = -EINVAL;
    if (r < 0 || back.n_peers != conf->n_peers || back.n_params != conf->n_params ||
        back.tile != conf->tile || back.unattended != conf->unattended ||
        strcmp(back.ca, conf->ca) != 0)
        r = vt_error_set(err, VT_KIND_CONFIG, -EINVAL,
                         "config disk: a setting of %.64s holds a line end", conf->hostname);
    explicit_bzero(&back, sizeof back);
    return r < 0 ? -EINVAL : 0;
}

static int write_all(int fd, const uint8_t *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

int vt_confdisk_write(const char *path, const struct vt_confdisk *conf, struct vt_error *err)
{
    static _Thread_local uint8_t buf[VT_CONFDISK_BYTES];
    char tmp[4096];
    int r, fd;

    r = vt_confdisk_encode(conf, buf, err);
    if (r < 0)
        return r;
    if (snprintf(tmp, sizeof tmp, "%s.XXXXXX", path) >= (int)sizeof tmp)
        return vt_error_set(err, VT_KIND_CONFIG, -ENAMETOOLONG, "config disk: path too long");
    fd = mkstemp(tmp);
    if (fd < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "create config disk %s", path);
    r = write_all(fd, buf, sizeof buf) < 0 ? errno : 0;
    explicit_bzero(buf, sizeof buf);
    if (close(fd) < 0 && !r)
        r = errno;
    if (!r && rename(tmp, path) < 0)
        r = errno;
    if (r) {
        unlink(tmp);
        return vt_error_errno(err, VT_KIND_INFRA, r, "write config disk %s", path);
    }
    return 0;
}

int vt_confdisk_read(const char *path, struct vt_confdisk *ret, struct vt_error *err)
{
    static _Thread_local uint8_t buf[VT_CONFDISK_BYTES + 1]; /* one more shows a longer disk */
    VT_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;
    size_t len = 0;
    int r;

    if (fd < 0 || fstat(fd, &st) < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "open config disk %s", path);
    if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
        return vt_error_set(err, VT_KIND_INFRA, -EINVAL,
                            "open config disk %s: neither a disk nor a regular file", path);
    while (len < sizeof buf) {
        ssize_t n = read(fd, buf + len, sizeof buf - len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return vt_error_errno(err, VT_KIND_INFRA, errno, "read config disk %s", path);
        if (n == 0)
            break;
        len += (size_t)n;
    }
    r = vt_confdisk_decode(buf, len, ret, err);
    explicit_bzero(buf, sizeof buf);
    return r < 0 ? vt_error_wrap(err, "read %s", path) : 0;
}

const char *vt_confdisk_param(const struct vt_confdisk *conf, const char *name,
                              const char *fallback)
{
    for (size_t i = 0; i < conf->n_params; i++)
        if (!strcmp(conf->params[i].name, name))
            return conf->params[i].value;
    return fallback;
}
