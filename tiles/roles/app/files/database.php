<?php
// SPDX-License-Identifier: Apache-2.0
// One kept connection a php-fpm process. A server that was restarted is noticed by the first call
// after it, which fails; the next one gets a new connection.

function connection(): PgSql\Connection
{
    $connection = @pg_pconnect(getenv('VTILE_DATABASE'));
    if ($connection === false) {
        throw new Refusal(503, 'the database cannot be reached');
    }
    return $connection;
}

// Rows of a call, as arrays of texts by column.
function call(string $query, array $parameters): array
{
    $connection = connection();
    $result = @pg_query_params($connection, $query, $parameters);
    if ($result !== false) {
        return pg_fetch_all($result);
    }
    $why = trim(pg_last_error($connection));
    if (pg_connection_status($connection) !== PGSQL_CONNECTION_OK) {
        throw new Refusal(503, "the database went away: $why");
    }
    throw new Refusal(500, "the database refused: $why");
}
