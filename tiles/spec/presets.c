/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/scope.h"
#include "tiles/spec/spec.h"

#define S VT_NS_PER_S

/* standard has the length of the source's measurement: 7,200 s after ramp and warm-up. The drain
 * is longer than the longest limit of any operation, so that what is cut off had failed already.
 * A log of each request fits into an emulated guest's memory for a minute, not for two hours; and
 * writing it costs the server what should go to answers. */
static const struct spec_preset presets[] = {
    {.name = "smoke",
     .ramp_ns = 5 * S,
     .warm_ns = 5 * S,
     .measure_ns = 60 * S,
     .drain_ns = 15 * S,
     .log_requests = true},
    {.name = "turbo",
     .ramp_ns = 60 * S,
     .warm_ns = 60 * S,
     .measure_ns = 480 * S,
     .drain_ns = 30 * S,
     .limits_by_operation = true},
    {.name = "standard",
     .ramp_ns = 300 * S,
     .warm_ns = 600 * S,
     .measure_ns = 7200 * S,
     .drain_ns = 30 * S,
     .limits_by_operation = true},
};

const char *const spec_preset_names[] = {"smoke", "turbo", "standard", NULL};

_Static_assert(VT_COUNT(spec_preset_names) == VT_COUNT(presets) + 1 &&
                   VT_COUNT(presets) == SPEC_PRESETS,
               "a name each");

const struct spec_preset *spec_presets(size_t *ret_n)
{
    *ret_n = VT_COUNT(presets);
    return presets;
}
