# SPDX-License-Identifier: Apache-2.0
"""load.py [PAIRS [SECONDS]]: what a request costs the client, of `vtile load` and of others.

nginx (one worker, 1 KiB) has the last CPU for itself, each client the first, in a network namespace
of their own: 64 kept connections, one thread. In each of PAIRS rounds (nine unless said otherwise)
each tool runs for SECONDS (four), in an order that is turned round every time, plain and with TLS
1.3: a closed loop without think time, then an open one at half of what wrk got. A tool's CPU seconds
are those of its whole process; requests are what it says itself. Then system calls by strace,
instructions by callgrind, memory over two minutes. Left out, and said so: what is not installed,
and wrk2 unless WRK2 names its program. Prints tables and, as its last line, JSON.
"""
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from shared.pairs import upper_bound  # noqa: E402

BUILD = os.environ["VTILE_BUILD"]
VTILE = f"{BUILD}/vtile"
PAIRS = int(sys.argv[1]) if len(sys.argv) > 1 else 9
SECONDS = int(sys.argv[2]) if len(sys.argv) > 2 else 4
CONNECTIONS = 64
PORT, TLS_PORT = 8080, 8443
URLS = {"http": f"http://127.0.0.1:{PORT}/", "https": f"https://127.0.0.1:{TLS_PORT}/"}
BODY_BYTES = 1024
# Upper bounds: to wrk saturated, to wrk2 at half the load; of system calls and instructions.
MARKS = {"closed": ("wrk", 0.9), "open": ("wrk2", 1.0)}
CALLS_CLOSED, CALLS_OPEN, OPEN_RATE = 2.1, 6.0, 1000
INSTRUCTIONS = 1.5
GRIND_RATE, GRIND_S = 2000, 15
MEMORY_RATE, MEMORY_S = 2000, 120
CPUS = sorted(os.sched_getaffinity(0))


def die(text):
    sys.exit(f"load: {text}")


def on_cpu(cpu, command):
    return ["taskset", "-c", str(cpu), *command]


def number(pattern, text):
    found = re.search(pattern, text)
    if not found:
        die(f"no number of requests in: {text[-300:]}")
    return int(found[1])


# --- the server ---

CONF = """
daemon off; master_process off; pid nginx.pid; error_log error.log warn;
events { worker_connections 1024; }
http {
    access_log off; keepalive_requests 1000000000; keepalive_timeout 1h;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    server {
        listen 127.0.0.1:%d backlog=511;
        listen 127.0.0.1:%d ssl backlog=511;
        ssl_certificate cert.pem; ssl_certificate_key cert.key; ssl_protocols TLSv1.3;
        location / { return 200 "%s"; }
    }
}
"""


def start_server(work):
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=web.test",
                    "-keyout", f"{work}/cert.key", "-out", f"{work}/cert.pem"],
                   check=True, stderr=subprocess.DEVNULL)
    with open(f"{work}/nginx.conf", "w") as f:
        f.write(CONF % (PORT, TLS_PORT, "x" * BODY_BYTES))
    server = subprocess.Popen(on_cpu(CPUS[-1], ["nginx", "-p", work, "-c", f"{work}/nginx.conf",
                                                "-e", f"{work}/error.log"]))
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            return server, answer_bytes()
        except OSError:
            time.sleep(0.05)
    die("nginx does not listen")


def answer_bytes():
    """Length of a whole answer, head included: always the same."""
    with socket.create_connection(("127.0.0.1", PORT), timeout=2) as s:
        s.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n")
        got = b""
        while not got.endswith(b"x" * BODY_BYTES):
            got += s.recv(65536)
        return len(got)


# --- the tools: command of one run, and how many requests its output tells of ---

def vtile_command(url, rate, seconds):
    loop = ["--rate", str(rate)] if rate else ["--closed"]
    insecure = ["--insecure"] if url.startswith("https") else []
    return [VTILE, "load", url, *loop, "--connections", str(CONNECTIONS), "--duration",
            f"{seconds}s", "--warm-up", "0s", "--json", *insecure]


def wrk_command(url, _, seconds):
    return ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", url]


def wrk2_command(url, rate, seconds):
    return [os.environ["WRK2"], "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", f"-R{rate}", url]


def h2load_command(url, rate, seconds):
    paced = [f"--rps={rate / CONNECTIONS:g}"] if rate else []
    return ["h2load", "--h1", "-t1", f"-c{CONNECTIONS}", f"-D{seconds}", *paced, url]


def curl_command(url, _, seconds):
    return [f"{BUILD}/tests/load_curl", url, str(CONNECTIONS), str(seconds)]


WRK_REQUESTS = r"(\d+) requests in"
# name: command, requests, whether it has a closed and an open loop
TOOLS = {
    "vtile": (vtile_command, r'"all_right":(\d+)', True, True),
    "wrk": (wrk_command, WRK_REQUESTS, True, False),
    "wrk2": (wrk2_command, WRK_REQUESTS, False, True),
    "h2load": (h2load_command, r"(\d+) succeeded", True, True),
    "curl": (curl_command, r"(\d+)", True, False),
}


