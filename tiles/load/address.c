/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/load/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>

int load_parse_address(const struct driver_target *target, struct sockaddr_storage *ret,
                       struct vt_error *err)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)ret;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret;

    if (inet_pton(AF_INET, target->address, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(target->port);
    } else if (inet_pton(AF_INET6, target->address, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(target->port);
    } else {
        return vt_error_set(err, VT_KIND_CONFIG, -EINVAL, "'%s' is not an IP address",
                            target->address);
    }
    return 0;
}
