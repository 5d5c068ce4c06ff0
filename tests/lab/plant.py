# SPDX-License-Identifier: Apache-2.0
"""plant.py RECORD JUDGE VTILE: plants each fault that no run shows within minutes in a copy of a real
record, which is then sealed; the archive's verdict must name it, with its grade and number, and besides it
only what it named before. Prints one line a fault: code, grade."""
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile

WINDOW = ("time_ns >= (SELECT CAST(value AS INTEGER) FROM meta WHERE key='load.t0_ns')"
          " + (SELECT from_s FROM schedule LIMIT 1) * 1000000000")
GUEST = "(SELECT name FROM agent WHERE duty='guest' ORDER BY name LIMIT 1)"
CPU = f"(SELECT id FROM series WHERE name='cpu.user' AND source={GUEST})"
HOST = "(SELECT id FROM series WHERE name='cpu.user' AND source='host.1' AND tile=0)"
EVENT = ("INSERT INTO event(type, level, time_ns, tile, source, text, planned_ns) "
         "VALUES('agent', 2, 0, 0, 'web-1', 'silent', 0)")

# A reason that the run itself found: code, level (1 warning, 2 error), number, text.
REASON = ("INSERT INTO event(type, level, time_ns, tile, source, text, planned_ns, code, number) "
          "VALUES('verdict', 2, 0, 1, 'web-1', 'planted', 0, '{}', {})")

CLIENT = "(SELECT name FROM agent WHERE duty='client' ORDER BY name LIMIT 1)"
SERIES = "(SELECT id FROM series WHERE name='{}' AND tile=0 AND source=" + CLIENT + ")"
SECONDS = "UPDATE sample SET value={} WHERE series IN " + SERIES + " AND " + WINDOW
# What the load client says of itself.
SAYS = "UPDATE meta SET value=json_set(value, {}) WHERE key LIKE 'generator.%'"
MEASURED = "second >= (SELECT from_s FROM schedule LIMIT 1) AND second < (SELECT to_s FROM schedule LIMIT 1)"
BUCKETS = 36 * 128  # base/hist.h
TOP = 1 << 42


def leb(value):
    out = bytearray()
    while True:
        out.append(value & 0x7f | (0x80 if value > 0x7f else 0))
        value >>= 7
        if not value:
            return bytes(out)


def take(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7f) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def past_histogram(data, at):
    count, at = take(data, at)
    if count == 0:
        return at
    for _ in range(4):  # clipped, min, max, sum
        _, at = take(data, at)
    pairs, at = take(data, at)
    for _ in range(2 * pairs):
        _, at = take(data, at)
    return at


def without_values(data):
    """A row of load whose first operation has lost its response times; None: it had none."""
    length, at = take(data, 1)
    at += length
    for _ in range(6):
        _, at = take(data, at)
    return None if take(data, at)[0] == 0 else data[:at] + b"\0" + data[past_histogram(data, at):]


def with_clipped(data):
    """The same with one response time above the histogram's top; None: it has not exactly one."""
    length, at = take(data, 1)
    at += length
    for _ in range(6):
        _, at = take(data, at)
    if take(data, at)[0] != 1:
        return None
    one = b"".join(leb(v) for v in (1, 1, TOP, TOP, TOP, 1, BUCKETS - 1, 1))
    return data[:at] + one + data[past_histogram(data, at):]