def tools_here():
    """Those that can be run; a note for each that cannot."""
    missing = {"wrk": not shutil.which("wrk"), "h2load": not shutil.which("h2load"),
               "curl": not os.access(f"{BUILD}/tests/load_curl", os.X_OK),
               "wrk2": not os.access(os.environ.get("WRK2", ""), os.X_OK)}
    for name in sorted(k for k, v in missing.items() if v):
        print(f"left out: {name}" + (" (WRK2=PATH names it)" if name == "wrk2" else ""))
    return [name for name in TOOLS if not missing.get(name)]


def measure(name, url, rate):
    """CPU microseconds a request, and requests a second."""
    command, requests, _, _ = TOOLS[name]
    child = subprocess.Popen(on_cpu(CPUS[0], command(url, rate, SECONDS)), text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    out = child.stdout.read()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in ((0, 3) if name == "vtile" else (0,)):  # 3: late, and counted
        die(f"{name} ended with {child.returncode}: {out[-300:]}")
    n = number(requests, out)
    return {"us": 1e6 * (used.ru_utime + used.ru_stime) / n, "user_us": 1e6 * used.ru_utime / n,
            "per_s": n / SECONDS}


def compare(scheme, loop, rate, names):
    rounds = []
    for i in range(PAIRS):
        order = names if i % 2 == 0 else names[::-1]
        rounds.append({name: measure(name, URLS[scheme], rate) for name in order})
    result = {}
    for name in names:
        ratios = [r["vtile"]["us"] / r[name]["us"] for r in rounds]
        result[name] = {key: round(statistics.median(r[name][key] for r in rounds), 3)
                        for key in ("us", "user_us", "per_s")}
        if name != "vtile":
            result[name]["ratio_median"] = round(statistics.median(ratios), 3)
            result[name]["ratio_upper95"] = (round(upper_bound(ratios), 3) if PAIRS > 4 else None)
    show(scheme, loop, rate, result)
    return result


def show(scheme, loop, rate, result):
    other, mark = MARKS[loop]
    print(f"\n{scheme}, {loop} loop" + (f" at {rate}/s" if rate else ", no think time"))
    print(f"{'':8} {'CPU us':>8} {'user us':>8} {'a second':>9} {'ratio':>7} {'upper 95 %':>10}")
    for name, row in result.items():
        line = f"{name:8} {row['us']:8.2f} {row['user_us']:8.2f} {row['per_s']:9.0f}"
        if "ratio_median" in row:
            line += f" {row['ratio_median']:7.3f} {row['ratio_upper95'] or '-':>10}"
            if name == other and row["ratio_upper95"]:
                line += f"  {'within' if row['ratio_upper95'] <= mark else 'ABOVE'} {mark}"
        print(line, flush=True)


def compare_all(names):
    result = {}
    for scheme in URLS:
        closed = compare(scheme, "closed", 0, [n for n in names if TOOLS[n][2]])
        best = closed["wrk" if "wrk" in closed else "vtile"]["per_s"]
        rate = int(best / 2) // 100 * 100
        result[scheme] = {"closed": closed, "rate": rate,
                          "open": compare(scheme, "open", rate, [n for n in names if TOOLS[n][3]])}
        if "wrk2" not in names and "wrk" in names:
            print(f"{'(wrk)':8} {closed['wrk']['us']:8.2f}  its closed loop, in wrk2's place")
    return result


# --- system calls ---

def count_calls(work, rate, seconds):
    """Calls by name, and requests."""
    table = f"{work}/strace.out"
    command = vtile_command(URLS["http"], rate, seconds)
    out = subprocess.run(on_cpu(CPUS[0], ["strace", "-f", "-c", "-o", table, *command]),
                         stdout=subprocess.PIPE, text=True, check=False).stdout
    calls = {}
    with open(table) as f:
        for line in f:
            fields = line.split()
            if len(fields) >= 5 and fields[3].isdigit() and fields[-1] != "total":
                calls[fields[-1]] = calls.get(fields[-1], 0) + int(fields[3])
    return calls, number(TOOLS["vtile"][1], out)


def calls_a_request(work, rate):
    """By a long run less a short one, so that beginning and end do not count."""
    few, short = count_calls(work, rate, 1)
    many, long = count_calls(work, rate, 4)
    each = {name: (n - few.get(name, 0)) / (long - short) for name, n in many.items()}
    return {"all": round(sum(each.values()), 3),
            "calls": {k: round(v, 3) for k, v in sorted(each.items(), key=lambda x: -x[1])
                      if v >= 0.005}}


def system_calls(work):
    if not shutil.which("strace"):
        print("left out: strace")
        return None
    result = {"closed": calls_a_request(work, 0), "open": calls_a_request(work, OPEN_RATE)}
    for loop, mark in (("closed", CALLS_CLOSED), ("open", CALLS_OPEN)):
        row = result[loop]
        print(f"\nsystem calls a request, {loop} loop" +
              (f" at {OPEN_RATE}/s" if loop == "open" else "") +
              f": {row['all']} ({'within' if row['all'] <= mark else 'ABOVE'} {mark}): " +
              ", ".join(f"{k} {v}" for k, v in row["calls"].items()), flush=True)
    return result


# --- instructions ---

def parse_callgrind(path):
    """Instructions, calls of clock_gettime, and instructions of these."""
    names, total, clocks, inside = {}, 0, 0, 0
    with open(path) as f:
        lines = iter(f)
        called = ""
        for line in lines:
            found = re.match(r"c?fn=\((\d+)\)(?: (.*))?", line)
            if found:
                called = names.setdefault(found[1], found[2] or "")
            elif line.startswith("calls="):
                cost = int(next(lines).split()[1])
                if called.startswith("clock_gettime"):
                    clocks += int(line[6:].split()[0])
                    inside += cost
            elif line.startswith("totals:"):
                total = int(line.split()[1])
    return total, clocks, inside


def grind(work, program, rest, look):
    """Instructions an arrival within the loop, clock reads as they are outside callgrind."""
    path = f"{work}/callgrind.out"
    out = subprocess.run(["valgrind", "--tool=callgrind", "--toggle-collect=uv_run",
                          f"--callgrind-out-file={path}", f"{BUILD}/tests/{program}", "127.0.0.1",
                          str(PORT), str(GRIND_RATE), str(GRIND_S), str(CONNECTIONS), *rest],
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    total, clocks, inside = parse_callgrind(path)
    n = number(r"(\d+)", out.stdout)
    return {"instructions": round((total - inside + clocks * look) / n),
            "clock_reads": round(clocks / n, 2)}


def instructions(work, length):
    if not shutil.which("valgrind"):
        print("left out: valgrind")
        return None
    look = int(subprocess.run([f"{BUILD}/tests/load_clock"], stdout=subprocess.PIPE, text=True,
                              check=True).stdout)
    bare = grind(work, "load_bare", [str(length)], look)
    engine = grind(work, "load_null", [], look)
    ratio = engine["instructions"] / bare["instructions"]
    print(f"\ninstructions an arrival at {GRIND_RATE}/s: engine {engine['instructions']} with "
          f"{engine['clock_reads']} clock reads, bare loop {bare['instructions']} with "
          f"{bare['clock_reads']}; {look} a clock read; ratio {ratio:.3f} "
          f"({'within' if ratio <= INSTRUCTIONS else 'ABOVE'} {INSTRUCTIONS})", flush=True)
    return {"engine": engine, "bare": bare, "clock_read": look, "ratio": round(ratio, 3)}


# --- memory ---

def rss_kib(pid):
    with open(f"/proc/{pid}/status") as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read())[1])


