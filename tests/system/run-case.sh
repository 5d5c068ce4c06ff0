# SPDX-License-Identifier: Apache-2.0
# Sourced by tests that make runs: an installation of their own in $work, cleaned at the end; output of the
# run goes to $work/events, its process is $pid.
source "$(dirname "${BASH_SOURCE[0]}")/wait-until.sh"

[ "$(id -u)" -eq 0 ] || { echo "needs root"; exit 77; }
vtile=$VTILE_BUILD/vtile
work=$(mktemp -d /tmp/vr.XXXXXX)
export VTILE_STATE=$work/s VTILE_RUNTIME=$work/r
pid=
clean_up() {
    [ -z "$pid" ] || kill -INT "$pid" 2>/dev/null || true
    [ -z "$pid" ] || wait "$pid" 2>/dev/null || true
    "$vtile" clean >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap clean_up EXIT
die() {
    echo "FAILED: $*"
    grep -hv '"type":"[sl]' "$work/events" "$work/err" 2>/dev/null | tail -n 20 || true
    exit 1
}
# What this run's own things are called, from the id that it prints first.
mark() {
    sed -n 's/.*"text":"run \([0-9a-f]\{6\}\).*/vt-\1/p' "$work/events" | head -n 1
}
run_ended() {
    ! kill -0 "$pid" 2>/dev/null
}
# ends CODE [WHAT]: waits for the run's end and for that exit code.
ends() {
    local code=0
    wait "$pid" || code=$?
    pid=
    [ "$code" -eq "$1" ] || die "${2:+$2: }exit code $code, not $1"
}
# Only what is this run's own: others may be at work on this machine.
nothing_left() {
    local mark left
    mark=$(mark)
    [ -n "$mark" ] || die "no run id"
    left=$(ip netns list | grep "^$mark" || true; find "$VTILE_RUNTIME" "$VTILE_STATE/journal" -mindepth 1
        ip -o link show | grep "$mark" || true; pgrep -f "guest=$mark" || true)
    [ -z "$left" ] || die "left behind: $left"
}

"$vtile" image build >/dev/null
