#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# needs: vm
# timeout: 600
# Ctrl-C in the middle of the measurement ends in order: what was seen is sealed as INVALID, nothing is left
# behind, exit code 130.
set -euo pipefail
source "$(dirname "$0")/run-case.sh"

measured() {
    grep -q '"phase":"measure"' "$work/events" && [ "$(grep -c '"type":"load"' "$work/events")" -gt 60 ] || run_ended
}

"$vtile" run --json --host embed --spec web --seed 7 >"$work/events" 2>&1 &
pid=$!
wait_until 400 measured || die "nothing measured"
kill -INT "$pid"
ends 130
python3 - "$work/events" <<'PY' || die "result line"
import json, sys
last = json.loads(open(sys.argv[1]).readlines()[-1])
assert last["type"] == "result" and last["verdict"] == "INVALID", last
assert "interrupted" in {r["code"] for r in last["reasons"]}, last
PY
"$vtile" results verify "$(ls "$VTILE_STATE"/results/*.vtar)" || die "verify"
nothing_left

# Before the host has answered; by a terminal that goes away; and twice at once, as `timeout` does it, which
# is once. The archive is there in all.
opening() { grep -q '"phase":"open"' "$work/events" || run_ended; }
for signal in INT HUP INT+TERM; do
    : >"$work/events" # the last run's would be taken for this one's
    "$vtile" run --json --host embed --spec origin >"$work/events" 2>&1 &
    pid=$!
    wait_until 60 opening || die "$signal: the host is not opened"
    kill "-${signal%+*}" "$pid"
    [ "$signal" = "${signal#*+}" ] || kill "-${signal#*+}" "$pid"
    ends 130 "$signal while the host is opened"
    archive=$(tail -n 1 "$work/events" | jq -er .archive) || die "$signal: no archive"
    "$vtile" results verify "$archive" || die "$signal: verify"
    [ "$("$vtile" clean)" = "nothing to do" ] || die "$signal: something is left"
done

# A closed standard output gives its number to no file; that nothing can be said is a failure.
code=0
"$vtile" results list >&- 2>"$work/events" || code=$?
[ "$code" -eq 4 ] || die "closed standard output: exit code $code, not 4"
code=0
"$vtile" results list >/dev/full 2>"$work/events" || code=$?
[ "$code" -eq 4 ] || die "full standard output: exit code $code, not 4"
