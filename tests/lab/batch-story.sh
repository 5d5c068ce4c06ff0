#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Batch's story as told of a published run: with two vCPUs there are two workers, the second begins only
# in the last part of the run, memory then does not suffice, and batch fails; only whole runs showed it.
# The report must name that VM's memory as the cause.
# Twice the same jobs, once with too little memory and once with enough, in one window of a minute.
#   batch-story.sh [MIB-TOO-LITTLE [MIB-ENOUGH]]
set -euo pipefail
vtile=${VTILE_BUILD:?}/vtile
little=${1:-96} enough=${2:-256}
work=$(mktemp -d /tmp/vb.XXXXXX)
export VTILE_STATE=$work/s VTILE_RUNTIME=$work/r
trap '"$vtile" clean >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
die() {
    echo "batch-story.sh: $*" >&2
    exit 1
}

# run_with NAME MIB: its exit code in $code, its record in $work/NAME/record.sqlite
run_with() {
    cat >"$work/$1.yaml" <<YAML
name: story
description: batch alone, two vCPUs, $2 MiB
run: {load: 1, preset: smoke}
roles:
  batch:
    sizes:
      tcg: {memory: $2 MiB, vcpus: 2, data: 0 B}
      kvm: {memory: $2 MiB, vcpus: 2, data: 0 B}
    scored: true
    jobs:
      rate: 0.0667
      windows: {smoke: 60 s, turbo: 60 s, standard: 60 s}
      late_workers: 25 %
      compress: 512 KiB
      compile: 40
      error_share_max: 0 %
YAML
    code=0
    "$vtile" run --host embed --seed 7 --spec "$work/$1.yaml" --json >"$work/$1.events" || code=$?
    [ "$code" -le 1 ] || [ "$code" -eq 3 ] || die "the run failed: $(grep '"level":"error"' "$work/$1.events" | head -n 3)"
    local archive
    archive=$(python3 -c 'import json,sys; print(json.loads(open(sys.argv[1]).readlines()[-1])["archive"])' "$work/$1.events")
    cp "${archive%.vtar}.html" "$work/$1.html"
    mkdir "$work/$1"
    tar -xf "$archive" -C "$work/$1"
    cat "$work/$1"/record.sqlite.zst.* | zstd -dq >"$work/$1/record.sqlite"
}

# What the record alone says of that run.
tell() {
    python3 - "$work/$1/record.sqlite" <<'PY'
import sqlite3, sys
db = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro&immutable=1", uri=True)
facts = {k.split(".", 2)[2]: v for k, v in
         db.execute("SELECT key, value FROM meta WHERE key LIKE 'check.batch-1.%'")}
for name in ("jobs_done", "jobs_failed", "jobs_late", "jobs_killed_for_memory", "oom_kills", "memory_bytes", "first_failure"):
    print(f"  {name}: {facts.get(name)}")
(t0,) = db.execute("SELECT value FROM meta WHERE key = 'load.t0_ns'").fetchone()
for series in ("mem.available_bytes", "mem.pressure", "mem.oom_kills", "disk.read_bytes_s"):
    rows = db.execute("SELECT s.time_ns, s.value FROM sample s JOIN series x ON x.id = s.series "
                      "WHERE x.name = ? AND x.source = 'batch-1' AND s.value IS NOT NULL ORDER BY 1",
                      (series,)).fetchall()
    if not rows:
        print(f"  {series}: not sampled")
        continue
    worst = (min if series == "mem.available_bytes" else max)(rows, key=lambda r: r[1])
    print(f"  {series}: worst {worst[1]:.3f} at {(worst[0] - int(t0)) / 1e9:.0f} s")
PY
}

# fact NAME FACT
fact() {
    python3 - "$work/$1/record.sqlite" "check.batch-1.$2" <<'PY'
import sqlite3, sys
db = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro&immutable=1", uri=True)
print(db.execute("SELECT value FROM meta WHERE key = ?", (sys.argv[2],)).fetchone()[0])
PY
}

# Whether some task waited for memory in 3 of 10 seconds, over any ten.
pressed() {
    python3 - "$work/$1/record.sqlite" <<'PY'
import sqlite3, sys
db = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro&immutable=1", uri=True)
values = [v for (v,) in db.execute("SELECT s.value FROM sample s JOIN series x ON x.id = s.series WHERE "
                                   "x.name = 'mem.pressure' AND x.source = 'batch-1' ORDER BY s.time_ns") if v is not None]
sys.exit(not any(sum(values[i:i + 10]) >= 3 for i in range(len(values))))
PY
}

# The causes that the report of that run names, the first one first.
causes() {
    python3 - "$work/$1.html" <<'PY'
import html, re, sys
page = open(sys.argv[1], encoding="utf-8").read()
for item in re.findall(r"<ul class=\"causes\">(.*?)</ul>", page, re.S):
    for cause in re.findall(r"<li>(.*?)</li>", item, re.S):
        print(html.unescape(re.sub(r"<[^>]*>", "", cause)))
PY
}

"$vtile" image build >/dev/null
echo "too little memory, $little MiB:"
run_with little "$little"
tell little
[ "$code" -eq 1 ] || die "with $little MiB the exit code is $code: QoS must have failed (1)"
[ "$(fact little jobs_failed)" -gt 0 ] || die "no job was lost"
# Jobs are killed, or come late since the compiler's own pages are read from disk again and again.
[ "$(fact little oom_kills)" -gt 0 ] || pressed little ||
    die "nothing was killed for lack of memory, and nothing waited for it"
causes little >"$work/causes"
sed 's/^/  cause: /' "$work/causes"
head -n 1 "$work/causes" | grep -q 'memory of batch-1' || die "the report does not name the memory of batch-1 as the first cause"

echo "enough memory, $enough MiB:"
run_with enough "$enough"
tell enough
[ "$code" -eq 0 ] || die "with $enough MiB the exit code is $code: batch must pass"
[ "$(fact enough oom_kills)" -eq 0 ] || die "something was killed for lack of memory"
! pressed enough || die "something waited for memory"
causes enough >"$work/causes"
sed 's/^/  cause: /' "$work/causes"
! grep -q 'memory of' "$work/causes" || die "the report names memory as a cause where there is enough"
[ "$(fact enough jobs_done)" -eq 4 ] || die "not all four jobs are done"
echo "with $little MiB batch failed for lack of memory, as the report says; with $enough MiB it passed"
