/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xml: a neutral domain as libvirt's XML, and our mark read back from it. The mark is
 * <vtile:run xmlns:vtile="https://vtile.dev/ns/1" run= controller= tile= role=/> in <metadata>:
 * only domains that carry it, or that a journal names, are ever removed.
 */
#ifndef VTILE_ORCHESTRATOR_HOST_XML_H
#define VTILE_ORCHESTRATOR_HOST_XML_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/domain.h"
#include "base/error.h"

#define XML_NAMESPACE "https://vtile.dev/ns/1"
#define XML_DOMAIN_MAX (64 * 1024)     /* what we write */
#define XML_MACHINE "q35"              /* what QEMU's VMs get */
#define XML_READ_MAX (4 * 1024 * 1024) /* what we read from a host */

struct xml_mark {
    char run[33], controller[33];
    unsigned tile;
    char role[16];
};

/* What a definition takes from its host. */
struct xml_host {
    const char *emulator; /* absolute path, "" or NULL: libvirt's choice */
    /* Whom a daemon runs emulators as. Named, it changes no file's owner: what an emulator is to
     * read must be readable for that user. */
    bool user_known;
    uid_t user;
    gid_t group;
};

/* host NULL: as zeroes. Checked: names, lengths, counts, what XML
 * cannot hold. *ret_xml is the caller's (free). Same input, same bytes. */
int xml_write_domain(const struct vt_domain *domain, const struct xml_host *host, char **ret_xml,
                     struct vt_error *err);

/* 1 and *ret filled when the document carries our mark, 0 when not, negative when it is no XML.
 * Takes a domain, a driver's status file (<domstatus>), or the mark alone as virDomainGetMetadata
 * gives it for our namespace, which it drops. */
int xml_read_mark(const char *xml, struct xml_mark *ret, struct vt_error *err);

#endif
