/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of names and addresses: pure functions of run, tile, role and NIC. */
#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "orchestrator/host/net.h"

#define DIGITS "0123456789abcdef"
#define LETTERS "abcdefghijklmnopqrstuvwxyz0123456789"

static int check_run(const char *run, struct vt_error *err)
{
    if (strspn(run, DIGITS) == strlen(run) && strlen(run) >= NET_HEX)
        return 0;
    return vt_error_set(err, VT_KIND_CONFIG, -EINVAL,
                        "run '%s' must be at least %d lower-case hex digits, since its first ones "
                        "stand in names",
                        run, NET_HEX);
}

/* A name that does not fit is refused: cut names of two tiles would be the same. */
static int fits(int n, size_t size, const char *what, const char *run, struct vt_error *err)
{
    if (n >= 0 && (size_t)n < size)
        return 0;
    return vt_error_set(err, VT_KIND_CONFIG, -ENAMETOOLONG,
                        "the name of %s of run %s would have %d bytes, %zu are possible", what, run,
                        n, size - 1);
}

int net_name_netns(const char *run, char *name, size_t size, struct vt_error *err)
{
    int code = check_run(run, err);

    return code < 0 ? code
                    : fits(snprintf(name, size, "/run/netns/vt-%.6s", run), size,
                           "the network namespace", run, err);
}

int net_name_bridge(const char *run, char name[VT_IFNAME_MAX], struct vt_error *err)
{
    int code = check_run(run, err);

    return code < 0 ? code
                    : fits(snprintf(name, VT_IFNAME_MAX, "vt-%.6s-br", run), VT_IFNAME_MAX,
                           "the bridge", run, err);
}

static int check_place(unsigned tile, unsigned nic, struct vt_error *err)
{
    if (tile >= 1 && tile <= NET_TILES_MAX && nic < NET_NICS_MAX)
        return 0;
    return vt_error_set(err, VT_KIND_CONFIG, -ERANGE,
                        "tile %u, NIC %u: tiles 1 to %d and NICs 0 to %d have names and addresses",
                        tile, nic, NET_TILES_MAX, NET_NICS_MAX - 1);
}

int net_name_tap(const char *run, unsigned tile, char letter, unsigned nic,
                 char name[VT_IFNAME_MAX], struct vt_error *err)
{
    char number[2] = {nic ? (char)('0' + nic) : 0, 0};
    int code = check_run(run, err);

    if (code == 0)
        code = check_place(tile, nic, err);
    if (code == 0 && (!letter || !strchr(LETTERS, letter)))
        code = vt_error_set(err, VT_KIND_CONFIG, -EINVAL, "a role's letter must be one of a-z0-9");
    return code < 0
               ? code
               : fits(snprintf(name, VT_IFNAME_MAX, "vt-%.6s-%03u%c%s", run, tile, letter, number),
                      VT_IFNAME_MAX, "a tap", run, err);
}

int net_name_domain(const char *run, unsigned tile, const char *short_role, char *name, size_t size,
                    struct vt_error *err)
{
    int code = check_run(run, err);

    if (code == 0)
        code = check_place(tile, 0, err);
    if (code == 0 && (!short_role[0] || strspn(short_role, LETTERS) != strlen(short_role)))
        code = vt_error_set(err, VT_KIND_CONFIG, -EINVAL,
                            "role '%s' must have letters a-z and digits only", short_role);
    return code < 0 ? code
                    : fits(snprintf(name, size, "vt-%.6s-%03u-%s", run, tile, short_role), size,
                           "a domain", run, err);
}

int net_role_letters(const char *const *short_names, size_t n, char *letters, struct vt_error *err)
{
    char used[sizeof(LETTERS)] = "";

    if (n > NET_ROLES_MAX)
        return vt_error_set(err, VT_KIND_CONFIG, -E2BIG, "%zu roles in a tile, at most %d", n,
                            NET_ROLES_MAX);
    for (size_t i = 0; i < n; i++) {
        const char *candidates[] = {short_names[i], LETTERS};
        char chosen = 0;
        for (size_t c = 0; c < 2 && !chosen; c++)
            for (const char *at = candidates[c]; *at && !chosen; at++)
                if (strchr(LETTERS, *at) && !strchr(used, *at))
                    chosen = *at;
        used[i] = letters[i] = chosen; /* LETTERS has more than NET_ROLES_MAX: always found */
        used[i + 1] = 0;
    }
    return 0;
}

int net_address(unsigned tile, unsigned role, unsigned nic, char address[16], struct vt_error *err)
{
    int code = check_place(tile, nic, err);

    if (code == 0 && role >= NET_ROLES_MAX)
        code = vt_error_set(err, VT_KIND_CONFIG, -ERANGE, "role number %u: 0 to %d have addresses",
                            role, NET_ROLES_MAX - 1);
    if (code < 0)
        return code;
    snprintf(address, 16, "198.%hhu.%hhu.%hhu", (unsigned char)(18 + tile / 256),
             (unsigned char)(tile % 256), (unsigned char)(10 + role + 40 * nic));
    return 0;
}

void net_mac(const char *run, unsigned tile, unsigned role, unsigned nic, unsigned try_number,
             char mac[18])
{
    char text[128];
    unsigned char digest[EVP_MAX_MD_SIZE] = {0};
    int len = snprintf(text, sizeof(text), "vtile mac %.32s %u %u %u %u", run, tile, role, nic,
                       try_number);

    EVP_Digest(text, (size_t)len, digest, NULL, EVP_sha256(), NULL);
    /* 02: locally administered, no group. */
    snprintf(mac, 18, "02:%02x:%02x:%02x:%02x:%02x", digest[0], digest[1], digest[2], digest[3],
             digest[4]);
}

bool net_mac_is_taken(const char *mac, const struct vt_nic *nics, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strcasecmp(mac, nics[i].mac))
            return true;
    return false;
}
