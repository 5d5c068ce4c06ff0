/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/host/rtnl.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/scope.h"

#define REQUEST_MAX 1024
#define REPLY_MAX 32768 /* an answer about one link, with all its attributes */

/* A request under construction; sizes are known, so it cannot outgrow its buffer. */
struct request {
    union {
        struct nlmsghdr head;
        char bytes[REQUEST_MAX];
    };
};

static void begin(struct request *request, uint16_t type, uint16_t flags)
{
    memset(request, 0, sizeof(*request));
    request->head.nlmsg_len = NLMSG_HDRLEN;
    request->head.nlmsg_type = type;
    request->head.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags;
    request->head.nlmsg_seq = 1;
}

static void *extend(struct request *request, size_t len)
{
    void *at = request->bytes + NLMSG_ALIGN(request->head.nlmsg_len);

    request->head.nlmsg_len = NLMSG_ALIGN(request->head.nlmsg_len) + (uint32_t)len;
    return at;
}

static struct rtattr *attribute(struct request *request, uint16_t type, const void *data,
                                size_t len)
{
    struct rtattr *attr = extend(request, RTA_LENGTH(len));

    attr->rta_type = type;
    attr->rta_len = (uint16_t)RTA_LENGTH(len);
    if (len)
        memcpy(RTA_DATA(attr), data, len);
    return attr;
}

/* Between the two the nested attributes are added. */
static struct rtattr *nest(struct request *request, uint16_t type)
{
    return attribute(request, type, NULL, 0);
}

static void unnest(struct request *request, struct rtattr *outer)
{
    outer->rta_len = (uint16_t)(request->bytes + request->head.nlmsg_len - (char *)outer);
}

/* Sends and reads up to the acknowledgement. An answer of type RTM_NEWLINK goes to on_link. */
static int talk(int fd, struct request *request,
                void (*on_link)(const struct nlmsghdr *head, void *ctx), void *ctx)
{
    static const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    union {
        struct nlmsghdr head;
        char bytes[REPLY_MAX];
    } reply;

    if (sendto(fd, request->bytes, request->head.nlmsg_len, 0, (const struct sockaddr *)&kernel,
               sizeof(kernel)) < 0)
        return -errno;
    for (;;) {
        ssize_t len = recv(fd, reply.bytes, sizeof(reply.bytes), 0);
        if (len < 0 && errno == EINTR)
            continue;
        if (len < 0)
            return -errno;
        for (struct nlmsghdr *head = &reply.head; NLMSG_OK(head, (size_t)len);
             head = NLMSG_NEXT(head, len)) {
            if (head->nlmsg_type == NLMSG_ERROR)
                return ((const struct nlmsgerr *)NLMSG_DATA(head))->error;
            if (head->nlmsg_type == RTM_NEWLINK && on_link)
                on_link(head, ctx);
        }
    }
}

int rtnl_open(void)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    struct timeval patience = {.tv_sec = 10};

    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    return fd;
}

int rtnl_open_in(const char *netns_path)
{
    VT_AUTO_CLOSE int here = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    VT_AUTO_CLOSE int there = open(netns_path, O_RDONLY | O_CLOEXEC);

    if (there < 0 || here < 0)
        return -errno;
    if (setns(there, CLONE_NEWNET) < 0)
        return -errno;
    int fd = rtnl_open();
    if (setns(here, CLONE_NEWNET) < 0) {
        /* Never go on in a namespace that was only to be looked into. */
        int saved = errno;
        if (fd >= 0)
            close(fd);
        return -saved;
    }
    return fd;
}

static void read_info(const struct rtattr *info, struct rtnl_link *link)
{
    int len = (int)RTA_PAYLOAD(info);

    for (const struct rtattr *attr = RTA_DATA(info); RTA_OK(attr, len); attr = RTA_NEXT(attr, len))
        if (attr->rta_type == IFLA_INFO_KIND) {
            size_t size = RTA_PAYLOAD(attr) < sizeof(link->kind) - 1 ? RTA_PAYLOAD(attr)
                                                                     : sizeof(link->kind) - 1;
            memcpy(link->kind, RTA_DATA(attr), size);
        }
}

