#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# needs: vm
# timeout: 400
# A run in the background is followed from other terminals: each gets what it asked for and the run's exit code;
# one that is killed leaves the run alone; Ctrl-C in `vtile attach` asks, and can end the run in order.
set -euo pipefail
source "$(dirname "$0")/run-case.sh"

# A detached run is no child of this shell: the lock names it.
holder() {
    cut -d ' ' -f 1 "$VTILE_STATE/embed/vtile.lock" 2>/dev/null
}
held() {
    local pid
    pid=$(holder) && kill -0 "$pid" 2>/dev/null
}
gone() {
    ! held
}
end_all() {
    held && kill -INT "$(holder)" && wait_until 120 gone || true
    clean_up
}
trap end_all EXIT

# start: a run in the background; $run is its id.
start() {
    local code=0
    "$vtile" run --detach --json --host embed --spec origin >"$work/events" 2>"$work/err" || code=$?
    [ "$code" -eq 0 ] || die "run --detach: exit code $code"
    run=$(tail -n 1 "$work/events" | jq -er 'select(.type == "detached") | .run') || die "no run detached"
    held || die "the run does not hold the host"
}

"$vtile" watch >"$work/out" 2>&1 && die "a run is followed where there is none"
grep -q 'no run goes on here' "$work/out" || die "nothing said: $(cat "$work/out")"

start
"$vtile" watch >"$work/plain" 2>&1 &
watcher=$!
"$vtile" watch >/dev/null 2>&1 &
victim=$!
"$vtile" attach --json "${run:0:6}" >"$work/attached" 2>"$work/err" &
pid=$!
attached() { grep -q '"type":"phase"' "$work/attached"; }
wait_until 60 attached || die "attach shows nothing"
kill -9 "$victim"
code=0
"$vtile" run --host embed --spec web >"$work/second" 2>&1 || code=$?
[ "$code" -eq 2 ] || die "a second run: exit code $code"
grep -q "run $run .*vtile watch" "$work/second" || die "a second run does not say whom to watch: $(cat "$work/second")"

# Nobody drives that spec, so its QoS is undecided: 3.
ends 3 attach
tail -n 1 "$work/attached" | jq -e --arg run "$run" '.type == "result" and .run == $run' >/dev/null ||
    die "attach --json does not end with the result"
wait "$watcher" || die "watch: exit code $?"
grep -q '^archive: ' "$work/plain" || die "watch does not show the end: $(cat "$work/plain")"
wait_until 10 gone || die "the run does not end"
"$vtile" results verify "$run" || die "verify"
grep -q '"type":"result"' "$VTILE_STATE/results/$run.log" || die "the log has no result"
nothing_left

start
code=$(python3 "$(dirname "$0")/attach.py" "$vtile" "$run" s) || die "attach on a terminal: $code"
[ "$code" -eq 130 ] || die "attach ends with $code, not with the run's 130"
wait_until 10 gone || die "the interrupted run does not end"
"$vtile" results verify "$run" || die "verify of the interrupted run"
nothing_left

# Stopped at once: there is no archive, and that is said.
start
code=$(python3 "$(dirname "$0")/attach.py" "$vtile" "$run" n) || die "attach, stop now: $code"
[ "$code" -eq 130 ] || die "attach, stop now: exit code $code"
wait_until 10 gone || die "the run that was stopped at once does not end"
[ ! -e "$VTILE_STATE/results/$run.vtar" ] || die "a run that was stopped at once has an archive"
nothing_left

# Killed: who follows it is told what is left to do, and so does `vtile clean`.
start
"$vtile" watch >"$work/plain" 2>&1 &
watcher=$!
named() { grep -q "run $run: spec origin, 1 tile, load 1, preset [a-z]*; in [a-z-]*" "$work/plain"; }
wait_until 60 named || die "watch does not name the run: $(cat "$work/plain")"
kill -9 "$(holder)"
code=0
wait "$watcher" || code=$?
[ "$code" -eq 4 ] || die "watch of a killed run: exit code $code"
grep -q "run $run was killed and has no archive; .vtile clean. " "$work/plain" ||
    die "watch does not say what to do: $(tail -n 3 "$work/plain")"
"$vtile" clean >"$work/out" || die "clean after a kill: exit code $?"
grep -qF "kept $VTILE_STATE/results/$run.log: " "$work/out" || die "clean does not say that it keeps the log"
[ -s "$VTILE_STATE/results/$run.log" ] || die "the log is gone"
nothing_left
