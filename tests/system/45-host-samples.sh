#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# needs: vm
# timeout: 900
# What a run's record says of its host: its configuration as other tools tell it, where each setting
# came from, and samples of each second of measure, whose CPU time is held against /proc.
set -euo pipefail

[ "$(id -u)" -eq 0 ] || { echo "needs root"; exit 77; }
for tool in sqlite3 lscpu; do
    command -v "$tool" >/dev/null || { echo "needs $tool"; exit 77; }
done
vtile=$VTILE_BUILD/vtile
work=$(mktemp -d /tmp/vs.XXXXXX)
unset VTILE_SPEC VTILE_TILES VTILE_LOAD VTILE_PRESET VTILE_SEED VTILE_HOST VTILE_PROFILE VTILE_CONFIG
export VTILE_STATE=$work/s VTILE_RUNTIME=$work/r
pid=
clean_up() {
    [ -z "$pid" ] || kill -INT "$pid" 2>/dev/null || true
    [ -z "$pid" ] || wait "$pid" 2>/dev/null || true
    "$vtile" clean >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap clean_up EXIT
die() {
    echo "FAILED: $*"
    grep -v '"type":"[sl]' "$work/events" 2>/dev/null | tail -n 20 || true
    exit 1
}

"$vtile" image build >/dev/null
cd "$work"
printf '# ours\nseed: 45\n' >vtile.yaml
mkfifo pipe
VTILE_TILES=1 "$vtile" run --json --host embed --spec web >pipe 2>"$work/err" &
pid=$!

# Reads along; at both ends of measure it takes the CPU time of each QEMU and looks at its threads.
python3 - "$work" <<'PY' || die "reading along: $(cat "$work/err")"
import json, os, re, sys
work = sys.argv[1]
tick = os.sysconf("SC_CLK_TCK")

def look():
    found = {}
    folder = f"{work}/s/embed/run/qemu"
    for name in os.listdir(folder):
        if not (match := re.fullmatch(r"vt-[0-9a-f]{6}-001-(\w+)\.pid", name)):
            continue
        pid = open(f"{folder}/{name}").read().strip()
        fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
        threads = [open(f"/proc/{pid}/task/{t}/comm").read() for t in os.listdir(f"/proc/{pid}/task")]
        found[match[1]] = {"cpu_s": (int(fields[11]) + int(fields[12])) / tick,
                           "vcpus": sorted(m[1] for t in threads if (m := re.match(r"CPU (\d+)/", t)))}
    return found

seen = {}
with open(f"{work}/pipe") as pipe, open(f"{work}/events", "w") as events:
    for line in pipe:
        events.write(line)
        event = json.loads(line)
        if event["type"] == "phase" and event["phase"] in ("measure", "drain"):
            seen[event["phase"]] = look()
json.dump(seen, open(f"{work}/seen", "w"))
assert {"measure", "drain"} <= seen.keys(), seen.keys()
PY
code=0
wait "$pid" || code=$?
pid=
[ "$code" -eq 0 ] || die "exit code $code: $(cat "$work/err")"

archive=$(python3 -c 'import json,sys; print(json.loads(open(sys.argv[1]).readlines()[-1])["archive"])' "$work/events")
mkdir x
tar -xf "$archive" -C x
cat x/record.sqlite.zst.* | zstd -dq >x/record.sqlite
fact() {
    sqlite3 x/record.sqlite "SELECT value FROM meta WHERE key = 'config.$1'"
}
expect() {
    [ "$(fact "$1")" = "$2" ] || die "config.$1 is '$(fact "$1")', not '$2'"
}

# The host, as uname, lscpu and others see it.
expect host.1.kernel "$(uname -r) $(uname -m)"
expect host.1.cpus "$(nproc --all)"
expect host.1.sockets "$(lscpu -p=SOCKET | grep -v '^#' | sort -u | wc -l)"
expect host.1.numa.nodes "$(find /sys/devices/system/node -maxdepth 1 -name 'node[0-9]*' | wc -l)"
expect host.1.distribution "$(sed -n 's/^PRETTY_NAME="\(.*\)"$/\1/p' /etc/os-release)"
expect host.1.cpu "$(sed -n 's/^model name\t: //p' /proc/cpuinfo | head -n 1)"
case $(fact host.1.machine) in pc-q35-*) ;; *) die "machine type: $(fact host.1.machine)" ;; esac
for name in libvirt qemu hypervisor governor smt thp ksm cmdline cache.l3 cpu.model cores threads memory; do
    [ -n "$(fact "host.1.$name")" ] || die "nothing about $name"