static void read_link(const struct nlmsghdr *head, void *ctx)
{
    struct rtnl_link *link = ctx;
    const struct ifinfomsg *info = NLMSG_DATA(head);
    int len = (int)IFLA_PAYLOAD(head);

    link->index = info->ifi_index;
    link->flags = info->ifi_flags;
    for (const struct rtattr *attr = IFLA_RTA(info); RTA_OK(attr, len);
         attr = RTA_NEXT(attr, len)) {
        if (attr->rta_type == IFLA_MASTER && RTA_PAYLOAD(attr) >= sizeof(link->master))
            memcpy(&link->master, RTA_DATA(attr), sizeof(link->master));
        if (attr->rta_type == IFLA_ADDRESS && RTA_PAYLOAD(attr) == sizeof(link->mac))
            memcpy(link->mac, RTA_DATA(attr), sizeof(link->mac));
        if (attr->rta_type == IFLA_LINKINFO)
            read_info(attr, link);
    }
}

static int begin_named(struct request *request, uint16_t type, uint16_t flags, const char *name)
{
    size_t len = strlen(name);

    if (len == 0 || len >= IFNAMSIZ)
        return -ENAMETOOLONG;
    begin(request, type, flags);
    extend(request, sizeof(struct ifinfomsg));
    attribute(request, IFLA_IFNAME, name, len + 1);
    return 0;
}

int rtnl_get(int fd, const char *name, struct rtnl_link *ret)
{
    struct request request;
    struct rtnl_link link = {0};
    int code = begin_named(&request, RTM_GETLINK, 0, name);

    if (code == 0)
        code = talk(fd, &request, read_link, &link);
    if (code < 0)
        return code;
    *ret = link;
    return link.index ? 0 : -ENODEV;
}

int rtnl_add_bridge(int fd, const char *name, const uint8_t mac[6])
{
    const uint32_t none = 0;
    const uint8_t off = 0;
    struct request request;
    int code = begin_named(&request, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, name);

    if (code < 0)
        return code;
    attribute(&request, IFLA_ADDRESS, mac, 6);
    struct rtattr *info = nest(&request, IFLA_LINKINFO);
    attribute(&request, IFLA_INFO_KIND, "bridge", strlen("bridge"));
    struct rtattr *data = nest(&request, IFLA_INFO_DATA);
    attribute(&request, IFLA_BR_STP_STATE, &none, sizeof(none));
    attribute(&request, IFLA_BR_FORWARD_DELAY, &none, sizeof(none));
    attribute(&request, IFLA_BR_MCAST_SNOOPING, &off, sizeof(off));
    unnest(&request, data);
    unnest(&request, info);
    return talk(fd, &request, NULL, NULL);
}

int rtnl_delete(int fd, int index)
{
    struct request request;

    begin(&request, RTM_DELLINK, 0);
    struct ifinfomsg *info = extend(&request, sizeof(*info));
    info->ifi_index = index;
    return talk(fd, &request, NULL, NULL);
}

int rtnl_set_up(int fd, int index, int master)
{
    struct request request;

    begin(&request, RTM_NEWLINK, 0);
    struct ifinfomsg *info = extend(&request, sizeof(*info));
    info->ifi_index = index;
    info->ifi_flags = info->ifi_change = IFF_UP;
    if (master)
        attribute(&request, IFLA_MASTER, &master, sizeof(master));
    return talk(fd, &request, NULL, NULL);
}

int rtnl_add_address(int fd, int index, uint32_t ipv4_be, unsigned prefix)
{
    struct request request;

    begin(&request, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL);
    struct ifaddrmsg *address = extend(&request, sizeof(*address));
    address->ifa_family = AF_INET;
    address->ifa_prefixlen = (uint8_t)prefix;
    address->ifa_scope = RT_SCOPE_UNIVERSE;
    address->ifa_index = (unsigned)index;
    uint32_t broadcast = ipv4_be | (prefix < 32 ? htonl(UINT32_MAX >> prefix) : 0);
    attribute(&request, IFA_LOCAL, &ipv4_be, sizeof(ipv4_be));
    attribute(&request, IFA_ADDRESS, &ipv4_be, sizeof(ipv4_be));
    attribute(&request, IFA_BROADCAST, &broadcast, sizeof(broadcast));
    return talk(fd, &request, NULL, NULL);
}
