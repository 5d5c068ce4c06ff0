#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Faults in a real run are found by name: the load client stands still for three seconds, a guest's link
# drops frames until its agent is given up; in a second run the client is killed. Faults that no run
# shows within minutes are planted in a copy of the real record. The first run is encrypted: stock openssl and
# the recipient's key alone read it; the audit says what it saw.
set -euo pipefail
source "$(dirname "$0")/../system/run-case.sh"
command -v openssl >/dev/null || { echo "no openssl"; exit 77; }

for who in ec rsa; do
    [ $who = ec ] && kind=(ec -pkeyopt ec_paramgen_curve:P-256) || kind=(rsa:2048)
    openssl req -x509 -newkey "${kind[@]}" -nodes -keyout "$work/$who.key" -out "$work/$who.pem" \
        -subj "/CN=$who" -days 2 2>/dev/null
done

# begin [OPTION]...: a run, and its client's process in $client once load is measured.
begin() {
    : >"$work/events"
    "$vtile" run --json --host embed --spec web "$@" >"$work/events" 2>"$work/err" &
    pid=$!
}
in_phase() { grep -q "\"type\":\"phase\".*\"phase\":\"$1\"" "$work/events" || run_ended; }
client() { pgrep -P "$pid" -f 'vtile-agent.*--client'; }
stood_still() { [ $(($(date +%s%N) - since)) -ge 3000000000 ]; }
lost() { grep -q '"type":"agent".*"source":"infra-1","level":"error"' "$work/events" || run_ended; }
codes() {
    tail -n 1 "$work/events" | jq -r '.verdict, (.reasons[] | .code + " " + .grade)'
}
has() { codes | grep -qx "$1" || die "no '$1' in: $(codes | tr '\n' ';')"; }

begin --recipient "$work/ec.pem" --recipient "$work/rsa.pem"
wait_until 300 in_phase measure || die "no measure phase"
stopped=$(client) || die "no client"
kill -STOP "$stopped"
since=$(date +%s%N)
wait_until 10 stood_still # too short for an agent to be given up
kill -CONT "$stopped"
ns=$(mark)
tap=$(ip -n "$ns" -o link show | sed -n 's/^[0-9]*: \(vt-[0-9a-f]*-001i\):.*/\1/p')
[ -n "$tap" ] || die "no tap of infra"
bridge=$(ip -n "$ns" -o link show "$tap" | sed -n 's/.* master \([^ ]*\) .*/\1/p')
ip -n "$ns" link set dev "$tap" nomaster
wait_until 60 lost || die "the silent agent is not given up"
ip -n "$ns" link set dev "$tap" master "$bridge"
ends 3 "a run with faults"
has INVALID
has "generator-late INVALID"
has "agent-lost INVALID"
has "samples-lost DEGRADED"
nothing_left

archive=$(tail -n 1 "$work/events" | jq -er .archive)
fingerprint=$("$vtile" results verify --json "$archive" | jq -er .signer)
mkdir "$work/x"
tar -xf "$archive" -C "$work/x"
(cd "$work/x" && sha256sum --quiet -c SHA256SUMS)
for who in ec rsa; do
    openssl cms -decrypt -binary -inform DER -in "$work/x/record.sqlite.zst.000.p7m" \
        -inkey "$work/$who.key" -recip "$work/$who.pem" | zstd -dq >"$work/$who.sqlite"
    VTILE_STATE=$work/elsewhere "$vtile" results decrypt --trust "$fingerprint" --key "$work/$who.key" \
        "$archive" "$work/$who.again"
    cmp "$work/$who.sqlite" "$work/$who.again" || die "$who: another record than openssl's"
done
VTILE_STATE=$work/elsewhere "$vtile" results verify --trust "$fingerprint" "$archive" || die "no key, no verify"
code=0
VTILE_STATE=$work/elsewhere "$vtile" results show --trust "$fingerprint" "$archive" >/dev/null 2>"$work/err" || code=$?
[ "$code" -eq 4 ] && grep -q 'no key here opens it' "$work/err" || die "shown without a key, or not told: $code"
"$vtile" results show "$archive" >/dev/null || die "this installation does not read its own"

code=0
"$vtile" results audit --json "$archive" >"$work/audit" || code=$?
[ "$code" -eq 3 ] || die "audit: exit code $code, not 3"
python3 - "$work/audit" <<'PY' || die "audit: $(cat "$work/audit")"
import json, sys
audit = json.load(open(sys.argv[1]))
state = {r["rule"]: r["state"] for r in audit["rules"]}
assert audit["conclusion"] == "not valid", audit["conclusion"]
assert state["verdict"] == state["full load"] == state["length"] == state["undegraded"] == "fail", state
for rule in ("archive", "signer", "recomputed", "spec text", "spec", "tiles", "preset", "offered", "seed",
             "published", "limits by", "settings"):
    assert state[rule] == "pass", (rule, state)
PY
python3 "$(dirname "$0")/plant.py" "$work/ec.sqlite" "$VTILE_BUILD/tests/judge" || die "planted faults"

begin
wait_until 300 in_phase ramp || die "no ramp"
kill -KILL "$(client)"
ends 4 "a run whose client was killed"
has INVALID
has "agent-lost INVALID"
has "failed INVALID"
nothing_left
