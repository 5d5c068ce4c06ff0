#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# needs: vm
# timeout: 600
# Runs on qemu:///system: a libvirtd of the test's own in mount, network and process namespaces, whose
# QEMUs run as another user. Refusals before the first change; a whole run; what kill -9 leaves, here and
# on an embedded host beside it, and `vtile clean`. Nothing else is touched: not a domain with a name like
# ours, not an owner in the image cache, not the machine.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/wait-until.sh"
vtile=$VTILE_BUILD/vtile

if [ $# -eq 0 ]; then
    [ "$(id -u)" -eq 0 ] || { echo "needs root"; exit 77; }
    for tool in /usr/sbin/libvirtd virsh ip jq unshare; do
        command -v "$tool" >/dev/null || { echo "needs $tool"; exit 77; }
    done
    work=$(mktemp -d /tmp/vs.XXXXXX)
    trap 'rm -rf --one-file-system "$work"' EXIT
    "$vtile" image build >/dev/null
    unshare --mount --net --pid --fork --kill-child --mount-proc bash "$here/44-system-daemon.sh" "$work"
    exit
fi

work=$1
export VTILE_STATE=$work/s VTILE_RUNTIME=$work/r
virsh=(virsh -q -c qemu:///system)
die() {
    echo "FAILED: $*"
    tail -n 5 "$work/events" "$work/err" "$work/libvirtd.log" 2>/dev/null || true
    exit 1
}

# ---- the daemon ----

# Puts memory over a folder; what is in it shows through.
cover() {
    local below=$work/below${1//\//_} entry
    mkdir "$below"
    mount --rbind "$1" "$below"
    mount -t tmpfs -o mode=755 none "$1"
    for entry in "$below"/*; do
        if [ -d "$entry" ] && [ ! -L "$entry" ]; then
            mkdir "$1/${entry##*/}"
            mount --rbind "$entry" "$1/${entry##*/}"
        elif [ -e "$entry" ]; then
            cp -P --preserve=mode "$entry" "$1/"
        fi
    done
}
add_user() {
    cp "$1" "$work/${1##*/}"
    echo "$2" >>"$work/${1##*/}"
    mount --bind "$work/${1##*/}" "$1"
}
answers() {
    "${virsh[@]}" version >/dev/null 2>&1 || ! kill -0 "$daemon" 2>/dev/null
}

mount --make-rprivate /
ip link set lo up
for folder in /var/lib /var/cache /var/log; do
    cover "$folder"
done
mount -t tmpfs -o mode=755 none /run
mkdir -p /etc/libvirt
mount -t tmpfs none /etc/libvirt
getent group libvirt-qemu >/dev/null || add_user /etc/group libvirt-qemu:x:64055:
getent passwd libvirt-qemu >/dev/null || add_user /etc/passwd libvirt-qemu:x:64055:64055::/nonexistent:/usr/sbin/nologin
[ ! -e /dev/kvm ] || mount --bind /dev/null /dev/kvm # the same on every machine
cat >/etc/libvirt/qemu.conf <<'CONF'
user = "libvirt-qemu"
group = "libvirt-qemu"
stdio_handler = "file"
security_driver = "none"
cgroup_controllers = []
namespaces = []
CONF
echo 'auth_unix_rw = "none"' >/etc/libvirt/libvirtd.conf
/usr/sbin/libvirtd -p "$work/libvirtd.pid" >"$work/libvirtd.log" 2>&1 &
daemon=$!
wait_until 60 answers || true
"${virsh[@]}" version >/dev/null 2>&1 || { echo "libvirtd does not start here: $(tail -n 1 "$work/libvirtd.log")"; exit 77; }

# ---- what is not ours ----

cat >"$work/foreign.xml" <<'XML'
<domain type='qemu'><name>vt-abcdef-001-web</name><memory unit='MiB'>16</memory>
<os><type arch='x86_64' machine='q35'>hvm</type></os>
<devices><controller type='usb' model='none'/><memballoon model='none'/></devices></domain>
XML
"${virsh[@]}" create "$work/foreign.xml" >/dev/null || die "the foreign domain"
ip link add vt-abcdef-br type bridge
ip tuntap add vt-abcdef-001w mode tap

cache=$(dirname "$(dirname "$("$vtile" image build --json | jq -r .kernel)")")
outside() {
    "${virsh[@]}" list --all
    ip -o link show | sed 's/ *qlen.*//; s/ state [A-Z]*//' | cut -d: -f2-
    ip route
    cat /proc/sys/net/ipv4/ip_forward
    stat -c '%n %U %G %a' "$cache"/*/* "$work"
    ip netns list
    find "$VTILE_RUNTIME" "$VTILE_STATE/journal" "$VTILE_STATE/results" -mindepth 1 ! -name '*.vtar' ! -name '*.html' 2>/dev/null || true
    pgrep -f "guest=vt-" | wc -l
}

# ---- refused before the first change ----

refused() {
    local wanted=$1 code=0
    shift
    "$vtile" run --spec origin "$@" >"$work/out" 2>&1 || code=$?
    [ "$code" -eq 2 ] || die "exit code $code of vtile run $*: $(cat "$work/out")"
    grep -q -- "$wanted" "$work/out" || die "'$wanted' is not in: $(cat "$work/out")"
}
uid=$(id -u libvirt-qemu)
chmod 700 "$work"
refused "(uid $uid) cannot search the folder $work," --host qemu:///system
[ "$(stat -c %a "$work")" = 700 ] || die "a folder's mode was changed"
chmod 711 "$work"
ip link add taken type bridge
ip address add 198.19.7.1/16 dev taken
ip link set taken up
refused 'routed to taken' --host qemu:///system
ip link delete taken
refused 'VMs that really run' --host test:///default
outside >"$work/before"

# ---- a whole run ----

pid=
start_run() {
    : >"$work/events" # not the events of the run before
    "$vtile" run --json --seed 3 "$@" >"$work/events" 2>"$work/err" &
    pid=$!
}
# The condition, or the run has ended.
seen() {
    grep -q "$1" "$work/events" || ! kill -0 "$pid" 2>/dev/null
}

start_run --spec origin
wait_until 200 seen '"role":"infra".*"up"' || die "no agent"
grep -q -- '--host auto: a system daemon answers, so it is qemu:///system' "$work/events" || die "the choice is not told"
run=$(jq -r 'select(.type == "note").text | capture("^run (?<id>[0-9a-f]{12})").id' "$work/events")
qemu=$(pgrep -f "guest=vt-${run:0:6}-001-infra") || die "no QEMU of run $run"
[ "$(stat -c %u "/proc/$qemu")" = "$uid" ] || die "QEMU does not run as libvirt-qemu"
[ "$(stat -c '%U %a' "$VTILE_RUNTIME/$run/infra-1.conf")" = 'libvirt-qemu 600' ] || die "the config disk's owner"
stat -c '%n %U %G %a' "$cache"/*/* | diff - <(grep "^$cache" "$work/before") || die "owners in the cache changed"
refused "run ${run:0:6} (pid $pid)" --host qemu:///system
[ "$(ip route | sed 's/ *$//')" = "198.18.0.0/15 dev vt-${run:0:6}-br proto kernel scope link src 198.18.0.1" ] || die "routes: $(ip route)"
"$vtile" clean | grep -q 'left alone' || die "clean of a live run"
code=0
wait "$pid" || code=$?
# Without a driven role there is nothing to judge, which is all that is wrong with it.
[ "$code" -eq 3 ] || die "exit code $code"
invalid=$(jq -s -c '.[-1] | select(.type == "result") | [.reasons[] | select(.grade == "INVALID").code]' "$work/events")
[ "$invalid" = '["no-load"]' ] || die "reasons: $invalid"
"$vtile" results verify "$(jq -rs '.[-1].archive' "$work/events")" || die "verify"
outside >"$work/after"
diff "$work/before" "$work/after" || die "the run left something behind, or took something"

# ---- kill -9, on an embedded host and on the daemon ----

started() {
    compgen -G "$VTILE_STATE/embed/run/qemu/vt-*.xml" >/dev/null || ! kill -0 "$pid" 2>/dev/null
}
loaded() {
    [ "$(jq -c 'select(.type == "load" and .role == "web")' "$work/events" | wc -l)" -ge 3 ] || ! kill -0 "$pid" 2>/dev/null
}
kill_run() {
    kill -KILL "$pid"
    wait "$pid" 2>/dev/null || true
}
start_run --spec origin --host embed
wait_until 120 started || die "no embedded domain"
kill_run
start_run --spec web --host qemu:///system
wait_until 300 loaded || die "no load"
# The daemon's QEMUs are found and sampled too.
jq -es 'map(select(.source == "host.1" and .role == "web" and .series == "vcpu.0.run_delay" and .value != null)) | length > 0' \
    "$work/events" >/dev/null || die "no sample of a vCPU thread"
jq -es 'map(select(.type == "note" and .level == "error")) == []' "$work/events" >/dev/null || die "errors"
kill_run
refused 'a dead run' --host qemu:///system
"$vtile" clean >"$work/clean" || die "clean: $(cat "$work/clean")"
[ "$(grep -c '^removed domain' "$work/clean")" -eq 3 ] || die "three domains were there: $(cat "$work/clean")"
outside >"$work/after"
diff "$work/before" "$work/after" || die "clean left something, or took something"
"$vtile" clean | grep -qx 'nothing to do' || die "a second clean"
echo "ok"
