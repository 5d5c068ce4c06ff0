#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# needs: vm
# timeout: 600
# Ctrl-C in the middle of the measurement ends in order: what was seen is sealed as INVALID, nothing is left
# behind, exit code 130.
set -euo pipefail
source "$(dirname "$0")/wait-until.sh"

[ "$(id -u)" -eq 0 ] || { echo "needs root"; exit 77; }
vtile=$VTILE_BUILD/vtile
work=$(mktemp -d /tmp/vi.XXXXXX)
export VTILE_STATE=$work/s VTILE_RUNTIME=$work/r
trap '"$vtile" clean >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
die() {
    echo "FAILED: $*"
    grep -v '"type":"[sl]' "$work/events" | tail -n 20
    exit 1
}
measured() {
    grep -q '"phase":"measure"' "$work/events" && [ "$(grep -c '"type":"load"' "$work/events")" -gt 60 ] ||
        ! kill -0 "$pid" 2>/dev/null
}

"$vtile" image build >/dev/null
"$vtile" run --json --host embed --seed 7 >"$work/events" 2>&1 &
pid=$!
wait_until 400 measured || die "nothing measured"
kill -INT "$pid"
code=0
wait "$pid" || code=$?
[ "$code" -eq 130 ] || die "exit code $code, not 130"
python3 - "$work/events" <<'PY' || die "result line"
import json, sys
last = json.loads(open(sys.argv[1]).readlines()[-1])
assert last["type"] == "result" and last["verdict"] == "INVALID", last
assert "interrupted" in {r["code"] for r in last["reasons"]}, last
PY
"$vtile" results verify "$(ls "$VTILE_STATE"/results/*.vtar)" || die "verify"
# Only what is this run's own: others may be at work on this machine.
mark=$(sed -n 's/.*"text":"run \([0-9a-f]\{6\}\).*/vt-\1/p' "$work/events" | head -n 1)
[ -n "$mark" ] || die "no run id"
left=$(ip netns list | grep "^$mark" || true; find "$VTILE_RUNTIME" "$VTILE_STATE/journal" -mindepth 1
    ip -o link show | grep "$mark" || true; pgrep -f "guest=$mark" || true)
[ -z "$left" ] || die "left behind: $left"

# Before the host has answered; and by a terminal that goes away. The archive is there in both.
opening() { grep -q '"phase":"open"' "$work/events" || ! kill -0 "$pid" 2>/dev/null; }
for signal in INT HUP; do
    : >"$work/events" # the last run's would be taken for this one's
    "$vtile" run --json --host embed --spec origin >"$work/events" 2>&1 &
    pid=$!
    wait_until 60 opening || die "$signal: the host is not opened"
    kill "-$signal" "$pid"
    code=0
    wait "$pid" || code=$?
    [ "$code" -eq 130 ] || die "$signal while the host is opened: exit code $code, not 130"
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
