#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# needs: vm
# timeout: 300
# A VM that booted but cannot be heard is told apart from one that did not boot: its link is down,
# or (frames are dropped on the bridge, as Docker's firewall does) its link is up. Exit code 4, nothing left.
set -euo pipefail
source "$(dirname "$0")/wait-until.sh"

[ "$(id -u)" -eq 0 ] || { echo "needs root"; exit 77; }
vtile=$VTILE_BUILD/vtile
work=$(mktemp -d /tmp/vq.XXXXXX)
export VTILE_STATE=$work/s VTILE_RUNTIME=$work/r
trap '"$vtile" clean >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
die() {
    echo "FAILED: $*"
    grep -v '"type":"[sl]' "$work/out" | tail -n 20
    exit 1
}

# The run's own namespace, from the id that it prints first.
namespace() {
    sed -n 's/.*"text":"run \([0-9a-f]\{6\}\).*/vt-\1/p' "$work/out" | head -n 1
}
has_tap() {
    ip -n "$(namespace)" -o link show up 2>/dev/null | grep -q -- '-001'
}

has_carrier() {
    ip -n "$(namespace)" -o link show up 2>/dev/null | grep -- '-001' | grep -q 'LOWER_UP'
}

# break_run WHEN COMMAND...: starts a run, and breaks its network as soon as WHEN holds.
break_run() {
    local when=$1
    shift
    "$vtile" run --json --spec origin --host embed --boot-timeout "25 s" >"$work/out" 2>&1 &
    pid=$!
    wait_until 60 "$when" || die "never $when"
    "$@" "$(namespace)"
    code=0
    wait "$pid" || code=$?
    [ "$code" -eq 4 ] || die "exit code $code, not 4"
    [ -z "$(find "$VTILE_RUNTIME" "$VTILE_STATE/journal" -mindepth 1)" ] || die "left behind"
}

link_down() {
    ip -n "$1" link set "$(ip -n "$1" -o link show | sed -n 's/^[0-9]*: \(vt-[0-9a-f]*-001[a-z]*\):.*/\1/p')" down
}
# The tap keeps its link, but no frame of it reaches the bridge any more.
frames_dropped() {
    local tap
    tap=$(ip -n "$1" -o link show | sed -n 's/^[0-9]*: \(vt-[0-9a-f]*-001[a-z]*\):.*/\1/p')
    ip -n "$1" link set dev "$tap" nomaster
}

"$vtile" image build >/dev/null
break_run has_tap link_down
grep -q 'booted, but its link is down' "$work/out" || die "the link is not named"
break_run has_carrier frames_dropped
grep -q 'silent although their VMs booted and their links are up' "$work/out" || die "not told apart"
grep -q 'FORWARD policy of DROP' "$work/out" || die "the likely rule is not named"
