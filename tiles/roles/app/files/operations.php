<?php
// SPDX-License-Identifier: Apache-2.0
// The four operations. Each is one call of a function of the same name in the database, which is a
// transaction of its own: what an answer says is committed before it is sent.

function browse(int $sequence, int $argument): string
{
    $text = '';
    foreach (call('SELECT * FROM browse($1)', [$argument]) as $item) {
        $text .= "item {$item['item']} {$item['price']} {$item['stock']} {$item['name']}\n";
    }
    return $text;
}

function purchase(int $sequence, int $argument): string
{
    $customer = number($_POST, 'customer', 0, 65535);
    $lines = order_lines($_POST, 'lines');
    [$order] = call(
        'SELECT * FROM purchase($1, $2, $3, $4)',
        [
            $sequence,
            $customer,
            '{' . implode(',', array_keys($lines)) . '}',
            '{' . implode(',', $lines) . '}',
        ],
    );
    if ($order['refused'] !== null) {
        return "refused {$order['refused']} {$order['stock']}\n";
    }
    return "order {$order['number']} customer {$order['customer']} of {$order['customers']}"
        . " total {$order['total']}\n";
}

function manage(int $sequence, int $argument): string
{
    $customer = number($_POST, 'customer', 0, 65535);
    $rows = call('SELECT * FROM manage($1, $2)', [$sequence, $customer]);
    $text = "customer {$rows[0]['customer']} of {$rows[0]['customers']}"
        . " balance {$rows[0]['balance']}\n";
    foreach ($rows as $order) {
        if ($order['number'] !== null) {
            $state = $order['shipped'] === 't' ? 'shipped' : 'open';
            $text .= "order {$order['number']} $state {$order['total']}\n";
        }
    }
    return $text . 'shipped ' . ($rows[0]['just_shipped'] ?? '0') . "\n";
}

function workorder(int $sequence, int $argument): string
{
    $item = number($_POST, 'item', 1, 1000000);
    $quantity = number($_POST, 'quantity', 1, 1000);
    [$work] = call('SELECT * FROM work_order($1, $2, $3)', [$sequence, $item, $quantity]);
    return "work {$work['number']} item $item quantity $quantity stock {$work['stock']}\n";
}
