/* SPDX-License-Identifier: Apache-2.0 */
/*
 * goods: what the app role's driver, its PHP and the database agree on: requests, answers, and the
 * formulas of names and prices by which an answer is checked. The application is vtile's own: a
 * supply chain in which customers order items from stock and work orders fill it up again.
 *
 * Requests: GET  /browse?r=<sequence>&n=<argument>
 *           POST /purchase /manage /workorder ?r=<sequence>&n=<argument>, with a form:
 *             purchase   customer=<draw>&lines=<item>x<quantity>[,...]
 *             manage     customer=<draw>
 *             workorder  item=<item>&quantity=<quantity>
 *
 * A right answer has status 200 and is text; numbers are decimal without leading zeros, money is in
 * cents. Between its first and its last line stand
 *
 *   vtile <tile> <operation> <argument> <sequence>
 *     browse     ten of   item <item> <price> <stock> <name>      from argument on, in a circle
 *     purchase   order <number> customer <c> of <customers> total <cents>
 *                or       refused <item> <stock>                  less there than was asked for
 *     manage     customer <c> of <customers> balance <cents>
 *                up to ten  order <number> <open|shipped> <total>  from the newest on
 *                shipped <number>                                 0: none waited
 *     workorder  work <number> item <item> quantity <quantity> stock <stock>
 *   end <CRC-32 of all bytes before this line, eight hexadecimal digits>
 */
#ifndef VTILE_TILES_ROLES_APP_GOODS_H
#define VTILE_TILES_ROLES_APP_GOODS_H

#include <stddef.h>
#include <stdint.h>

enum app_operation { APP_BROWSE, APP_PURCHASE, APP_MANAGE, APP_WORKORDER, APP_OPERATIONS };

#define APP_PORT 80
#define APP_ITEMS 1000U
#define APP_SUPPLIERS 50U
#define APP_CUSTOMERS_MAX 65536U /* a draw has 16 bits */
#define APP_LINES_MAX 5
#define APP_PAGE_ITEMS 10
#define APP_NAME_MAX 32
#define APP_BODY_MAX 4096 /* of an answer; ten orders of the longest take 600 */

extern const char *const app_operation_names[APP_OPERATIONS];

/* What an argument stands for: its upper half is the customer, the whole seeds the goods. */
struct app_line {
    uint32_t item, quantity;
};
struct app_purchase {
    struct app_line lines[APP_LINES_MAX];
    unsigned nlines;
};
uint32_t app_customer_draw(uint32_t argument);
/* One to five different items, one to three of each: six on average. */
void app_purchase(uint32_t argument, struct app_purchase *ret);
/* 1 to 23, twelve on average. */
struct app_line app_work(uint32_t argument);

/* item: 1 .. APP_ITEMS. */
uint64_t app_price(unsigned tile, uint32_t item);
void app_name(unsigned tile, uint32_t item, char name[APP_NAME_MAX]);

#endif
