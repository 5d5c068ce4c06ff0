#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What an image is made from decides which parts are made again; a killed build leaves nothing that
# could serve, runs on in no process, and the next one removes its rests.
# timeout: 900
set -euo pipefail

here=$(dirname "$0")
. "$here/wait-until.sh"
vtile=$VTILE_BUILD/vtile
[ "$(id -u)" -eq 0 ] || { echo "skipped: installing packages into an image needs root"; exit 77; }
for tool in mmdebstrap mkfs.erofs unshare jq; do
    command -v "$tool" >/dev/null || { echo "skipped: $tool is not installed"; exit 77; }
done
die() {
    echo "FAILED: $*"
    exit 1
}
work=$(mktemp -d /tmp/vi.XXXXXX)
trap 'rm -rf "$work"' EXIT

# A guest is no place for a sanitizer's runtime: such a build has no vtile-init of its own.
guest=${VTILE_GUEST_PROGRAMS:-$VTILE_BUILD}
[ -x "$guest/vtile-init" ] || { echo "skipped: no vtile-init in $guest"; exit 77; }
mkdir "$work/bin"
cp "$guest/vtile-agent" "$guest/vtile-init" "$work/bin"
export VTILE_GUEST_PROGRAMS=$work/bin

# The cache that people use spares the test an installation; its own one starts as a copy.
"$vtile" image build --json >"$work/first.json"
kept=$(dirname "$(dirname "$(jq -r .packages "$work/first.json")")")
export VTILE_CACHE=$work/cache
mkdir "$VTILE_CACHE"
for part in kernel initrd packages roles; do
    cp -a "$(dirname "$(jq -r ".$part" "$work/first.json")")" "$VTILE_CACHE"
done
cp -a "$kept"/resolved-* "$VTILE_CACHE"

# built NAME PART...: builds to NAME.json; exactly these parts differ from the build before.
last=first
built() {
    local name=$1
    shift
    "$vtile" image build --json >"$work/$name.json" || die "build $name"
    [ "$(jq .built "$work/$name.json")" -eq $# ] || die "$name: $(cat "$work/$name.json"), expected $*"
    for part in kernel initrd packages roles; do
        local old new
        old=$(jq -r ".$part" "$work/$last.json" | sed 's,.*/\([^/]*/[^/]*\)$,\1,')
        new=$(jq -r ".$part" "$work/$name.json" | sed 's,.*/\([^/]*/[^/]*\)$,\1,')
        case " $* " in
        *" $part "*) [ "$old" != "$new" ] || die "$name: $part is the old one" ;;
        *) [ "$old" = "$new" ] || die "$name: $part was made again" ;;
        esac
        [ -s "$VTILE_CACHE/$new" ] || die "$name: no $new"
    done
    last=$name
}
current() {
    "$vtile" image list --json | jq -r '[.parts[] | select(.current) | .part] | sort | join(" ")'
}

built nothing
[ "$(current)" = "initrd kernel packages roles" ] || die "list: $("$vtile" image list)"
[ "$(jq -r .key "$work/first.json")" = "$(jq -r .key "$work/nothing.json")" ] || die "key changed"

printf x >>"$work/bin/vtile-agent"
[ "$(current)" = "initrd kernel packages" ] || die "an old agent would serve: $("$vtile" image list)"
built agent roles
printf x >>"$work/bin/vtile-init"
[ "$(current)" = "kernel packages roles" ] || die "an old init would serve: $("$vtile" image list)"
built init initrd
cp "$guest/vtile-agent" "$work/bin" # back: that part is still there
"$vtile" image build --json | jq -e '.built == 0' >/dev/null || die "the kept part was made again"
fsck.erofs "$(jq -r .roles "$work/agent.json")" >/dev/null 2>&1 || die "roles: no sound erofs"

