/* SPDX-License-Identifier: Apache-2.0 */
/* tls: whom `vtile load` trusts. */
#ifndef VTILE_ORCHESTRATOR_LOAD_TLS_H
#define VTILE_ORCHESTRATOR_LOAD_TLS_H

#include <openssl/ssl.h>

#include "orchestrator/load/options.h"

/* For a client, TLS 1.3 as base/link.h has it, no session used again. SSL_CTX_free by the caller.
 */
int load_tls_make(const struct load_options *options, SSL_CTX **ret, struct vt_error *err);

#endif
