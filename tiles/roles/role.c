/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/roles/role.h"

#include <stddef.h>
#include <string.h>

#include "tiles/roles/registry.h"

static const struct role *const roles[] = {
    &role_infra, &role_web,     &role_app,       &role_database,  &role_mail,
    &role_batch, &role_storage, &role_netserver, &role_netclient, NULL};

const struct role *const *role_all(void)
{
    return roles;
}

const struct role *role_find(const char *name)
{
    for (const struct role *const *r = roles; *r; r++)
        if (!strcmp((*r)->name, name))
            return *r;
    return NULL;
}

const char *const *role_operations(const struct role *role, unsigned *ret_n)
{
    *ret_n = role->driver ? role->driver->noperations : role->noperations;
    return role->driver ? role->driver->operations : role->operations;
}

const char *role_peer_address(const struct role_guest *guest, const char *role)
{
    for (unsigned i = 0; i < guest->npeers; i++)
        if (!strcmp(guest->peers[i].role, role))
            return guest->peers[i].address;
    return NULL;
}
