#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# kill -9 of a QEMU in measure: its VM is started again on its data disk, whose journal is replayed and
# whose contents stay; the load goes on and recovers, samples too; the run ends by itself, is INVALID for
# that and for no other reason of that grade, and leaves nothing behind.
set -euo pipefail
source "$(dirname "$0")/../system/run-case.sh"
# The whole spec but for the disk: infra keeps its files on one.
sed 's/^\( *tcg: .*data: 9 MiB\)}/\1, storage: disk, disk: 256 MiB}/' \
    "$VTILE_SOURCE/tiles/spec/specs/web.yaml" >"$work/disk.yaml"
grep -q 'disk: 256 MiB' "$work/disk.yaml" || die "the spec has no data disk"

"$vtile" run --host embed --spec "$work/disk.yaml" --seed 5 --json >"$work/events" 2>"$work/err" &
pid=$!
measured() {
    run_ended || grep -q '"phase":"measure"' "$work/events"
}
wait_until 120 measured || die "no measurement began"
disk=$(find "$VTILE_STATE/disks" -name infra-1.raw)
[ "$(stat -c %s "$disk")" -eq $((256 << 20)) ] || die "the data disk is $(stat -c %s "$disk") bytes long"
[ "$(stat -c %b "$disk")" -lt $((128 << 11)) ] || die "the data disk is not sparse"
inode=$(stat -c %i "$disk")
qemu=$(pgrep -f "guest=$(mark)-001-infra") || die "no QEMU of infra"
kill -9 "$qemu"
back() {
    run_ended || grep -q 'infra-1 serves again' "$work/events"
}
wait_until 60 back || die "it did not come back"
[ "$(stat -c %i "$disk")" = "$inode" ] || die "the data disk was made anew"
[ "$(pgrep -f "guest=$(mark)-001-infra")" != "$qemu" ] || die "no other QEMU"
ends 3 "a run with a restarted VM"
nothing_left
[ -z "$(find "$VTILE_STATE/disks" -mindepth 1)" ] || die "data disks were left behind"

python3 - "$work/events" <<'PY' || die "the record of it is not right"
import json, sys
events = [json.loads(line) for line in open(sys.argv[1])]
result = events[-1]
assert result["type"] == "result" and result["verdict"] == "INVALID", result["verdict"]
invalid = [reason for reason in result["reasons"] if reason["grade"] == "INVALID"]
assert [(r["code"], r["number"]) for r in invalid] == [("vm-restarted", 1)], invalid
assert "infra-1" in invalid[0]["text"]
besides = {reason["code"] for reason in result["reasons"]} & {"clock-moved", "samples-lost"}
assert not besides, besides  # both would be the restart once more
consoles = [e["text"] for e in events if e["type"] == "log" and e.get("series") == "console"
            and e["source"] == "infra-1"]
assert len(consoles) == 2, len(consoles)
assert "made a file system" in consoles[0] and "recovering journal" in consoles[1], consoles
assert "holds data: kept" in consoles[1], consoles
back = next(e["time_ns"] for e in events if "infra-1 serves again" in e.get("text", ""))
# What was due five seconds later and more is answered again, and the guest is sampled.
t0 = next(e["time_ns"] for e in events if e["type"] == "phase" and e["phase"] == "ramp") + 1e9
later = [e for e in events if e["type"] == "load" and t0 + e["second"] * 1e9 > back + 5e9]
assert len({e["second"] for e in later}) >= 10, len(later)
assert sum(e["failed"] + e["wrong"] for e in later) == 0, later
assert any(e["type"] == "sample" and e["source"] == "infra-1" and e["time_ns"] > back for e in events)
assert any(e["type"] == "sample" and e["series"] == "vcpu.0.cpu" and e.get("role") == "infra"
           and e.get("value") is not None and e["time_ns"] > back for e in events)
PY
"$vtile" results show "$VTILE_STATE"/results/*.vtar | grep -q 'storage.infra-1.*disk' || die "the record does not say where data lay"
echo "restarted; the run went on"
