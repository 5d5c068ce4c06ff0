<?php
// SPDX-License-Identifier: Apache-2.0
// What comes from outside is a number within bounds, or the request is refused.

final class Refusal extends Exception
{
    public function __construct(public readonly int $status, string $message)
    {
        parent::__construct($message);
    }
}

function whole_number(string $text, int $min, int $max): ?int
{
    if (strlen($text) > 10 || !ctype_digit($text)) {
        return null;
    }
    $value = (int) $text;
    return $value < $min || $value > $max ? null : $value;
}

function number(array $from, string $name, int $min, int $max): int
{
    $text = $from[$name] ?? '';
    $value = is_string($text) ? whole_number($text, $min, $max) : null;
    if ($value === null) {
        throw new Refusal(400, "$name: a number from $min to $max is wanted");
    }
    return $value;
}

// "17x2,3x1": items and how many of each; no item twice.
function order_lines(array $from, string $name): array
{
    $text = $from[$name] ?? '';
    $lines = [];
    if (!is_string($text) || strlen($text) > 100) {
        throw new Refusal(400, "$name: one to five lines are wanted");
    }
    foreach (explode(',', $text) as $line) {
        $parts = explode('x', $line);
        $item = whole_number($parts[0], 1, 1000000);
        $quantity = whole_number($parts[1] ?? '', 1, 100);
        if (count($parts) !== 2 || $item === null || $quantity === null || isset($lines[$item])) {
            throw new Refusal(400, "$name: lines like 17x2 are wanted");
        }
        $lines[$item] = $quantity;
    }
    if (count($lines) > 5) {
        throw new Refusal(400, "$name: five lines at most");
    }
    return $lines;
}
