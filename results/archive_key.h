/* SPDX-License-Identifier: Apache-2.0 */
/* archive_key: what archive.h hides of a signing key. */
#ifndef VTILE_RESULTS_ARCHIVE_KEY_H
#define VTILE_RESULTS_ARCHIVE_KEY_H

#include "base/cert.h"
#include "results/archive.h"

struct archive_key {
    struct vt_identity identity;
    char fingerprint[ARCHIVE_FINGERPRINT_TEXT];
};

#endif
