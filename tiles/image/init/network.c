/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <net/route.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/scope.h"
#include "tiles/image/init/init.h"

static void set_address(struct sockaddr *to, in_addr_t address)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = address};

    memcpy(to, &in, sizeof in);
}

static void request(int fd, unsigned long code, struct ifreq *ifr, const char *what)
{
    if (ioctl(fd, code, ifr) < 0)
        init_die(errno, "%s of interface %s", what, ifr->ifr_name);
}

static void bring_up(int fd, const char *name)
{
    struct ifreq ifr = {0};

    snprintf(ifr.ifr_name, sizeof ifr.ifr_name, "%s", name);
    request(fd, SIOCGIFFLAGS, &ifr, "get flags");
    ifr.ifr_flags |= IFF_UP;
    request(fd, SIOCSIFFLAGS, &ifr, "set flags");
}

/* address: "10.86.0.12/16", checked by the reader of the config disk. */
static void assign(int fd, const char *name, const char *address)
{
    struct ifreq ifr = {0};
    char ip[20];
    char *slash;
    int bits;

    snprintf(ifr.ifr_name, sizeof ifr.ifr_name, "%s", name);
    snprintf(ip, sizeof ip, "%s", address);
    slash = strchr(ip, '/');
    if (!slash)
        init_die(0, "address %s has no prefix length", address);
    *slash = '\0';
    bits = (int)strtol(slash + 1, NULL, 10);
    set_address(&ifr.ifr_addr, inet_addr(ip));
    request(fd, SIOCSIFADDR, &ifr, "set address");
    set_address(&ifr.ifr_netmask, htonl(bits == 32 ? 0xffffffffU : ~(0xffffffffU >> bits)));
    request(fd, SIOCSIFNETMASK, &ifr, "set netmask");
}

static void set_gateway(int fd, const char *gateway)
{
    struct rtentry route = {.rt_flags = RTF_UP | RTF_GATEWAY};

    set_address(&route.rt_dst, INADDR_ANY);
    set_address(&route.rt_genmask, INADDR_ANY);
    set_address(&route.rt_gateway, inet_addr(gateway));
    if (ioctl(fd, SIOCADDRT, &route) < 0)
        init_die(errno, "set gateway %s", gateway);
}

static bool has_mac(const char *name, const char *mac)
{
    char path[300], text[32];

    snprintf(path, sizeof path, "/sys/class/net/%.255s/address", name);
    return init_read_attribute(path, text, sizeof text) && strcmp(text, mac) == 0;
}

static void find_interface(const char *mac, char name[IFNAMSIZ])
{
    DIR *dir = opendir("/sys/class/net");

    *name = '\0';
    if (!dir)
        init_die(errno, "read /sys/class/net");
    for (struct dirent *entry; !*name && (entry = readdir(dir));)
        if (entry->d_name[0] != '.' && strlen(entry->d_name) < IFNAMSIZ &&
            has_mac(entry->d_name, mac))
            memcpy(name, entry->d_name, strlen(entry->d_name) + 1);
    closedir(dir);
    if (!*name)
        init_die(0, "no network interface has the address %s of the config disk", mac);
}

void init_set_network(const struct vt_confdisk *conf)
{
    VT_AUTO_CLOSE int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    char name[IFNAMSIZ];

    if (fd < 0)
        init_die(errno, "open a socket");
    bring_up(fd, "lo");
    if (!*conf->mac)
        return;
    find_interface(conf->mac, name);
    assign(fd, name, conf->address);
    bring_up(fd, name);
    if (*conf->gateway)
        set_gateway(fd, conf->gateway);
}
