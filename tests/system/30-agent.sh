#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# vtile-agent by its command line: what it says of itself, and what it refuses with which code.
set -euo pipefail

agent=$VTILE_BUILD/vtile-agent
work=$(mktemp -d /tmp/va.XXXXXX)
trap 'rm -rf "$work"' EXIT
die() {
    echo "FAILED: $*"
    exit 1
}

"$agent" --help >"$work/help"
for word in --guest --client --config --version; do
    grep -q -- "$word" "$work/help" || die "--help does not name $word"
done
"$agent" --version | grep -Eq '^vtile-agent [0-9]+\.[0-9]+\.[0-9]+ \(protocol [0-9]+\)$' ||
    die "--version: $("$agent" --version)"

# refused CODE TEXT ARGUMENT...: that exit code, TEXT on standard error, nothing on standard output.
refused() {
    local wanted=$1 text=$2 code=0
    shift 2
    timeout 20 "$agent" "$@" >"$work/out" 2>"$work/err" || code=$?
    [ "$code" -eq "$wanted" ] || die "$*: exit code $code: $(cat "$work/err")"
    grep -qF -- "$text" "$work/err" || die "$*: no \"$text\" in: $(cat "$work/err")"
    [ ! -s "$work/out" ] || die "$*: wrote to standard output"
}
refused 2 "see --help"
refused 2 "see --help" --guest
refused 2 "see --help" --guest --client --config "$work/x"
refused 2 "was not expected" --guest --config "$work/x" more
refused 2 "see --help" --no-such-option
refused 4 "No such file" --guest --config "$work/absent"
head -c 65536 /dev/zero >"$work/zeros"
refused 4 "$work/zeros" --guest --config "$work/zeros"
head -c 100 /dev/urandom >"$work/short"
refused 4 "$work/short" --client --config "$work/short"
echo "ok"
