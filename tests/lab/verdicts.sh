#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every reason of the verdict, provoked and found by name in a sealed archive; a table of them all at the end.
#   1 web: the load client stands still for three seconds, a guest's link drops frames until its agent is given
#     up. The record is encrypted: stock openssl and the recipient's key alone read it; the audit says what it saw.
#   2 mail in memory: the load client is killed.
#   3 mail on a data disk: its QEMU is killed, and the disk under it is what it was before the load, with messages
#     changed.
#   4 the same, and the disk is away when it is to be started again.
#   5 a tile that nobody drives; 6 the same, interrupted.
# Faults that no run shows within minutes are planted in a copy of the first run's record (plant.py).
set -euo pipefail
source "$(dirname "$0")/../system/run-case.sh"
command -v openssl >/dev/null || { echo "no openssl"; exit 77; }

for who in ec rsa; do
    [ $who = ec ] && kind=(ec -pkeyopt ec_paramgen_curve:P-256) || kind=(rsa:2048)
    openssl req -x509 -newkey "${kind[@]}" -nodes -keyout "$work/$who.key" -out "$work/$who.pem" \
        -subj "/CN=$who" -days 2 2>/dev/null
done
{
    sed -n '1,/^roles:/p' "$VTILE_SOURCE/tiles/spec/specs/specvirt.yaml"
    sed -n '/^  mail:/,/^  batch:/p' "$VTILE_SOURCE/tiles/spec/specs/specvirt.yaml" | sed '$d'
} >"$work/memory.yaml"
sed 's/^\( *tcg: .*\)}/\1, storage: disk, disk: 256 MiB}/' "$work/memory.yaml" >"$work/disk.yaml"
grep -q 'disk: 256 MiB' "$work/disk.yaml" || die "the spec has no data disk"

# begin [OPTION]...: a run in the background.
begin() {
    : >"$work/events"
    "$vtile" run --json --host embed "$@" >"$work/events" 2>"$work/err" &
    pid=$!
}
in_phase() { grep -q "\"type\":\"phase\".*\"phase\":\"$1\"" "$work/events" || run_ended; }
said() { grep -q "$1" "$work/events" || run_ended; }
client() { pgrep -P "$pid" -f 'vtile-agent.*--client'; }
qemu() { pgrep -f "guest=$(mark)-001-$1"; }
# Load of that role and second is in the record.
loaded() { said "\"role\":\"$1\".*\"second\":$2,"; }
stood_still() { [ $(($(date +%s%N) - since)) -ge 3000000000 ]; }
lost() { grep -q '"type":"agent".*"source":"infra-1","level":"warning"' "$work/events" || run_ended; }
archive() { tail -n 1 "$work/events" | jq -er .archive; }

# see HOW CODE...: the archive of the last run, judged anew, has these reasons.
see() {
    local how=$1 code
    shift
    "$vtile" results score --json "$(archive)" >"$work/judged" || die "no verdict of $how"
    for code in "$@"; do
        jq -er --arg code "$code" '[.reasons[] | select(.code == $code)][0] | .code + " " + .grade' \
            "$work/judged" >"$work/found" || die "$how: no '$code' in $(jq -c '[.reasons[].code]' "$work/judged")"
        echo "$(cat "$work/found") $how" >>"$work/seen"
    done
}

begin --spec web --recipient "$work/ec.pem" --recipient "$work/rsa.pem"
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
wait_until 120 lost || die "the silent agent is not given up"
ip -n "$ns" link set dev "$tap" master "$bridge"
ends 3 "a run with faults"
see "run: client stopped, link cut" emulated-cpu client-on-host generator-late agent-lost samples-lost
nothing_left

archive=$(archive)
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
python3 "$(dirname "$0")/plant.py" "$work/ec.sqlite" "$VTILE_BUILD/tests/judge" "$vtile" >"$work/planted" ||
    die "planted faults"
sed 's/$/ planted in a record/' "$work/planted" >>"$work/seen"

begin --spec "$work/memory.yaml"
wait_until 300 in_phase ramp || die "no ramp"
kill -KILL "$(client)"
ends 4 "a run whose client was killed"
see "run: mail in memory, client killed" no-stable-storage failed
nothing_left

begin --spec "$work/disk.yaml"
wait_until 300 loaded mail 1 || die "no load"
disk=$(find "$VTILE_STATE/disks" -name mail-1.raw)
stopped=$(qemu mail)
kill -STOP "$stopped"
cp --sparse=always "$disk" "$work/early.raw"
kill -CONT "$stopped"
wait_until 120 loaded mail 30 || die "the load did not go on"
kill -STOP "$stopped"
# Onto the same inode, which the next emulator opens; the length stays.
python3 - "$work/early.raw" "$disk" <<'PY' || die "no message stands on the disk"
import re, sys
data = open(sys.argv[1], "rb").read()
data, n = re.subn(rb"vtile-crc [0-9a-f]{8}\r\n", b"vtile-crc 00000000\r\n", data)
with open(sys.argv[2], "r+b") as disk:
    disk.write(data)
print(f"{n} messages changed")
sys.exit(n == 0)
PY
kill -KILL "$stopped"
ends 3 "a run whose data were changed"
see "run: disk set back and changed under the VM" vm-restarted lost-acknowledged wrong-contents wrong-answers
nothing_left

begin --spec "$work/disk.yaml"
wait_until 300 loaded mail 10 || die "no load"
disk=$(find "$VTILE_STATE/disks" -name mail-1.raw)
stopped=$(qemu mail)
kill -STOP "$stopped"
mv "$disk" "$disk.away"
kill -KILL "$stopped"
wait_until 60 said '"type":"verdict".*: start it again: ' || die "it was started without its disk"
mv "$disk.away" "$disk"
ends 3 "a run whose VM did not come back"
see "run: VM killed, its disk away" vm-restarted vm-gone kept-unknown
nothing_left

begin --spec origin
ends 3 "a run without load"
see "run: nobody drives the tile" no-load
nothing_left

begin --spec origin
wait_until 300 in_phase prepare || die "nothing was prepared"
kill -INT "$pid"
ends 130 "an interrupted run"
see "run: Ctrl-C" interrupted
nothing_left

# The list of reasons is the documentation's, so that neither can grow alone.
missing=0
while read -r code; do
    # Rather what was done to a run than what was planted.
    line=$(grep "^$code " "$work/seen" | sort -r | head -n 1) || line="$code - NOT SEEN"
    case $line in *"NOT SEEN") missing=$((missing + 1)) ;; esac
    # shellcheck disable=SC2086
    set -- $line
    printf '%-19s %-9s %s\n' "$1" "$2" "${*:3}"
done < <(sed -n 's/^| `\([a-z-]*\)` |.*/\1/p' "$VTILE_SOURCE/docs/verdict.md")
[ "$missing" -eq 0 ] || die "$missing reasons were not seen"
