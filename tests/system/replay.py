# SPDX-License-Identifier: Apache-2.0
"""replay.py RECORD SCHEDULE TILE ROLE: holds the server's request log against the schedule.

Each intended request was made exactly once, answered with 200, and not before its intended time.
The server stamps the end of a request with its wall clock in ms; the record says how far the
guest's clocks are from the controller's.
"""
import collections
import sqlite3
import sys

record, schedule, tile, role = sys.argv[1:5]
agent = f"{role}-{tile}"
db = sqlite3.connect(f"file:{record}?mode=ro", uri=True)
meta = dict(db.execute("SELECT key, value FROM meta"))
offset_ns, rtt_ns = db.execute(
    "SELECT clock_offset_ns, rtt_ns FROM agent WHERE name = ?", (agent,)).fetchone()
wall_ns = int(meta[f"config.{agent}.wall_offset_ns"])
t0_ns = int(meta["load.t0_ns"])

wanted = {}
for line in open(schedule):
    sequence, intended_ns, _ = line.split()
    wanted[int(sequence)] = int(intended_ns)

log = b"".join(row[0] for row in db.execute(
    "SELECT data FROM log WHERE source = ? AND name = 'nginx.requests' ORDER BY id", (agent,)))
seen = collections.Counter()
early = []
PROBE = 2**32 - 1
for line in log.decode().splitlines():
    msec, took, status, sequence, _ = line.split()
    if int(sequence) == PROBE:
        continue
    assert status == "200", line
    seen[int(sequence)] += 1
    # guest wall -> guest monotonic -> controller's monotonic -> since T0
    begin_ns = int((float(msec) - float(took)) * 1e9) - wall_ns - offset_ns - t0_ns
    # ms stamps are cut, not rounded, twice; the offset is good to half a round trip
    if begin_ns < wanted[int(sequence)] - rtt_ns / 2 - 2e6:
        early.append((sequence, begin_ns, wanted[int(sequence)]))

missing = sorted(set(wanted) - set(seen))
extra = sorted(set(seen) - set(wanted))
twice = sorted(s for s, n in seen.items() if n > 1)
print(f"{len(wanted)} intended, {sum(seen.values())} in the log, missing {len(missing)}, "
      f"extra {len(extra)}, twice {len(twice)}, early {len(early)}")
assert wanted and not missing and not extra and not twice, (missing[:5], extra[:5], twice[:5])
assert not early, early[:5]