def memory():
    child = subprocess.Popen(on_cpu(CPUS[0], vtile_command(URLS["http"], MEMORY_RATE, MEMORY_S)),
                             stdout=subprocess.DEVNULL)
    seen = []
    begin = time.monotonic()
    while time.monotonic() < begin + MEMORY_S - 1:
        time.sleep(1)
        seen.append(rss_kib(child.pid))
    child.wait()
    first, last, most = seen[4], seen[-1], max(seen)
    print(f"\nmemory at {MEMORY_RATE}/s: {first} KiB after 5 s, {last} KiB after {MEMORY_S - 1} s, "
          f"{most} KiB at most", flush=True)
    return {"first_kib": first, "last_kib": last, "most_kib": most}


def main():
    if len(CPUS) < 2:
        die("needs two CPUs: one for nginx, one for the clients")
    names = tools_here()
    work = tempfile.mkdtemp(prefix="vb.", dir="/tmp")
    server, length = start_server(work)
    try:
        result = {"v": 1, "type": "bench", "name": "load", "pairs": PAIRS, "seconds": SECONDS,
                  "connections": CONNECTIONS, "left_out": [n for n in TOOLS if n not in names],
                  "cpu": compare_all(names), "system_calls": system_calls(work),
                  "instructions": instructions(work, length), "memory": memory()}
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(work, ignore_errors=True)
    print(json.dumps(result))


# The namespaces end with this script, and whatever it started with them.
if "VTILE_BENCH_INSIDE" not in os.environ:
    for needed in ("nginx", "openssl", "ip", "taskset", "unshare"):
        if not shutil.which(needed):
            die(f"needs {needed}")
    os.environ["VTILE_BENCH_INSIDE"] = "1"
    os.execvp("unshare", ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc",
                          sys.executable, *sys.argv])
main()