# What was damaged since does not serve, and is made again under the same name.
roles=$(jq -r .roles "$work/nothing.json")
truncate -s -4096 "$roles"
[ "$(current)" = "initrd kernel packages" ] || die "a part cut short would serve: $("$vtile" image list)"
code=0
VTILE_STATE=$work/s VTILE_RUNTIME=$work/r "$vtile" run --host embed --spec origin >"$work/out" 2>&1 || code=$?
{ [ "$code" -eq 2 ] && grep -q "part 'roles' is missing or damaged" "$work/out"; } || die "a run with it: $code"
"$vtile" image build --json | jq -e '.built == 1' >/dev/null || die "it was not made again"
kernel=$(jq -r .kernel "$work/agent.json")
head -c "$(stat -c %s "$kernel")" /dev/zero >"$work/zeros"
cp "$work/zeros" "$kernel"
"$vtile" image build --json | jq -e '.built == 1' >/dev/null || die "zeros of the same size serve"
cmp -s "$work/zeros" "$kernel" && die "zeros are still there"

# Few parts are kept of a kind.
for i in 1 2 3 4 5; do
    printf "$i" >>"$work/bin/vtile-agent"
    "$vtile" image build >/dev/null 2>&1
done
[ "$(find "$VTILE_CACHE" -maxdepth 1 -name 'roles-*' | wc -l)" -eq 3 ] || die "not three role parts"

# Two at once: one waits, both end well.
printf y >>"$work/bin/vtile-agent"
"$vtile" image build --json >"$work/a.json" 2>/dev/null &
"$vtile" image build --json >"$work/b.json" 2>/dev/null || die "the second of two builds"
wait $! || die "the first of two builds"
[ "$(jq -s 'map(.built) | add' "$work/a.json" "$work/b.json")" -eq 1 ] || die "both built"

# Killed in the middle of the installation.
rm -rf "$VTILE_CACHE"/packages-*
"$vtile" image build >"$work/killed.log" 2>&1 &
build=$!
under_way() { compgen -G "$VTILE_CACHE/tmp-packages-*/root/usr/bin/*" >/dev/null; }
wait_until 120 under_way || die "no installation: $(cat "$work/killed.log")"
kill -9 "$build"
wait "$build" 2>/dev/null || true
alive() { grep -lsa -- "$VTILE_CACHE/tmp-" /proc/[0-9]*/cmdline | grep -v "/$$/" | grep -q .; }
gone() { ! alive; }
wait_until 20 gone || die "runs on: $(grep -lsa -- "$VTILE_CACHE/tmp-" /proc/[0-9]*/cmdline)"
grep -q " $VTILE_CACHE/" /proc/self/mounts && die "mounts are left"
[ "$(current)" = "initrd kernel roles" ] || die "a killed build serves: $("$vtile" image list)"
under_way || die "the test is wrong: nothing was left behind"

# The next build removes that first; this one then fails, with the reason.
mkdir "$work/tools"
for tool in sh sed sort awk find apt-get apt-config unshare grep cat tail; do
    ln -s "$(command -v "$tool")" "$work/tools/$tool"
done
code=0
PATH=$work/tools "$vtile" image build >"$work/out" 2>"$work/err" || code=$?
[ "$code" -eq 4 ] || die "without mmdebstrap: exit code $code: $(cat "$work/err")"
grep -q "mmdebstrap is missing" "$work/err" || die "without mmdebstrap: $(cat "$work/err")"
compgen -G "$VTILE_CACHE/tmp-*" >/dev/null && die "left: $(ls "$VTILE_CACHE")"
[ "$(current)" = "initrd kernel roles" ] || die "a failed build serves"

code=0
"$vtile" image burn >"$work/out" 2>"$work/err" || code=$?
[ "$code" -eq 2 ] || die "an unknown verb: exit code $code"
"$vtile" image --help | grep -q -- "--cache FOLDER" || die "no help"
echo "parts follow what they are made from; nothing of a killed build is left"
