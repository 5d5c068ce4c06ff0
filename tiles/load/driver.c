/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/load/driver.h"

#define MILLION 1000000

int64_t driver_draw_gap_ns(struct vt_rng *rng, const struct spec_load *load)
{
    int64_t think_ns;

    if (vt_rng_below(rng, MILLION) >= (uint64_t)load->think_share)
        return load->expected_ns;
    think_ns = vt_rng_exp_ns(rng, load->think_mean_ns);
    return load->expected_ns + (think_ns < load->think_max_ns ? think_ns : load->think_max_ns);
}
