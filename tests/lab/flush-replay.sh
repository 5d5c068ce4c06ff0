#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Killing QEMU keeps the host's page cache, so it cannot show that a guest's flushes mean anything. Here QEMU
# logs every write to the data disk of a database guest while orders are placed; the disk is then made anew up
# to flushes of that log, as after a power cut there, and PostgreSQL started on it: every order that was
# acknowledged before that flush must be there, and the figures of the shop must add up.
#
#   flush-replay.sh [ORDERS [FLUSHES]]    300 orders, 12 flushes spread over the log
#
# QEMU is started by hand on vtile's image, since the log needs a block graph that libvirt has no words for.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
source "$here/../system/wait-until.sh"
vtile=${VTILE_BUILD:?}/vtile
orders=${1:-300} points=${2:-12}
bin=/usr/lib/postgresql/15/bin
tool=(python3 "$here/flush_replay.py")

[ "$(id -u)" -eq 0 ] || { echo "needs root: PostgreSQL runs as another user"; exit 77; }
for program in qemu-system-x86_64 jq "$bin/postgres" psql e2fsck debugfs setpriv; do
    command -v "$program" >/dev/null || { echo "needs $program"; exit 77; }
done
user=$(id -u postgres 2>/dev/null || echo 65534)

work=$(mktemp -d /tmp/vf.XXXXXX)
chmod 711 "$work"
qemu=
server=
clean_up() {
    [ -z "$server" ] || kill -INT "$server" 2>/dev/null || true
    [ -z "$qemu" ] || kill -9 "$qemu" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap clean_up EXIT
die() {
    echo "flush-replay: $*" >&2
    tail -n 5 "$work/console" "$work/server.log" 2>/dev/null >&2 || true
    exit 1
}

# ---- orders, with a log of all writes ----

eval "$("$vtile" image build --json 2>/dev/null | jq -r 'to_entries[] | "\(.key)=\(.value | @sh)"')"
"${tool[@]}" config "$work/config"
truncate -s 512M "$work/disk"
truncate -s 4G "$work/log"
port=$((20000 + $$ % 20000))
psql=(psql -XAqt -h 127.0.0.1 -p "$port" -U app1 -d postgres)

qemu-system-x86_64 -accel tcg -M q35 -cpu max -m 256 -nodefaults -display none -no-reboot \
    -serial "file:$work/console" -kernel "$kernel" -initrd "$initrd" \
    -append "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check tsc=reliable" \
    -drive "if=none,id=p,file=$packages,format=raw,readonly=on" -device virtio-blk-pci,drive=p,serial=vt-packages \
    -drive "if=none,id=r,file=$roles,format=raw,readonly=on" -device virtio-blk-pci,drive=r,serial=vt-roles \
    -drive "if=none,id=c,file=$work/config,format=raw,readonly=on" -device virtio-blk-pci,drive=c,serial=vt-config \
    -blockdev "driver=file,node-name=disk,filename=$work/disk,discard=unmap" \
    -blockdev "driver=file,node-name=log,filename=$work/log" \
    -blockdev "driver=blklogwrites,node-name=logged,file=disk,log=log,log-sector-size=512" \
    -device virtio-blk-pci,drive=logged,serial=vt-data \
    -netdev "user,id=n,restrict=on,hostfwd=tcp:127.0.0.1:$port-:5432" \
    -device virtio-net-pci,netdev=n,mac=52:54:00:00:00:01,romfile= >"$work/qemu.log" 2>&1 &
qemu=$!
serves() {
    ! kill -0 "$qemu" 2>/dev/null || [ "$("${psql[@]}" -c 'SELECT count(*) FROM browse(0)' 2>/dev/null)" = 10 ]
}
wait_until 600 serves || die "the database does not serve"
kill -0 "$qemu" 2>/dev/null || die "QEMU ended: $(cat "$work/qemu.log")"
"${tool[@]}" orders "$work/log" "$work/acks" "$orders" -- "${psql[@]}" || die "orders were not taken"
kill -9 "$qemu"
wait "$qemu" 2>/dev/null || true
qemu=
[ "$(wc -l <"$work/acks")" -eq "$orders" ] || die "not every order was acknowledged"

# ---- the disk as it was at a flush ----

# look N: the orders of a disk that ended with entry N stand in $work/found.
ask() {
    psql -XAqt -h "$work" -p 1 -U postgres -d postgres "$@"
}
answers() {
    ! kill -0 "$server" 2>/dev/null || ask -c 'SELECT 1' >/dev/null 2>&1
}
look() {
    local code=0
    rm -rf "$work/copy" "$work/pg"
    cp --sparse=always --reflink=auto "$work/replayed" "$work/copy"
    e2fsck -fy "$work/copy" >"$work/fsck.log" 2>&1 || code=$?
    [ "$code" -le 1 ] || die "entry $1: e2fsck ended with $code: $(tail -n 3 "$work/fsck.log")"
    mkdir "$work/pg"
    debugfs -R "rdump /postgres $work/pg" "$work/copy" >/dev/null 2>&1
    chown -R "$user" "$work/pg"
    chmod 700 "$work/pg/postgres"
    printf 'local all all trust\n' >"$work/pg/hba"
    setpriv --reuid "$user" --clear-groups "$bin/postgres" -D "$work/pg/postgres" \
        -c config_file=/dev/null -c hba_file="$work/pg/hba" -c listen_addresses= -c port=1 \
        -c unix_socket_directories="$work" -c dynamic_shared_memory_type=posix >"$work/server.log" 2>&1 &
    server=$!
    wait_until 60 answers || die "entry $1: PostgreSQL does not answer"
    kill -0 "$server" 2>/dev/null || die "entry $1: PostgreSQL ended"
    ask -c 'SELECT sequence FROM tile1.orders WHERE sequence IS NOT NULL' | sort >"$work/found"
    wrong=$(ask -c 'SELECT count(*) FROM tile1.items WHERE stock <> initial
        + coalesce((SELECT sum(quantity) FROM tile1.work_orders w WHERE w.item = items.item), 0)
        - coalesce((SELECT sum(quantity) FROM tile1.lines l WHERE l.item = items.item), 0)')
    kill -INT "$server"
    wait "$server" 2>/dev/null || true
    server=
}

chmod 777 "$work"
truncate -s 512M "$work/replayed"
first_ack=$(awk 'NR == 1 { print $2 }' "$work/acks")
"${tool[@]}" flushes "$work/log" >"$work/flushes"
# Points spread over the flushes from the first acknowledged order on, the last one among them.
awk -v from="$first_ack" '$1 >= from' "$work/flushes" >"$work/late"
total=$(wc -l <"$work/late")
[ "$total" -ge "$points" ] || die "$total flushes after the first order, $points are wanted"
done_to=0
for ((i = 1; i <= points; i++)); do
    entry=$(sed -n "$((i * total / points))p" "$work/late")
    "${tool[@]}" replay "$work/log" "$work/replayed" "$done_to" "$entry"
    done_to=$entry
    look "$entry"
    awk -v to="$entry" '$2 <= to { print $1 }' "$work/acks" | sort >"$work/promised"
    missing=$(comm -23 "$work/promised" "$work/found")
    [ -z "$missing" ] || die "entry $entry: acknowledged before, and not there: $(echo $missing)"
    [ "$wrong" = 0 ] || die "entry $entry: the stock of $wrong items does not add up"
    # Else what is looked at was not made from the log.
    [ "$i" -gt 1 ] || [ "$(wc -l <"$work/found")" -lt "$orders" ] || die "entry $entry: orders of the future"
    echo "up to the flush at entry $entry: $(wc -l <"$work/promised") acknowledged, $(wc -l <"$work/found") there"
done

echo "$orders orders, $(wc -l <"$work/flushes") flushes in the log, $points replayed: nothing acknowledged is missing"
