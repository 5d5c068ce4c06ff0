#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# needs: vm
# timeout: 900
# The app role and its database in two guests: the load is answered, stock and orders add up, nothing
# in the record says otherwise.
set -euo pipefail
source "$(dirname "$0")/run-case.sh"

"$vtile" run --json --host embed --seed 51 --spec "$(dirname "$0")/specs/app.yaml" \
    >"$work/events" 2>"$work/err" &
pid=$!
code=0
wait "$pid" || code=$?
pid=
# Emulated and beside other work, QoS may fail; the run itself must not.
[ "$code" -eq 0 ] || [ "$code" -eq 1 ] || die "exit code $code"

archive=$(tail -n 1 "$work/events" | jq -r .archive)
mkdir "$work/x"
tar -xf "$archive" -C "$work/x"
(cd "$work/x" && cat record.sqlite.zst.* | zstd -dq >record.sqlite)
fact() {
    sqlite3 "$work/x/record.sqlite" "SELECT value FROM meta WHERE key = 'check.database-1.$1'"
}
for what in stock_mismatch order_total customer_balance supplier_delivered shipment sequence_twice; do
    [ "$(fact "wrong.$what")" = 0 ] || die "$what: '$(fact "wrong.$what")'"
done
[ "$(fact past_orders)" = 10000 ] || die "past orders: $(fact past_orders)"
# A fifth of some 600 operations each; what was not answered may be there nevertheless.
[ "$(fact orders)" -ge 60 ] || die "orders: $(fact orders)"
good=$(tail -n 1 "$work/events" | jq '.tiles[0].app.good')
[ "$good" -ge 100 ] || die "$good good answers"
nothing_left
echo "app $good good, $(fact orders) orders, $(fact shipments) shipments, $(fact work_orders) work orders"
