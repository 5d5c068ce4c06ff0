#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# needs: vm
# timeout: 900
# Six VMs, the tile that a run without options has: every role answers, nothing that was acknowledged is
# missing, stock and orders add up, and the verdict knows no reasons but those of an emulated run on one
# machine.
set -euo pipefail
source "$(dirname "$0")/run-case.sh"

"$vtile" run --json --host embed --seed 55 >"$work/events" 2>"$work/err" &
pid=$!
code=0
wait "$pid" || code=$?
pid=
# Emulated and beside other work, QoS may fail or stay undecided; the run itself must not.
case $code in 0 | 1 | 3) ;; *) die "exit code $code" ;; esac
result=$(tail -n 1 "$work/events")
check() {
    jq -e "$1" <<<"$result" >/dev/null || die "$2: $result"
}
check '[.reasons[].code] - ["emulated-cpu", "no-stable-storage", "client-on-host", "generator-late"] == []' "reasons"
check '.tiles | length == 1' "tiles"
for role in web app mail batch; do
    check ".tiles[0].$role.rate > 0" "$role was not driven"
done
check '[.kept[] | select(.missing == 0 and .acknowledged > 0) | .role] | sort == ["app", "mail"]' "kept"

archive=$(jq -r .archive <<<"$result")
"$vtile" results verify "$archive" >/dev/null || die "verify"
[ -s "${archive%.vtar}.html" ] || die "no report beside the archive"
mkdir "$work/x"
tar -xf "$archive" -C "$work/x"
(cd "$work/x" && cat record.sqlite.zst.* | zstd -dq >record.sqlite)
query() {
    sqlite3 "$work/x/record.sqlite" "$1"
}
wrong=$(query "SELECT key || '=' || value FROM meta WHERE key LIKE 'check.%.wrong.%' AND value <> '0'")
[ -z "$wrong" ] || die "$wrong"
[ "$(query "SELECT count(*) FROM meta WHERE key LIKE 'check.database-1.wrong.%'")" -ge 6 ] ||
    die "the database was not checked"
# Every VM was polled and sampled each second of the window.
for role in infra web app database mail batch; do
    n=$(query "SELECT count(*) FROM sample JOIN series ON series.id = sample.series
        WHERE series.source = '$role-1' AND series.phase = 'measure' AND series.name = 'poll.rtt_s'")
    [ "$n" -ge 55 ] || die "$role-1 was polled $n times"
done
nothing_left
jq -c '{score, qos, verdict, kept}' <<<"$result"
