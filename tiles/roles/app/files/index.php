<?php
// SPDX-License-Identifier: Apache-2.0
// Front of the application: finds the operation, runs it, answers. What answers look like stands in
// tiles/roles/app/goods.h.
require __DIR__ . '/request.php';
require __DIR__ . '/database.php';
require __DIR__ . '/operations.php';

const METHODS = ['browse' => 'GET', 'purchase' => 'POST', 'manage' => 'POST', 'workorder' => 'POST'];

function answer(int $status, string $text): void
{
    http_response_code($status);
    header('Content-Type: text/plain; charset=utf-8');
    header('Content-Length: ' . strlen($text));
    echo $text;
}

try {
    $operation = ltrim($_SERVER['SCRIPT_NAME'], '/');
    if (!isset(METHODS[$operation])) {
        throw new Refusal(404, 'no such operation');
    }
    if ($_SERVER['REQUEST_METHOD'] !== METHODS[$operation]) {
        throw new Refusal(405, 'another method is wanted');
    }
    $sequence = number($_GET, 'r', 0, 4294967295);
    $argument = number($_GET, 'n', 0, 4294967295);
    $text = 'vtile ' . getenv('VTILE_TILE') . " $operation $argument $sequence\n"
        . $operation($sequence, $argument);
    answer(200, $text . sprintf("end %08x\n", crc32($text)));
} catch (Refusal $refusal) {
    if ($refusal->status === 500) {
        error_log($refusal->getMessage());
    }
    answer($refusal->status, $refusal->getMessage() . "\n");
}
