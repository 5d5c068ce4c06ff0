/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/roles/app/goods.h"

#include <stdbool.h>
#include <stdio.h>

#include "base/rng.h"

const char *const app_operation_names[APP_OPERATIONS] = {
    "browse",
    "purchase",
    "manage",
    "workorder",
};

uint32_t app_customer_draw(uint32_t argument)
{
    return argument >> 16;
}

static bool has(const struct app_purchase *purchase, uint32_t item)
{
    for (unsigned i = 0; i < purchase->nlines; i++)
        if (purchase->lines[i].item == item)
            return true;
    return false;
}

void app_purchase(uint32_t argument, struct app_purchase *ret)
{
    struct vt_rng rng;
    unsigned n;

    vt_rng_seed(&rng, argument, "app/purchase", 0);
    n = 1 + (unsigned)vt_rng_below(&rng, APP_LINES_MAX);
    for (ret->nlines = 0; ret->nlines < n; ret->nlines++) {
        uint32_t item = 1 + (uint32_t)vt_rng_below(&rng, APP_ITEMS);

        while (has(ret, item))
            item = item % APP_ITEMS + 1;
        ret->lines[ret->nlines] = (struct app_line){item, 1 + (uint32_t)vt_rng_below(&rng, 3)};
    }
}

struct app_line app_work(uint32_t argument)
{
    struct app_line line;
    struct vt_rng rng;

    vt_rng_seed(&rng, argument, "app/work", 0);
    line.item = 1 + (uint32_t)vt_rng_below(&rng, APP_ITEMS);
    line.quantity = 1 + (uint32_t)vt_rng_below(&rng, 23);
    return line;
}

uint64_t app_price(unsigned tile, uint32_t item)
{
    return 100 + ((uint64_t)item * 7919 + (uint64_t)tile * 104729) % 99900;
}

void app_name(unsigned tile, uint32_t item, char name[APP_NAME_MAX])
{
    uint64_t x = (uint64_t)item * 2654435761 + (uint64_t)tile * 40503;

    snprintf(name, APP_NAME_MAX, "part-%04u-%08x%08x", item % 10000, (uint32_t)(x + 2246822519),
             (uint32_t)(x + UINT64_C(4493645038)));
}
