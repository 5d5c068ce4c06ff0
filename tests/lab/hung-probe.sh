#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Stops an emulator that the embedded driver is asking for its capabilities: the host must open
# nevertheless, and no emulator may be left.
set -euo pipefail
# shellcheck source=tests/system/wait-until.sh
. "$(dirname "$0")/../system/wait-until.sh"

vtile=${VTILE_BUILD:?}/vtile
work=$(mktemp -d /tmp/vp.XXXXXX)
unset "${!VTILE_@}"
export VTILE_STATE=$work/s VTILE_RUNTIME=$work/r VTILE_CACHE=$work/c
trap 'rm -rf "$work"' EXIT

die() {
    echo "hung-probe.sh: $*" >&2
    exit 1
}
probe() {
    stopped=$(pgrep -f -- "-qmp unix:$VTILE_STATE/embed/lib/qemu/qmp-" | head -n 1)
    [ -n "$stopped" ]
}

"$vtile" host show --host embed >"$work/out" 2>&1 &
vtile_pid=$!
wait_until 30 probe || die "no emulator was asked"
kill -STOP "$stopped"
wait "$vtile_pid" || die "the host did not open: $(cat "$work/out")"
grep -q '^accel:' "$work/out" || die "the host told nothing: $(cat "$work/out")"
[ ! -e "/proc/$stopped" ] || ! grep -q qemu "/proc/$stopped/cmdline" || die "the emulator $stopped is left"
echo "an emulator that hung was ended, the host opened after ${SECONDS} s"
