/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry: what the roles' folders give to each other and to role_find(). Everybody else asks
 * role.h.
 */
#ifndef VTILE_TILES_ROLES_REGISTRY_H
#define VTILE_TILES_ROLES_REGISTRY_H

#include "tiles/load/driver.h"
#include "tiles/roles/role.h"

extern const struct role role_app, role_database;
extern const struct role_guest_ops role_app_guest, role_database_guest;
extern const struct driver app_driver, database_driver;
extern const struct role role_mail;
extern const struct role_guest_ops role_mail_guest;
extern const struct driver mail_driver;
extern const struct role role_batch, role_storage, role_netserver, role_netclient;
extern const struct role_guest_ops role_batch_guest, role_storage_guest, role_netserver_guest,
    role_netclient_guest;
extern const struct role role_infra, role_web;
extern const struct role_guest_ops role_infra_guest, role_web_guest;
extern const struct driver web_driver;

#endif
