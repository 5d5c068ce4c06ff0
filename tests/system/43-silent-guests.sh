#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# needs: vm
# timeout: 300
# A VM that booted but cannot be heard is told apart from one that did not boot: its link is down,
# or (frames are dropped on the bridge, as Docker's firewall does) its link is up. Exit code 4, nothing left.
set -euo pipefail
source "$(dirname "$0")/run-case.sh"

has_tap() {
    ip -n "$(mark)" -o link show up 2>/dev/null | grep -q -- '-001'
}

has_carrier() {
    ip -n "$(mark)" -o link show up 2>/dev/null | grep -- '-001' | grep -q 'LOWER_UP'
}

# break_run WHEN COMMAND...: starts a run, and breaks its network as soon as WHEN holds.
break_run() {
    local when=$1
    shift
    "$vtile" run --json --spec origin --host embed --boot-timeout "25 s" >"$work/events" 2>&1 &
    pid=$!
    wait_until 60 "$when" || die "never $when"
    "$@" "$(mark)"
    ends 4
    nothing_left
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

break_run has_tap link_down
grep -q 'booted, but its link is down' "$work/events" || die "the link is not named"
break_run has_carrier frames_dropped
grep -q 'silent although their VMs booted and their links are up' "$work/events" || die "not told apart"
grep -q 'FORWARD policy of DROP' "$work/events" || die "the likely rule is not named"