# code, grade, number (None: any), SQL
FAULTS = [
    ("no-stable-storage", "DEGRADED", 0, "UPDATE meta SET value='tmpfs' WHERE key='storage'"),
    ("emulated-cpu", "DEGRADED", 0, "UPDATE meta SET value='tcg' WHERE key='accel'"),
    ("client-on-host", "DEGRADED", 0, "UPDATE meta SET value='host' WHERE key='client'"),
    ("clock-uncertain", "DEGRADED", 60_000_000,
     "UPDATE agent SET rtt_ns=120000000 WHERE duty='client'"),
    ("clock-moved", "DEGRADED", None,
     "UPDATE agent SET clock_offset_ns=clock_offset_ns + 1000000000 WHERE duty='client'"),
    ("clock-moved", "DEGRADED", None,
     f"UPDATE agent SET clock_offset_ns=clock_offset_ns - 3000000000 WHERE name={GUEST}"),
    ("samples-lost", "DEGRADED", None,
     f"DELETE FROM sample WHERE series IN {CPU} AND {WINDOW} AND id % 2 = 0"),
    ("samples-lost", "DEGRADED", 60, f"DELETE FROM sample WHERE series IN {HOST}"),
    ("tuning-drifted", "DEGRADED", 1,
     "INSERT INTO meta VALUES('tuning.drift.cat', 'L3:0=f wanted, ff found, 12.3 s to 20 s')"),
    ("record-overflow", "INVALID", 5, "UPDATE meta SET value='5' WHERE key='record.lost'"),
    ("record-unclosed", "INVALID", 0, "DELETE FROM meta WHERE key='record.lost'"),
    ("unfinished", "INVALID", 0, "DELETE FROM meta WHERE key='ended'"),
    ("interrupted", "INVALID", 0, "UPDATE meta SET value='interrupted' WHERE key='ended'"),
    ("failed", "INVALID", 0, "UPDATE meta SET value='failed: disk full' WHERE key='ended'"),
    ("facts-missing", "INVALID", 0, "DELETE FROM meta WHERE key='accel'"),
    ("offered-off", "INVALID", -7, "UPDATE schedule SET window_steps=window_steps + 7"),
    ("counts-off", "INVALID", 3, "UPDATE totals SET intended=intended + 3"),
    ("sent-early", "INVALID", 2, "UPDATE totals SET early=2"),
    ("no-load", "INVALID", 0, "DELETE FROM schedule"),
    ("gaps-off", "DEGRADED", 200_000, SAYS.format("'$.gap_distance', 200000")),
    ("connections-missing", "DEGRADED", 32, SAYS.format("'$.connections', 64, '$.open', 32000000")),
    ("connections-short", "DEGRADED", 60_000_000_000,
     SAYS.format("'$.watched_ns', 60000000000, '$.waiting_ns', 60000000000")),
    ("buffers-small", "DEGRADED", 4096, SAYS.format("'$.receive_bytes', 4096")),
    ("impossible-rate", "INVALID", None, SAYS.format("'$.connections', 0")),
    ("values-lost", "INVALID", None,
     f"UPDATE load SET data=without_values(data) WHERE {MEASURED} AND without_values(data) IS NOT NULL"),
    ("values-clipped", "DEGRADED", None,
     f"UPDATE load SET data=with_clipped(data) WHERE {MEASURED} AND with_clipped(data) IS NOT NULL"),
    ("generator-busy", "DEGRADED", None, SECONDS.format(0.95, "agent.cpu")),
    ("generator-waited", "DEGRADED", None, SECONDS.format(0.2, "agent.run_delay")),
    ("generator-stolen", "DEGRADED", None, SECONDS.format(0.5, "cpu.steal")),
    ("samples-lost", "DEGRADED", 60, "DELETE FROM sample WHERE series IN " + SERIES.format("agent.cpu")),
    ("agent-lost", "INVALID", 0, EVENT),
    ("counts-lost", "INVALID", 1, REASON.format("counts-lost", 1)),
    ("server-died", "INVALID", 1, REASON.format("server-died", 1)),
    ("vm-gone", "INVALID", 2, REASON.format("vm-gone", 2)),
    ("check-failed", "INVALID", 1, REASON.format("check-failed", 1)),
    ("vm-restarted", "INVALID", 1, REASON.format("vm-restarted", 1)),
]


def judged(judge, record):
    out = subprocess.run([judge, record], stdout=subprocess.PIPE, text=True, check=True).stdout
    return json.loads(out)["reasons"]


def sealed(judge, vtile, record, folder):
    """What an archive of that record says, as vtile reads it."""
    archive = os.path.join(folder, "planted.vtar")
    out = subprocess.run([judge, record, archive, os.path.join(folder, "keys")], stdout=subprocess.PIPE,
                         text=True, check=True).stdout
    out = subprocess.run([vtile, "results", "score", "--json", "--trust", out.strip(), archive],
                         stdout=subprocess.PIPE, text=True, check=True).stdout
    os.unlink(archive)
    return json.loads(out)["reasons"]


def main():
    record, judge, vtile = sys.argv[1:]
    before = {r["code"] for r in judged(judge, record)}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "record.sqlite")
        for code, grade, number, sql in FAULTS:
            shutil.copy(record, path)
            os.chmod(path, 0o600)
            db = sqlite3.connect(path)
            for function in (without_values, with_clipped):
                db.create_function(function.__name__, 1, function, deterministic=True)
            assert db.execute(sql).rowcount > 0, f"{code}: nothing was planted"
            db.commit()
            db.close()
            reasons = sealed(judge, vtile, path, folder)
            found = [r for r in reasons if r["code"] == code]
            assert found, (code, reasons)
            assert all(r["grade"] == grade for r in found if code not in before), found
            assert number is None or number in [r["number"] for r in found], (number, found)
            more = {r["code"] for r in reasons} - before - {code}
            assert not more, (code, more)
            print(code, grade)


main()
