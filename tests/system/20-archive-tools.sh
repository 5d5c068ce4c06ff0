#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The commands of docs/archive.md, and they alone, open the golden archive and refuse a changed one;
# vtile agrees on both.
set -euo pipefail
for tool in tar sha256sum zstd openssl python3; do
    command -v "$tool" >/dev/null || { echo "skipped: no $tool"; exit 77; }
done
. "$(dirname "$0")/wait-until.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
vtile=$VTILE_BUILD/vtile
golden=$VTILE_SOURCE/tests/unit/results/golden
export VTILE_STATE=$work/state
fingerprint=$(cat "$golden/v1.fingerprint")
die() { echo "FAILED: $*"; exit 1; }

sed -n '/^```sh$/,/^```$/p' "$VTILE_SOURCE/docs/archive.md" | grep -v '^```' >"$work/commands"
[ "$(wc -l <"$work/commands")" -ge 6 ] || die "docs/archive.md shows no commands"

# with_tools ARCHIVE: in a folder of its own
with_tools() {
    rm -rf "$work/x"
    mkdir "$work/x"
    (cd "$work/x" && archive=$1 fingerprint=$fingerprint bash -e "$work/commands") >"$work/log" 2>&1
}
with_vtile() { "$vtile" results verify "$1" --trust "$fingerprint" >"$work/log" 2>&1; }

with_tools "$golden/v1.vtar" || die "stock tools: $(cat "$work/log")"
with_vtile "$golden/v1.vtar" || die "vtile: $(cat "$work/log")"
python3 - "$work/x" <<'PY' || die "contents"
import json, os, sqlite3, sys
os.chdir(sys.argv[1])
manifest = json.load(open("manifest.json"))
parts = [p["name"] for p in manifest["parts"]]
assert sorted(os.listdir()) == sorted(
    ["SHA256SUMS", "SHA256SUMS.p7s", "manifest.json", "signer.pem", "record.sqlite"] + parts)
assert os.path.getsize("record.sqlite") == manifest["record"]["bytes"]
db = sqlite3.connect("file:record.sqlite?mode=ro", uri=True)
assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
assert db.execute("SELECT value FROM meta WHERE key='run'").fetchone()[0] == manifest["run"]
PY

# refused HOW: both must refuse $work/bad
refused() {
    if with_tools "$work/bad"; then die "stock tools accept $1"; fi
    if with_vtile "$work/bad"; then die "vtile accepts $1"; fi
}
change() { # OFFSET BYTE
    cp "$golden/v1.vtar" "$work/bad"
    printf '%b' "\\x$2" | dd of="$work/bad" bs=1 seek="$1" conv=notrunc status=none
}
at() { grep -abo -- "$1" "$golden/v1.vtar" | head -1 | cut -d: -f1; }
change $(($(at '  manifest.json') - 1)) 5a
refused "a changed sum"
change $(($(at '"format"') + 2)) 46
refused "a changed manifest"
change $(($(at 'record.sqlite.zst.000$' || at 'record.sqlite.zst.000') + 0)) 52
refused "another name in SHA256SUMS"
change $(($(stat -c %s "$golden/v1.vtar") - 1600)) 00
refused "a changed part"

# Line ends turned into CRLF inside SHA256SUMS, header made to fit: without -binary stock openssl would
# take it for the same text.
python3 - "$golden/v1.vtar" "$work/bad" <<'PY'
import io, sys, tarfile
source = tarfile.open(sys.argv[1])
target = tarfile.open(sys.argv[2], "w", format=tarfile.USTAR_FORMAT)
for member in source:
    data = source.extractfile(member).read()
    if member.name == "SHA256SUMS":
        data = data.replace(b"\n", b"\r\n")
    member.size = len(data)
    target.addfile(member, io.BytesIO(data))
target.close()
PY
refused "CRLF in SHA256SUMS"

# The same members in tar's own dress: stock tools do not mind, vtile has one form only.
mkdir "$work/again"
tar -xf "$golden/v1.vtar" -C "$work/again"
(cd "$work/again" && tar --format=ustar -cf "$work/bad" SHA256SUMS SHA256SUMS.p7s manifest.json record.sqlite.zst.000)
with_tools "$work/bad" || die "stock tools refuse a repacked archive: $(cat "$work/log")"
if with_vtile "$work/bad"; then die "vtile accepts a repacked archive"; fi
grep -q 'SHA256SUMS' "$work/log" || die "the member is not named: $(cat "$work/log")"

