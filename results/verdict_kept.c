/* SPDX-License-Identifier: Apache-2.0 */
/* Acknowledged means kept; and what guests found wrong with their contents after the window. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "results/verdict_rules.h"

#define CHECK "check." /* an agent's facts: check.<agent>.<name> */
#define WRONG ".wrong."

/* "first 3, 17, 4711", of what is missing. */
static void name_first(const struct kept_counts *counts, char *text, size_t size)
{
    size_t at = 0;

    text[0] = '\0';
    for (unsigned i = 0; i < counts->nfirst && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s %" PRIu32, i ? "," : "", counts->first[i]);
}

int verdict_add_kept(struct verdict *verdict, const struct kept *kept, struct vt_error *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < kept->nroles; i++) {
        const struct kept_role *role = &kept->roles[i];
        char first[96];

        if (role->unknown) {
            r = verdict_add(verdict, VERDICT_INVALID, "kept-unknown",
                            (int64_t)role->counts.acknowledged, err,
                            "tile %u, %s: whether %" PRIu64 " acknowledged steps are kept is not "
                            "known: %s",
                            role->tile, role->role, role->counts.acknowledged, role->unknown);
        } else if (role->counts.missing > 0) {
            name_first(&role->counts, first, sizeof(first));
            r = verdict_add(verdict, VERDICT_INVALID, "lost-acknowledged",
                            (int64_t)role->counts.missing, err,
                            "tile %u, %s: %" PRIu64 " of %" PRIu64 " acknowledged steps are not "
                            "there any more:%s%s",
                            role->tile, role->role, role->counts.missing, role->counts.acknowledged,
                            first, role->counts.missing > role->counts.nfirst ? ", ..." : "");
        }
    }
    return r;
}

int verdict_add_wrong_fact(struct verdict *verdict, const char *key, const char *value,
                           struct vt_error *err)
{
    const char *wrong;
    int64_t number;

    if (strncmp(key, CHECK, strlen(CHECK)) != 0)
        return 0;
    wrong = strstr(key + strlen(CHECK), WRONG);
    if (!wrong || strcmp(value, "0") == 0)
        return 0;
    if (vt_text_parse_int(value, INT64_MIN, INT64_MAX, &number, NULL) < 0)
        number = 1; /* no count: wrong all the same */
    return verdict_add(
        verdict, VERDICT_INVALID, "wrong-contents", number, err, "%.*s: %s is %.40s, it must be 0",
        (int)(wrong - key - (ptrdiff_t)strlen(CHECK)), key + strlen(CHECK), wrong + 1, value);
}
