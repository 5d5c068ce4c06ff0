#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# needs: vm
# timeout: 900
# One tile from nothing to a sealed archive, and all that its users would check: result line, archive,
# score recomputed offline, the server's log replayed against the schedule, the host's configuration and
# its samples held against other tools, a second run refused while the first holds the host, nothing left
# behind.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/run-case.sh"
for tool in sqlite3 lscpu; do
    command -v "$tool" >/dev/null || { echo "needs $tool"; exit 77; }
done
unset VTILE_SPEC VTILE_TILES VTILE_LOAD VTILE_PRESET VTILE_SEED VTILE_HOST VTILE_PROFILE VTILE_CONFIG

in_phase() {
    grep -q "\"type\":\"phase\".*\"phase\":\"$1\"" "$work/events" || run_ended
}

cd "$work"
printf '# ours\nseed: 42\n' >vtile.yaml
VTILE_TILES=1 "$vtile" run --json --host embed --spec web >"$work/events" 2>"$work/err" &
pid=$!
python3 "$here/host_samples.py" follow "$work" "$pid" &
follower=$!
wait_until 400 in_phase measure || die "no measure phase"

# A second run says who holds the host and changes nothing.
code=0
"$vtile" run --host embed --spec web >"$work/second" 2>&1 || code=$?
[ "$code" -ne 0 ] || die "a second run was let in"
grep -q "$pid" "$work/second" || die "the second run does not say who holds the host: $(cat "$work/second")"

ends 0
wait "$follower" || die "not followed to the end of measure"

python3 - "$work/events" <<'PY' || die "result line"
import json, sys
events = [json.loads(line) for line in open(sys.argv[1])]
last = events[-1]
assert all(e["v"] == 1 for e in events)
assert last["type"] == "result", last
assert last["verdict"] == "DEGRADED", last          # emulated CPU, client on the host
codes = {r["code"] for r in last["reasons"]}
assert codes <= {"emulated-cpu", "client-on-host", "no-stable-storage"}, codes
assert last["qos"] == "pass", last
assert 0 < last["score"] <= 100, last
assert last["tiles"][0]["tile"] == 1 and last["tiles"][0]["web"]["rate"] <= 9.05, last
phases = [e["phase"] for e in events if e["type"] == "phase"]
want = "plan preflight open tune-host deploy tune-live prepare ramp warm measure drain check score seal teardown"
assert phases == want.split(), phases
PY
archive=$(python3 -c 'import json,sys; print(json.loads(open(sys.argv[1]).readlines()[-1])["archive"])' "$work/events")
[ -s "$archive" ] || die "no archive at $archive"

"$vtile" results verify "$archive" || die "verify"
"$vtile" results score "$archive" --json >"$work/score" || die "score"
python3 - "$work/events" "$work/score" <<'PY' || die "recomputed score"
import json, sys
said = json.loads(open(sys.argv[1]).readlines()[-1])
again = json.loads(open(sys.argv[2]).readlines()[-1])
for key in ("run", "verdict", "qos", "score", "tiles"):
    assert said[key] == again[key], (key, said[key], again[key])
PY

# The report beside it is what the archive gives again, and names it.
report=${archive%.vtar}.html
"$vtile" results report --output "$work/report.html" "$archive" || die "report"
cmp "$report" "$work/report.html" || die "another report than at the end of the run"
grep -q "$(sha256sum "$archive" | cut -d ' ' -f 1)" "$report" || die "the report does not name its archive"

# The record, unpacked by other people's tools alone.
mkdir "$work/x"
tar -xf "$archive" -C "$work/x"
(cd "$work/x" && sha256sum --quiet -c SHA256SUMS && cat record.sqlite.zst.* | zstd -dq >record.sqlite)
"$VTILE_BUILD/tests/redraw" "$work/x/record.sqlite" 1 web >"$work/schedule" || die "redraw"
python3 "$here/replay.py" "$work/x/record.sqlite" "$work/schedule" 1 web || die "replay"
source "$here/host-config.sh"
python3 "$here/host_samples.py" check "$work" || die "samples of the host"

nothing_left
echo "score $(python3 -c 'import json,sys; print(json.loads(open(sys.argv[1]).readlines()[-1])["score"])' "$work/events")"
