#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ends a run by SIGKILL at each of its points (every append and sync of the journal, before and
# after every call into libvirt), then at random moments; each time `vtile clean` must leave nothing
# of the run and must not touch a bystander. What is left is looked at from outside: ip, virsh, /proc, find.
#
#   kill.sh             every point, then 20 random moments
#   kill.sh 5 17 40     these points only
#   kill.sh spread 3    three points spread evenly, and no random moment
set -euo pipefail

# In namespaces of its own: what is seen below is then this laboratory's, whoever else is at work.
if [ "${VTILE_KILL_INSIDE:-}" != 1 ]; then
    exec env VTILE_KILL_INSIDE=1 unshare --mount --net bash "$0" "$@"
fi
mkdir -p /run/netns
mount -t tmpfs vtile-kill /run/netns

build=${VTILE_BUILD:?}
vtile=$build/vtile
killat=$build/tests/killat
points=(vt_journal_point vt_host_call_point)
random_moments=20

work=$(mktemp -d /tmp/vk.XXXXXX)
export VTILE_STATE=$work/s VTILE_RUNTIME=$work/r
root=$VTILE_STATE/embed
bystander_tap=vt-bystander
# The smallest tile, with a data disk.
sed 's/^\( *tcg: .*\)}/\1, storage: disk, disk: 64 MiB}/' "$(dirname "$0")/../../tiles/spec/specs/origin.yaml" >"$work/disk.yaml"
run=("$vtile" run --spec "$work/disk.yaml" --tiles 1 --preset smoke --host embed --seed 1)

die() {
    echo "kill.sh: $*" >&2
    exit 1
}

clean_up() {
    "$vtile" clean >/dev/null 2>&1 || true
    ip link del "$bystander_tap" 2>/dev/null || true
    rm -rf "$work"
}
trap clean_up EXIT

# virsh on the embedded host; libvirt wants a user libvirt-qemu there.
virsh_embed() {
    unshare -m bash -c '
        getent passwd libvirt-qemu >/dev/null || {
            cp /etc/passwd "$1/passwd" && echo "libvirt-qemu:x:64055:64055::/:/bin/false" >>"$1/passwd"
            cp /etc/group "$1/group" && echo "libvirt-qemu:x:64055:" >>"$1/group"
            mount --bind "$1/passwd" /etc/passwd && mount --bind "$1/group" /etc/group
        }
        work=$1
        shift
        virsh -q -c "qemu:///embed?root=$work/s/embed" "$@"' _ "$work" "$@"
}