done

# Settings and their sources, in the record and for people.
expect settings.seed 45
expect settings.seed.source vtile.yaml:2:7
expect settings.host.source --host
expect settings.tiles.source VTILE_TILES
expect settings.profile.source default
case $(fact settings.load.source) in 'spec web:'[0-9]*) ;; *) die "source of load: $(fact settings.load.source)" ;; esac
"$vtile" results show "$archive" >shown
grep -Eq '^  seed +45 +vtile\.yaml:2:7$' shown || die "the seed's source is not shown"
grep -Eq '^  host +embed +--host$' shown || die "the host's source is not shown"

python3 - "$work" <<'PY' || die "samples"
import json, os, sqlite3, sys
work = sys.argv[1]
db = sqlite3.connect(f"file:{work}/x/record.sqlite?mode=ro&immutable=1", uri=True)
seen = json.load(open(f"{work}/seen"))
t0 = int(db.execute("SELECT value FROM meta WHERE key = 'load.t0_ns'").fetchone()[0])
from_s, to_s = db.execute("SELECT from_s, to_s FROM schedule").fetchone()

def values(name, role=None):
    return db.execute("SELECT time_ns, value FROM series JOIN sample ON sample.series = series.id WHERE"
                      " source = 'host.1' AND phase = 'measure' AND name = ? AND role IS ? AND value IS"
                      " NOT NULL ORDER BY time_ns", (name, role)).fetchall()

def every_second(name, role=None):
    # Each is taken 50 ms before the end of the second that it covers, or a little later.
    have = [round((time - t0) / 1e9) for time, _ in values(name, role)]
    missing = set(range(from_s + 1, to_s + 1)) - set(have)
    assert not missing, (name, role, sorted(missing))
    return sum(value for _, value in values(name, role))

cpus = os.cpu_count()
kinds = ("user", "system", "idle", "iowait", "steal")
total = sum(every_second(f"cpu.{kind}") for kind in kinds)
assert abs(total / (to_s - from_s) / cpus - 1) < 0.05, total
for kind in kinds:
    parts = sum(every_second(f"cpu.{n}.{kind}") for n in range(cpus))
    whole = every_second(f"cpu.{kind}")
    assert abs(parts - whole) < 0.02 * whole + 0.1, (kind, parts, whole)
for name in ("mem.available_bytes", "mem.cached_bytes", "swap.in_bytes_s", "swap.out_bytes_s"):
    every_second(name)
for file in ("memory", "io"):
    if os.path.exists(f"/proc/pressure/{file}"):
        every_second(f"psi.{file}.full")

# All that a QEMU ran, by its threads, against what its process says.
assert {"infra", "web"} == seen["measure"].keys() == seen["drain"].keys(), seen
for role, before in seen["measure"].items():
    assert before["vcpus"], role
    cpu = every_second("emulator.cpu", role)
    for n in before["vcpus"]:
        cpu += every_second(f"vcpu.{n}.cpu", role)
        delay = every_second(f"vcpu.{n}.run_delay", role)
        assert 0 <= delay < to_s - from_s, (role, n, delay)
    expected = seen["drain"][role]["cpu_s"] - before["cpu_s"]
    print(f"{role}: {cpu:.2f} CPU s sampled, {expected:.2f} by /proc")
    assert abs(cpu - expected) < 0.05 * expected + 0.15, (role, cpu, expected)

phases = {row[0] for row in db.execute("SELECT DISTINCT phase FROM series JOIN sample ON sample.series ="
                                       " series.id WHERE source = 'host.1'")}
assert {"ramp", "warm", "measure"} <= phases <= {"ramp", "warm", "measure", "drain"}, phases
# What libvirt alone knows, every five seconds.
assert len(values("libvirt.net.0.rx.bytes", "web")) >= (to_s - from_s) // 5 - 2
lacking = dict(db.execute("SELECT name, why FROM series JOIN sample ON sample.series = series.id WHERE"
                          " value IS NULL AND phase = 'measure'"))
assert all(why and why.startswith("not available, because ") for why in lacking.values()), lacking
if db.execute("SELECT value FROM meta WHERE key = 'accel'").fetchone()[0] == "tcg":
    assert "emulated" in lacking["cpu.guest"] and "emulated" in lacking["cpu.steal"], lacking
PY
