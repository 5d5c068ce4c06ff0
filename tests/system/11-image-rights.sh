#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A build that would have to install packages is refused without root before apt is asked anything: packages are
# there, but of older package lists.
set -euo pipefail

vtile=$VTILE_BUILD/vtile
[ "$(id -u)" -eq 0 ] || { echo "needs root, to be somebody else"; exit 77; }
work=$(mktemp -d /tmp/vj.XXXXXX)
trap 'rm -rf "$work"' EXIT
die() {
    echo "FAILED: $*"
    exit 1
}
unset "${!VTILE_@}"
as_nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
as_nobody test -x "$vtile" || { echo "another user cannot reach $vtile"; exit 77; }

# No apt: who asks for it does not get any further, and says so.
mkdir "$work/bin" "$work/cache" "$work/programs"
for tool in apt-get apt-cache mmdebstrap; do
    printf '#!/bin/sh\necho %s >>"%s/asked"\nexit 1\n' "$tool" "$work" >"$work/bin/$tool"
    chmod 755 "$work/bin/$tool"
done
touch "$work/asked" "$work/programs/vtile-agent" "$work/programs/vtile-init"
mkdir "$work/cache/packages-$(printf 'a%.0s' $(seq 64))"
chmod 755 "$work"
chmod 666 "$work/asked"
chown -R 65534:65534 "$work/cache"
code=0
VTILE_CACHE=$work/cache VTILE_GUEST_PROGRAMS=$work/programs PATH=$work/bin:$PATH \
    as_nobody "$vtile" image build >"$work/out" 2>&1 || code=$?
[ "$code" -eq 2 ] || die "exit code $code: $(cat "$work/out")"
grep -q 'needs root: run .vtile image build. as root' "$work/out" || die "not said: $(cat "$work/out")"
[ ! -s "$work/asked" ] || die "asked before: $(cat "$work/asked")"
[ -z "$(find "$work/cache" -name 'resolved-*')" ] || die "apt's answer is kept"