# Everything of a run that can be seen without asking vtile.
seen() {
    ip -o link show | grep -E ' vt-[0-9a-f]{6}-' || true
    ip netns list | grep -E '^vt-[0-9a-f]{6}' || true
    ls /run/netns 2>/dev/null | grep -E '^vt-[0-9a-f]{6}$' || true
    grep -l -a -e "$work/" /proc/[0-9]*/cmdline 2>/dev/null | while read -r file; do
        local pid=${file#/proc/}
        pid=${pid%/cmdline}
        [ "$pid" = $$ ] || { tr '\0' ' ' <"$file" | grep -a -E 'qemu-system|vtile'; } 2>/dev/null || true
    done
    find "$VTILE_RUNTIME" -mindepth 1 2>/dev/null || true
    find "$VTILE_STATE/journal" -type f 2>/dev/null || true
    find "$VTILE_STATE/disks" -mindepth 1 2>/dev/null || true
    find "$VTILE_STATE/results" -type f ! -name '*.vtar' ! -name '*.html' 2>/dev/null || true
    find "$root" \( -name '*.pid' -o -name '*.sock' -o -name 'vt-*.xml' \) \
        ! -name 'vt-x.xml' 2>/dev/null || true
    grep -s -E "$work" /proc/self/mountinfo || true
}

# What was not there before the first run.
leftovers() {
    comm -13 "$work/before" <(seen 2>/dev/null | sort -u)
}

check_bystander() {
    ip link show "$bystander_tap" >/dev/null 2>&1 || die "the bystander's tap is gone"
    [ "$(virsh_embed list --all --name 2>/dev/null | xargs)" = vt-x ] ||
        die "virsh knows other domains than the bystander: $(virsh_embed list --all)"
}

# After a kill: clean, then nothing is left; clean again, and there is nothing to do.
check_clean() {
    local what=$1 left
    "$vtile" clean >"$work/clean.out" 2>&1 || die "$what: clean failed: $(cat "$work/clean.out")"
    left=$(leftovers)
    [ -z "$left" ] || die "$what: left behind: $left"
    "$vtile" clean >"$work/clean2.out" 2>&1 || die "$what: second clean failed"
    grep -qi 'nothing' "$work/clean2.out" || die "$what: second clean did something: $(cat "$work/clean2.out")"
    check_bystander
}

ip tuntap add "$bystander_tap" mode tap
seen 2>/dev/null | sort -u >"$work/before"
# A first whole run fills the caches and counts the points.
"$killat" "$work/log" 0 "${points[@]}" -- "${run[@]}" >"$work/out" 2>&1 || true
! grep -q 'failed:' "$work/out" || die "the whole run: $(grep 'failed:' "$work/out")"
total=$(wc -l <"$work/log")
[ "$total" -gt 0 ] || die "no point was passed: $(tail -n 5 "$work/out")"
[ -z "$(leftovers)" ] || die "the whole run left: $(leftovers)"
cat >"$work/vt-x.xml" <<'XML'
<domain type='qemu'><name>vt-x</name><memory unit='MiB'>16</memory><vcpu>1</vcpu>
<os><type arch='x86_64' machine='pc'>hvm</type></os></domain>
XML
virsh_embed define "$work/vt-x.xml" >/dev/null
check_bystander
check_clean "the whole run"
echo "a run of one VM passes $total points: $(awk '{ print $2 }' "$work/log" | sort | uniq -c | tr -s ' \n' ' ')"

case ${1:-} in
'') wanted=$(seq 1 "$total") ;;
spread)
    random_moments=0
    wanted=$(for i in $(seq 1 "$2"); do echo $((i * total / ($2 + 1))); done)
    ;;
*)
    random_moments=0
    wanted=$*
    ;;
esac

killed=0
for n in $wanted; do
    code=0
    "$killat" "$work/log" "$n" "${points[@]}" -- "${run[@]}" >"$work/out" 2>&1 || code=$?
    # The last points of a run may move by a few from one time to the next.
    name=$(tail -n 1 "$work/log")
    [ "$code" -eq 0 ] || { [ "$code" -eq 3 ] && [ "$n" -gt $((total - 8)) ] && [ -n "$name" ]; } ||
        die "point $n: $name: $(tail -n 3 "$work/out")"
    check_clean "killed at $name"
    [ "$code" -ne 0 ] || killed=$((killed + 1))
    echo "ok $n/$total $name"
done
for i in $(seq 1 "$random_moments"); do
    "${run[@]}" >"$work/out" 2>&1 &
    pid=$!
    # Not a wait for anything: the moment itself is what is drawn, anywhere in a run.
    moment=$((RANDOM % 20000))
    timeout "$(printf '%d.%03d' $((moment / 1000)) $((moment % 1000)))" tail --pid="$pid" -f /dev/null || true
    kill -9 "$pid" 2>/dev/null || true
    code=0
    wait "$pid" 2>/dev/null || code=$?
    [ "$code" -eq 137 ] || [ "$code" -eq 3 ] || die "the run ended with $code: $(tail -n 3 "$work/out")"
    check_clean "killed after $moment ms"
    killed=$((killed + 1))
    echo "ok random $i: $moment ms"
done
echo "killed $killed times; each time clean left nothing and touched nothing else"
