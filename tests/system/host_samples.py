# SPDX-License-Identifier: Apache-2.0
"""host_samples.py follow WORK PID: reads WORK/events until the run PID has ended; at both ends of
measure it takes the CPU time of each QEMU and looks at its threads, into WORK/seen.
host_samples.py check WORK: holds the samples of the host in WORK/x/record.sqlite against that."""
import json
import os
import re
import sqlite3
import sys
import time

TICK = os.sysconf("SC_CLK_TCK")


def look(work):
    found = {}
    folder = f"{work}/s/embed/run/qemu"
    for name in os.listdir(folder):
        if not (match := re.fullmatch(r"vt-[0-9a-f]{6}-001-(\w+)\.pid", name)):
            continue
        pid = open(f"{folder}/{name}").read().strip()
        fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
        threads = [open(f"/proc/{pid}/task/{t}/comm").read() for t in os.listdir(f"/proc/{pid}/task")]
        found[match[1]] = {"cpu_s": (int(fields[11]) + int(fields[12])) / TICK,
                           "vcpus": sorted(m[1] for t in threads if (m := re.match(r"CPU (\d+)/", t)))}
    return found


def next_line(file, pid):
    """A whole line of a file that PID writes; "" once it has ended."""
    line = ""
    while not line.endswith("\n") and os.path.exists(f"/proc/{pid}"):
        line += file.readline()
        if not line.endswith("\n"):
            time.sleep(0.02)
    return line if line.endswith("\n") else line + file.readline()


def follow(work, pid):
    seen = {}
    with open(f"{work}/events") as events:
        while {"measure", "drain"} - seen.keys():
            line = next_line(events, pid)
            if not line:
                sys.exit(f"the run ended, and only {sorted(seen)} was seen")
            event = json.loads(line)
            if event["type"] == "phase" and event["phase"] in ("measure", "drain"):
                seen[event["phase"]] = look(work)
    with open(f"{work}/seen", "w") as file:
        json.dump(seen, file)


def check(work):
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
        have = [round((taken - t0) / 1e9) for taken, _ in values(name, role)]
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


if __name__ == "__main__":
    {"follow": follow, "check": check}[sys.argv[1]](*sys.argv[2:])