# Digits computed again, and an unknown signer refused, by exit code.
"$vtile" results score "$golden/v1.vtar" --trust "$fingerprint" --json >"$work/score" || die "score"
python3 -c '
import json, sys
[r] = [m for m in map(json.loads, open(sys.argv[1])) if m["type"] == "result"]
assert r["score"] == 185.71, r' "$work/score" || die "digits"
code=0
"$vtile" results verify "$golden/v1.vtar" >"$work/log" 2>&1 || code=$?
[ "$code" -eq 4 ] || die "an unknown signer gives exit code $code"
grep -q "signed by unknown $fingerprint" "$work/log" || die "$(cat "$work/log")"
[ "$("$vtile" results score --app 167.05 --web 173.62 --mail 127.53)" = 93.71 ] || die "published tile"
[ ! -e "$VTILE_STATE" ] || die "reading made a state folder"

# A report replaces a file, and nothing else: what leads elsewhere is written, what stands beside it is left alone.
report() { "$vtile" results report "$golden/v1.vtar" --trust "$fingerprint" --output "$1" >"$work/log" || die "report $1"; }
is_report() { [ "$(head -c 15 "$1")" = "<!DOCTYPE html>" ] || die "no report in $1"; }
mkdir "$work/r"
mkfifo "$work/r/fifo"
ln -s target "$work/r/link"
echo mine >"$work/r/plain.new"
echo old >"$work/r/plain"
exec 9<>"$work/r/fifo" 8<"$work/r/fifo" # it has a reader from now on
timeout 60 cat <&8 >"$work/read" 9>&- &
report "$work/r/fifo"
exec 9>&- 8<&-
wait "$!"
is_report "$work/read"
[ -p "$work/r/fifo" ] || die "a fifo was replaced"
report "$work/r/link"
is_report "$work/r/target"
[ -L "$work/r/link" ] || die "a link was replaced"
report "$work/r/plain"
is_report "$work/r/plain"
[ "$(cat "$work/r/plain.new")" = mine ] || die "a file beside the report was changed"
[ "$(find "$work/r" -mindepth 1 | wc -l)" -eq 5 ] || die "left behind: $(find "$work/r")"

# As much of a run's id as no other has is enough; of one that goes on it is said how to follow it.
mkdir -p "$VTILE_STATE/results"
cp "$golden/v1.vtar" "$VTILE_STATE/results/1a2b3c4d5e6f.vtar"
cp "$golden/v1.vtar" "$VTILE_STATE/results/1a9b3c4d5e6f.vtar"
# answers CODE WHAT RUN
answers() {
    local code=0
    "$vtile" results verify --trust "$fingerprint" "$3" >"$work/log" 2>&1 || code=$?
    { [ "$code" -eq "$1" ] && grep -qF "$2" "$work/log"; } || die "run '$3': $code: $(cat "$work/log")"
}
answers 0 1a2b3c4d5e6f.vtar 1a2
answers 0 1a9b3c4d5e6f.vtar 1a9b3c4d5e6f
answers 2 '2 runs begin with 1a: name one of ' 1a
answers 2 'no run 1b: ' 1b
answers 2 'no run : ' ''
export VTILE_RUNTIME=$work/runtime
mkdir -p "$VTILE_RUNTIME/1c2b3c4d5e6f"
timeout 60 python3 -c 'import signal, socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen()
print("listens", flush=True)
signal.pause()' "$VTILE_RUNTIME/1c2b3c4d5e6f/watch" >"$work/listens" &
going=$!
listening() { [ -s "$work/listens" ]; }
wait_until 20 listening || die "no socket"
answers 2 'run 1c2b3c4d5e6f still goes on and has no archive yet; `vtile watch 1c2b3c4d5e6f` follows it' 1c
kill "$going"
# What cannot be written is named as it was given.
code=0
"$vtile" results report "$golden/v1.vtar" --trust "$fingerprint" --output "$work/none/x.html" >"$work/log" 2>&1 || code=$?
[ "$code" -eq 4 ] && grep -q "write $work/none/x.html: " "$work/log" || die "$code: $(cat "$work/log")"

# No option waits for the writer or the reader of a fifo that it is given: it is refused, by name.
fifo=$work/r/fifo
unwaited() {
    local code=0
    timeout 20 "$vtile" "$@" >"$work/out" 2>"$work/log" || code=$?
    [ "$code" -ne 0 ] && [ "$code" -ne 124 ] && grep -q "$fifo" "$work/out" "$work/log" ||
        die "$*: $code: $(cat "$work/log")"
}
unwaited results decrypt --trust "$fingerprint" --key "$fifo" "$golden/v1.vtar" "$work/never"
unwaited results decrypt --trust "$fingerprint" "$golden/v1.vtar" "$fifo"
unwaited results show "$fifo"
unwaited results report --trust "$fingerprint" --output "$fifo" "$golden/v1.vtar"
unwaited run --spec "$fifo" --print-config
unwaited run --config "$fifo" --print-config
unwaited run --recipient "$fifo" --host embed
unwaited host check --spec "$fifo"
