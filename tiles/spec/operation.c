/* SPDX-License-Identifier: Apache-2.0 */
/* Apart from what reads a spec: the agent calls this, and a guest has no library for YAML. */
#include <string.h>

#include "tiles/spec/spec.h"

const struct spec_operation *spec_find_operation(const struct spec_load *load, const char *name)
{
    for (size_t i = 0; i < load->noperations; i++) {
        if (strcmp(load->operations[i].name, name) == 0)
            return &load->operations[i];
    }
    return NULL;
}
