#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# needs: vm
# timeout: 600
# Load that guests make for themselves: batch, storage and network in one tile. Each second's count is what
# is due, the record says what was ordered, and the jobs due can be counted from it by hand.
set -euo pipefail
source "$(dirname "$0")/run-case.sh"

cat >"$work/jobs.yaml" <<'YAML'
name: jobs
description: what guests do by themselves
run: {load: 1, preset: smoke}
roles:
  batch:
    sizes:
      tcg: {memory: 192 MiB, vcpus: 1, data: 0 B}
      kvm: {memory: 192 MiB, vcpus: 1, data: 0 B}
    jobs:
      rate: 0.1
      windows: {smoke: 30 s, turbo: 30 s, standard: 30 s}
      compress: 64 KiB
      compile: 2
      error_share_max: 0 %
  storage:
    sizes:
      tcg: {memory: 256 MiB, vcpus: 1, data: 2 MiB}
      kvm: {memory: 256 MiB, vcpus: 1, data: 2 MiB}
    scored: true
    jobs:
      rate: 20
      read_share: 70 %
      block: 4 KiB
      limits: [{share: 95 %, within: 5 s}]
      good_limit: 10 s
      error_share_max: 1 %
  netserver:
    sizes:
      tcg: {memory: 128 MiB, vcpus: 1, data: 0 B}
      kvm: {memory: 128 MiB, vcpus: 1, data: 0 B}
  netclient:
    sizes:
      tcg: {memory: 128 MiB, vcpus: 1, data: 0 B}
      kvm: {memory: 128 MiB, vcpus: 1, data: 0 B}
    scored: true
    # How many probes are in time is the machine's matter; that each is counted is what is looked at.
    jobs:
      rate: 1
      bytes_per_s: 64 KiB
      good_limit: 5 s
      error_share_max: 90 %
YAML
"$vtile" run --json --host embed --seed 42 --spec "$work/jobs.yaml" >"$work/events" 2>"$work/err" &
pid=$!
ends 0

archive=$(python3 -c 'import json,sys; print(json.loads(open(sys.argv[1]).readlines()[-1])["archive"])' "$work/events")
mkdir "$work/x"
tar -xf "$archive" -C "$work/x"
cat "$work/x"/record.sqlite.zst.* | zstd -dq >"$work/x/record.sqlite"
python3 - "$work/events" "$work/x/record.sqlite" <<'PY' || die "record"
import json, sqlite3, sys
last = json.loads(open(sys.argv[1]).readlines()[-1])
codes = {r["code"] for r in last["reasons"]}
assert codes <= {"emulated-cpu", "client-on-host", "no-stable-storage"}, codes
assert last["qos"] == "pass", last
db = sqlite3.connect(f"file:{sys.argv[2]}?mode=ro&immutable=1", uri=True)
roles = dict(db.execute("SELECT role, id FROM role"))
meta = dict(db.execute("SELECT key, value FROM meta"))
schedule = {r: (steps, window) for r, steps, window in
            db.execute("SELECT role, steps, window_steps FROM schedule")}
# Two windows of 0.1/s x 30 s = 3 jobs, compress first; warm 5 s and measure 60 s of the others.
assert schedule[roles["batch"]] == (6, 6), schedule
assert schedule[roles["storage"]] == (20 * 65, 20 * 60), schedule
assert schedule[roles["netclient"]] == (2 * 65, 2 * 60), schedule
totals = {r: (intended, good) for r, intended, good in
          db.execute("SELECT role, intended, good FROM totals")}
assert totals[roles["batch"]] == (6, 6), totals
assert totals[roles["storage"]][0] == 20 * 65, totals
assert totals[roles["netclient"]][0] == 2 * 65, totals
order = json.loads(meta["jobs.storage-1"])
assert order["jobs"]["rate"] == 20_000_000 and order["measure_ns"] == 60 * 10**9, order
assert meta["check.batch-1.jobs_done"] == "6", meta
assert meta["check.batch-1.wrong.jobs"] == "0", meta
# The seconds of batch are the beginnings of its windows.
seconds = [i & 0xfffff for (i,) in db.execute("SELECT id FROM load WHERE role = 'batch' ORDER BY id")]
assert seconds == [10, 40], seconds
series = {n for (n,) in db.execute("SELECT DISTINCT name FROM series WHERE source = 'batch-1'")}
assert {"mem.available_bytes", "mem.oom_kills", "disk.read_bytes_s"} <= series, series
PY
nothing_left
echo "batch, storage and network: $(tail -n 1 "$work/events" | grep -o "\"score\":[0-9.]*")"
