#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Acknowledged means kept: the whole tile with mail and database on data disks; their QEMUs are killed -9
# in the measure phase and started again by the run. Nothing that was acknowledged may be missing, stock
# and orders must add up, and the run is INVALID for the restarts alone.
set -euo pipefail
source "$(dirname "$0")/../system/run-case.sh"
sed -e '/^  database:/,/^  app:/s/^\( *tcg: .*\)}/\1, storage: disk, disk: 1 GiB}/' \
    -e '/^  mail:/,/^  batch:/s/^\( *tcg: .*\)}/\1, storage: disk, disk: 1 GiB}/' \
    "$VTILE_SOURCE/tiles/spec/specs/specvirt.yaml" >"$work/disks.yaml"
[ "$(grep -c 'tcg: .*storage: disk' "$work/disks.yaml")" -eq 2 ] || die "the spec has not two data disks"

"$vtile" run --host embed --spec "$work/disks.yaml" --seed 9 --json >"$work/events" 2>"$work/err" &
pid=$!
# Twenty seconds of load first, so that there is something to lose.
under_way() {
    run_ended || [ "$(grep -c '"role":"mail".*"second":30,' "$work/events")" -gt 0 ]
}
wait_until 600 under_way || die "no measurement began"
run_ended && die "it ended before its time"
for vm in mail db; do
    kill -9 "$(pgrep -f "guest=$(mark)-001-$vm")" || die "no QEMU of $vm"
done
ends 3 "a run with restarted VMs"
nothing_left
result=$(tail -n 1 "$work/events")
jq -c '{verdict, reasons: [.reasons[] | [.code, .grade, .number, .text]], kept, score}' <<<"$result"
jq -e '[.reasons[] | select(.grade == "INVALID") | .code] | unique == ["vm-restarted"]' <<<"$result" >/dev/null ||
    die "other reasons"
jq -e '[.kept[] | select(.missing == 0 and .acknowledged > 0) | .role] | sort == ["app", "mail"]' \
    <<<"$result" >/dev/null || die "something that was acknowledged is missing"
for vm in mail-1 database-1; do
    grep -q "$vm serves again" "$work/events" || die "$vm did not come back"
done
"$vtile" results show "$(jq -r .archive <<<"$result")" >"$work/shown"
grep -E 'check\.database-1\.wrong\.' "$work/shown" >"$work/facts" || die "the database was not checked"
! grep -vE '[ =]0$' "$work/facts" || die "it does not add up"
echo "killed twice, nothing lost"
