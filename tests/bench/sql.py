# SPDX-License-Identifier: Apache-2.0
"""sql.py [PAIRS [SECONDS [RATE...]]]: the load engine over libpq beside pgbench --rate.

A PostgreSQL 15 of its own on loopback, with the database role's schema and settings, on the last
CPU; the clients on the first. Both ask the driver's own statements, prepared, four reads to a
write, over 16 kept connections, as a Poisson process of RATE a second (200 and 1000 unless said
otherwise). Alternated rounds (nine of 10 s) of the engine, pgbench, and pgbench with its log, which
costs it CPU but alone gives percentiles. CPU a transaction is of the whole client process, until
it has ended; the engine's holds histograms and the check of each answer. Prints a table and, as
its last line, JSON.
"""
import glob
import json
import math
import os
import pwd
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

BUILD = os.environ["VTILE_BUILD"]
FILES = os.path.join(os.environ["VTILE_SOURCE"], "tiles/roles/database/files")
BIN = "/usr/lib/postgresql/15/bin"
ENGINE = f"{BUILD}/tests/sql_engine"
PAIRS = int(sys.argv[1]) if len(sys.argv) > 1 else 9
SECONDS = int(sys.argv[2]) if len(sys.argv) > 2 else 10
RATES = [int(word) for word in sys.argv[3:]] or [200, 1000]
CONNECTIONS = 16
TILE = 1
ADDRESS = f"127.84.{os.getpid() // 250 % 250}.{os.getpid() % 250 + 1}"
DEADLINE_S = 60
CPUS = sorted(os.sched_getaffinity(0))
# What the driver draws for each value of its statements, in pgbench's words. A write's sequence
# must not come twice.
VALUES = [["random(1, 4611686018427387903)", "random(0, 4294967295)"],
          ["random(1, 4611686018427387903)", "random(1, 1000)", "random(1, 23)"]]
WEIGHTS = [80, 20]


def die(text):
    sys.exit(f"sql: {text}")


def fill(name, to, values):
    with open(f"{FILES}/{name}", encoding="utf-8") as file:
        text = file.read()
    for key, value in values.items():
        text = text.replace(f"@{key}@", str(value))
    with open(to, "w", encoding="utf-8") as file:
        file.write(text)


class Server:
    def __init__(self, work):
        self.work = work
        user = pwd.getpwnam("postgres") if os.getuid() == 0 else pwd.getpwuid(os.getuid())
        self.as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} \
            if os.getuid() == 0 else {}
        self.log = open(f"{work}/log", "w", encoding="utf-8")
        os.chmod(work, 0o755)  # the server's user must get through
        subprocess.run(["sh", f"{FILES}/image.sh", work], check=True, stderr=self.log)
        os.mkdir(f"{work}/run")
        os.chown(f"{work}/run", user.pw_uid, user.pw_gid)
        values = {"RUN": f"{work}/run", "ADDRESS": ADDRESS, "SHARED_BUFFERS_MIB": 32, "WAL_MIB": 64,
                  "APPS": f"host postgres app{TILE} 127.0.0.0/8 trust", "TILE": TILE, "SEED": 1,
                  "ITEMS": 1000, "SUPPLIERS": 50, "CUSTOMERS": 400, "ORDERS": 10000}
        for name in ("pg_hba.conf.in", "postgresql.conf.in", "schema.sql", "functions.sql"):
            fill(name, f"{work}/run/{name.removesuffix('.in')}", values)
        command = ["taskset", "-c", str(CPUS[-1]), f"{BIN}/postgres", "-D", f"{work}/cluster", "-c",
                   f"config_file={work}/run/postgresql.conf"]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, **self.as_user)
        end = time.monotonic() + DEADLINE_S
        while self.psql("-c", "SELECT 1", check=False).returncode != 0:
            if time.monotonic() > end or self.process.poll() is not None:
                die(f"the server does not answer: see {work}/log")
            time.sleep(0.1)
        for name in ("schema.sql", "functions.sql"):
            self.psql("-f", f"{work}/run/{name}")

    def psql(self, option, what, check=True):
        command = [f"{BIN}/psql", "-XAqt", "-v", "ON_ERROR_STOP=1", "-h", f"{self.work}/run", "-U",
                   "postgres", "-d", "postgres", option, what]
        return subprocess.run(command, check=check, stdout=subprocess.DEVNULL, stderr=self.log,
                              **self.as_user)

    def reset(self):
        """Sequences may come again, and nobody's writes make the next one's slower."""
        self.psql("-c", f"TRUNCATE tile{TILE}.work_orders")
        self.psql("-c", "VACUUM ANALYZE")
        self.psql("-c", "CHECKPOINT")

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()


