/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/roles/registry.h"

static const char *const peers[] = {NULL};

const struct role role_mail = {
    .name = "mail",
    .short_name = "mail",
    .help = "mailboxes of many people over IMAP and TLS: dovecot",
    .peers = peers,
    .guest = &role_mail_guest,
    .driver = &mail_driver,
    .keeps = true,
};
