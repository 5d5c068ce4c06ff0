#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# needs: vm (no guest is booted, but no other test may change the machine meanwhile)
# `vtile host show|check` and `vtile clean` on an empty installation: they tell, and make nothing
# outside their state folder. What a host is, is compared with what virsh and the kernel say.
set -euo pipefail

vtile=$VTILE_BUILD/vtile
work=$(mktemp -d /tmp/vh.XXXXXX)
trap 'rm -rf "$work"' EXIT
unset "${!VTILE_@}"
export VTILE_STATE=$work/s VTILE_RUNTIME=$work/r VTILE_CACHE=$work/c
die() {
    echo "FAILED: $*"
    exit 1
}
outside() {
    ls -a /run /run/libvirt 2>/dev/null || true
    grep -c libvirt-qemu /etc/passwd /etc/group || true
    stat -c '%a %s %i' /dev/kvm 2>/dev/null || true
}
for tool in jq virsh; do
    command -v "$tool" >/dev/null || { echo "needs $tool"; exit 77; }
done

outside >"$work/before"

# Nothing is there: nothing to do, and nothing is made.
"$vtile" clean | grep -qx 'nothing to do' || die "clean of nothing"
"$vtile" clean --json | jq -e '.v == 1 and .type == "result" and .removed == 0' >/dev/null || die "clean --json"
[ ! -e "$VTILE_STATE" ] || die "clean made $VTILE_STATE"
[ ! -e "$VTILE_CACHE" ] || die "clean made $VTILE_CACHE"

# What a killed build of an image left goes, and nothing beside it.
mkdir -p "$VTILE_CACHE/tmp-roles-abcdef/deep" "$VTILE_CACHE/other"
touch "$VTILE_CACHE/tmp-roles-abcdef/deep/file"
"$vtile" clean | grep -qx '1 object removed' || die "clean of a half-made image"
[ ! -e "$VTILE_CACHE/tmp-roles-abcdef" ] && [ -d "$VTILE_CACHE/other" ] || die "clean of images"
"$vtile" clean | grep -qx 'nothing to do' || die "second clean of images"
rm -r "$VTILE_CACHE"

# Usage.
for arguments in 'host' 'host lend' 'host show extra' 'host show --no-such' 'host show --host nowhere' 'clean all'; do
    code=0
    # shellcheck disable=SC2086
    "$vtile" $arguments >"$work/out" 2>"$work/err" || code=$?
    [ "$code" -eq 2 ] && [ ! -s "$work/out" ] && [ -s "$work/err" ] || die "vtile $arguments: exit code $code"
done
code=0
"$vtile" host show --host qemu+unix:///system?socket=/nonexistent 2>"$work/err" || code=$?
[ "$code" -eq 4 ] && grep -q nonexistent "$work/err" || die "a host that is not there: exit code $code"

# libvirt's test driver, as virsh sees it.
"$vtile" host show --host test:///default --json >"$work/test.json"
cpus=$(virsh -c test:///default nodeinfo | awk '/^CPU\(s\)/ { print $2 }')
[ "$(jq -r .cpus "$work/test.json")" = "$cpus" ] || die "CPUs of test:///default"
[ "$(jq -r .accel "$work/test.json")" = test ] || die "accel of test:///default"
"$vtile" host show --host test:///default | grep -q '^libvirt: *'"$(virsh --version)" || die "libvirt's version"

[ "$(id -u)" -eq 0 ] || { echo "needs root for the embedded host"; exit 77; }

# A run would boot an image that is not there: that alone is in the way.
code=0
"$vtile" host check --host embed --json >"$work/check.json" || code=$?
[ "$code" -eq 2 ] || die "host check: exit code $code: $(cat "$work/check.json")"
jq -es 'all(.v == 1) and (.[-1].type == "result") and (.[-1].errors == 1)' "$work/check.json" >/dev/null || die "host check --json"
jq -es 'map(select(.level == "error")) | length == 1 and .[0].check == "image" and (.[0].do | contains("vtile image build"))' \
    "$work/check.json" >/dev/null || die "a missing image is not told: $(cat "$work/check.json")"
[ ! -e "$VTILE_CACHE" ] || die "host check made $VTILE_CACHE"
jq -es 'map(select(.check == "cache")) | length == 1' "$work/check.json" >/dev/null || die "a cold cache is not told"
[ ! -e "$VTILE_STATE" ] || die "host check made $VTILE_STATE"

"$vtile" host show --host embed --json >"$work/embed.json"
[ "$(jq -r .cpus "$work/embed.json")" = "$(nproc --all)" ] || die "CPUs of the embedded host"
[ "$(jq -r .hypervisor "$work/embed.json")" = QEMU ] || die "hypervisor of the embedded host"
emulator=$(jq -r .emulator "$work/embed.json")
"$emulator" --version | grep -qF "$(jq -r .hypervisor_version "$work/embed.json")" || die "QEMU's version"
{ "$vtile" host check --host embed --json || true; } |
    jq -es 'map(select(.check == "cache")) | length == 0' >/dev/null || die "a warm cache is told cold"
[ ! -e "$VTILE_STATE/embed/vtile.lock" ] || die "host show left its lock"

# What is no journal where journals stand: each is told, none is waited for, all stay.
mkdir -p "$work/junk/journal"
mkfifo "$work/junk/journal/000000000001.journal"
ln -s /dev/zero "$work/junk/journal/000000000002.journal"
truncate -s 1T "$work/junk/journal/000000000003.journal"
code=0
VTILE_STATE=$work/junk timeout 30 "$vtile" clean >"$work/out" 2>&1 || code=$?
{ [ "$code" -eq 4 ] && [ "$(grep -c '/junk/journal/00000000000[123].journal: ' "$work/out")" -eq 3 ]; } ||
    die "clean among junk: exit code $code: $(cat "$work/out")"
[ "$(find "$work/junk/journal" -name '*.journal' | wc -l)" -eq 3 ] || die "clean removed what is not its own"
code=0
VTILE_STATE=$work/junk timeout 30 "$vtile" host check --host embed >"$work/out" || code=$?
{ [ "$code" -eq 2 ] && [ "$(grep -c '^error: ' "$work/out")" -eq 1 ] && grep -q '^error: image: ' "$work/out"; } ||
    die "host check among junk: exit code $code: $(cat "$work/out")"

# A path that is too long for sockets: refused with what to do.
code=0
VTILE_STATE=$work/$(printf 'x%.0s' $(seq 60)) "$vtile" host check --host embed >"$work/out" || code=$?
[ "$code" -eq 2 ] && grep -q 'error: path: ' "$work/out" || die "a long path: exit code $code"

outside >"$work/after"
diff "$work/before" "$work/after" || die "something outside the state folder changed"