def run_client(command, cwd):
    """Standard output, and CPU seconds until its end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    env = dict(os.environ, PGSSLMODE="disable", PGGSSENCMODE="disable")
    done = subprocess.run(["taskset", "-c", str(CPUS[0]), *command], cwd=cwd, env=env, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        die(f"{command[0]}: {done.stderr}")
    return done.stdout, (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def engine(_, rate):
    out, cpu = run_client([ENGINE, ADDRESS, str(TILE), str(rate), str(SECONDS), str(CONNECTIONS)],
                          None)
    said = json.loads(out)
    if said["good"] != said["intended"]:
        die(f"the engine's answers are not all good: {said['first_failure']}")
    return {"n": said["good"], "cpu_us": cpu / said["good"] * 1e6,
            "response": [x / 1e6 for x in said["response"]],
            "service": [x / 1e6 for x in said["service"]],
            "wake_lag": [x / 1e6 for x in said["wake_lag"]]}


def write_scripts(work):
    statements = subprocess.run([ENGINE, "statements"], check=True, text=True,
                                stdout=subprocess.PIPE).stdout.splitlines()
    words = []
    for i, (statement, values, weight) in enumerate(zip(statements, VALUES, WEIGHTS, strict=True)):
        lines = []
        for v, draw in enumerate(values, 1):
            lines.append(f"\\set v{v} {draw}")
            statement = statement.replace(f"${v}", f":v{v}")
        with open(f"{work}/{i}.sql", "w", encoding="utf-8") as file:
            file.write("\n".join([*lines, statement + ";", ""]))
        words += ["-f", f"{work}/{i}.sql@{weight}"]
    return words


def pgbench(work, rate, *words):
    command = [f"{BIN}/pgbench", "-n", "-M", "prepared", "-c", str(CONNECTIONS), "-j", "1", "-R",
               str(rate), "-T", str(SECONDS), "-h", ADDRESS, "-U", f"app{TILE}",
               *write_scripts(work), *words, "postgres"]
    out, cpu = run_client(command, work)
    n = next(int(line.split(":")[1]) for line in out.splitlines()
             if line.startswith("number of transactions actually processed"))
    if "number of failed transactions: 0 " not in out:
        die(f"pgbench: {out}")
    return {"n": n, "cpu_us": cpu / n * 1e6}


def at(values, q):
    """Nearest rank."""
    return values[max(1, math.ceil(q * len(values))) - 1]


def pgbench_logged(work, rate):
    """Columns: client, number, us from the scheduled time, script, s, us, us of schedule lag."""
    said = pgbench(work, rate, "-l", f"--log-prefix={work}/tx")
    rows = []
    for path in glob.glob(f"{work}/tx.*"):
        with open(path, encoding="utf-8") as file:
            rows += [line.split() for line in file]
        os.unlink(path)
    if len(rows) != said["n"]:
        die(f"pgbench's log has {len(rows)} of {said['n']} transactions")
    columns = {"response": [int(r[2]) for r in rows], "wake_lag": [int(r[6]) for r in rows],
               "service": [int(r[2]) - int(r[6]) for r in rows]}
    for name, column in columns.items():
        column.sort()
        said[name] = [at(column, q) / 1000 for q in (0.5, 0.9, 0.99, 0.999)]
    return said


SIDES = (engine, pgbench, pgbench_logged)
# Student's t for a one-sided bound of 95 %, by degrees of freedom (any statistics table).
T95 = {4: 2.132, 5: 2.015, 6: 1.943, 7: 1.895, 8: 1.860, 9: 1.833, 10: 1.812, 11: 1.796, 12: 1.782,
       13: 1.771, 14: 1.761, 15: 1.753, 19: 1.729, 24: 1.711, 29: 1.699}


def upper_bound(ratios):
    """Of the mean of log ratios, back as a ratio."""
    logs = [math.log(r) for r in ratios]
    return math.exp(statistics.mean(logs) + T95.get(len(logs) - 1, 2.132) *
                    statistics.stdev(logs) / math.sqrt(len(logs)))


def measure(server, work, rate):
    rounds = []
    for i in range(PAIRS):
        order = SIDES if i % 2 == 0 else SIDES[::-1]
        result = {}
        for side in order:
            server.reset()
            result[side.__name__] = side(work, rate)
        rounds.append(result)
        print(f"{rate}/s, round {i + 1}: CPU us a transaction: " +
              ", ".join(f"{name} {said['cpu_us']:.1f}" for name, said in sorted(result.items())),
              flush=True)
    ratios = [r["engine"]["cpu_us"] / r["pgbench"]["cpu_us"] for r in rounds]
    row = {"rate": rate, "cpu_ratio_median": round(statistics.median(ratios), 3),
           "cpu_ratio_upper95": round(upper_bound(ratios), 3) if PAIRS > 4 else None}
    for side in SIDES:
        said = [r[side.__name__] for r in rounds]
        row[side.__name__] = {"cpu_us": round(statistics.median(s["cpu_us"] for s in said), 1),
                              "n": sum(s["n"] for s in said)}
        for name in ("response", "service", "wake_lag"):
            if name in said[0]:
                row[side.__name__][name] = [
                    round(statistics.median(s[name][q] for s in said), 3) for q in range(4)]
    return row


def main():
    work = tempfile.mkdtemp(prefix="vsql.", dir="/tmp")
    server = None
    rows = []
    try:
        server = Server(work)
        for rate in RATES:
            rows.append(measure(server, work, rate))
    finally:
        if server:
            server.stop()
            shutil.rmtree(work, ignore_errors=True)
    for row in rows:
        print(f"{row['rate']}/s: ratio of CPU {row['cpu_ratio_median']}, upper 95 % bound "
              f"{row['cpu_ratio_upper95']}; ms, medians over rounds:")
        print(f"  {'':24} {'CPU us':>7} {'p50':>8} {'p90':>8} {'p99':>8} {'p99.9':>8}")
        for side in SIDES:
            said = row[side.__name__]
            print(f"  {side.__name__:24} {said['cpu_us']:7.1f}")
            for name in ("response", "service", "wake_lag"):
                if name in said:
                    print(f"    {name:22} {'':7} " + " ".join(f"{x:8.3f}" for x in said[name]))
    print(json.dumps({"v": 1, "type": "bench", "name": "sql", "pairs": PAIRS, "seconds": SECONDS,
                      "connections": CONNECTIONS, "rows": rows}))


main()
