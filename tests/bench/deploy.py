# SPDX-License-Identifier: Apache-2.0
"""deploy.py [PAIRS]: what vtile costs over the same QEMUs started by hand.

Alternated pairs (fifteen unless said otherwise), each side from nothing until both servers have
answered: CPU seconds of everything that was started, and the QEMUs' proportional memory. The bare
side runs libvirt's own command lines for the same domains with the same image; its guests serve
without a controller. The same poller asks on both sides. Then one whole run for the controller's
share of a core while it measures. Prints a table and, as its last line, JSON.
"""
import ctypes
import json
import math
import os
import re
import shlex
import shutil
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time

BUILD = os.environ["VTILE_BUILD"]
VTILE = f"{BUILD}/vtile"
TICK = os.sysconf("SC_CLK_TCK")
PAGE = "/home?r=4294967295&n=0"
POLL_S = 0.1
DEADLINE_S = 240
libc = ctypes.CDLL(None, use_errno=True)


def die(text):
    sys.exit(f"deploy: {text}")


def cpu_s(pid, children=True):
    """CPU seconds of a process, with its reaped children."""
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return sum(int(x) for x in fields[11:15 if children else 13]) / TICK


def pss_mib(pid):
    with open(f"/proc/{pid}/smaps_rollup") as f:
        return int(re.search(r"^Pss: +(\d+)", f.read(), re.M)[1]) / 1024


def processes_with(text):
    """Processes whose command line holds text, but this one."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as f:
                line = f.read()
        except OSError:
            continue
        if text.encode() in line:
            found.append((int(entry), line))
    return found


def enter_netns(name):
    with open(f"/run/netns/{name}") as f:
        if libc.setns(f.fileno(), 0x40000000) != 0:
            die(f"enter {name}: {os.strerror(ctypes.get_errno())}")


def answers(address, port):
    request = f"GET {PAGE} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode()
    try:
        with socket.create_connection((address, port), timeout=2) as s:
            if port == 443:
                context = ssl.create_default_context()
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
                s = context.wrap_socket(s)
            s.sendall(request)
            return s.recv(12).endswith(b" 200")
    except OSError:
        return False


def wait_for_answers(netns, servers):
    """In a child, since there is no way back out of a namespace for a thread."""
    pid = os.fork()
    if pid == 0:
        enter_netns(netns)
        end = time.monotonic() + DEADLINE_S
        waiting = list(servers)
        # One after the other: an answer over TLS costs an emulated guest much more than a plain
        # one, and the front cannot give a good one before its origin does.
        while waiting and time.monotonic() < end:
            if answers(*waiting[0]):
                waiting.pop(0)
            else:
                time.sleep(POLL_S)
        os._exit(1 if waiting else 0)
    if os.waitpid(pid, 0)[1] != 0:
        die(f"{servers} did not answer")


def wait_until(what, seconds=DEADLINE_S):
    end = time.monotonic() + seconds
    while not (value := what()):
        if time.monotonic() > end:
            die("nothing happened")
        time.sleep(0.02)
    return value


def qemus_of(text):
    return [pid for pid, line in processes_with(text) if b"-accel" in line and b"guest=" in line]


SERVERS = [("198.18.1.10", 80), ("198.18.1.11", 443)]


def run_vtile(work):
    env = dict(os.environ, VTILE_STATE=f"{work}/s", VTILE_RUNTIME=f"{work}/r")
    child = subprocess.Popen([VTILE, "run", "--json", "--host", "embed", "--spec", "web"], env=env,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in child.stdout:
        if found := re.search(r'"text":"run ([0-9a-f]{6})', line):
            netns = f"vt-{found[1]}"
        if '"phase":"deploy"' in line:
            break
    wait_for_answers(netns, SERVERS)
    qemus = qemus_of(f"{work}/s/embed")
    clients = [pid for pid, _ in processes_with(f"{work}/r/") if pid not in qemus + [child.pid]]
    guests = [cpu_s(pid) for pid in qemus]
    own = cpu_s(child.pid) + sum(cpu_s(pid) for pid in clients)
    memory = [pss_mib(pid) for pid in qemus]
    child.send_signal(signal.SIGINT)
    child.send_signal(signal.SIGINT)
    child.stdout.read()
    child.wait()
    return {"cpu_s": sum(guests) + own, "guests_cpu_s": sum(guests), "own_cpu_s": own,
            "vms": len(guests), "pss_mib": sum(memory)}


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def run_bare(work):
    folder = f"{work}/bare"
    os.makedirs(folder + "/ba5eba5eba5e", exist_ok=True)
    env = dict(os.environ, VTILE_STATE=f"{work}/s", VTILE_RUNTIME=f"{work}/r",
               VTILE_GUEST_PROGRAMS=BUILD)
    plan = subprocess.run([f"{BUILD}/tests/bare", folder], env=env, check=True, text=True,
                          stdout=subprocess.PIPE).stdout.splitlines()
    _, bridge, address = plan[0].split()
    netns = "vt-bare"
    ip("netns", "add", netns)
    inside = ["-n", netns]
    children = []
    try:
        ip(*inside, "link", "set", "lo", "up")
        ip(*inside, "link", "add", bridge, "type", "bridge")
        ip(*inside, "address", "add", address, "dev", bridge)
        ip(*inside, "link", "set", bridge, "up")
        for line in plan[1:]:
            _, _, _, tap, command = line.split(" ", 4)
            ip(*inside, "tuntap", "add", tap, "mode", "tap", "vnet_hdr")
            ip(*inside, "link", "set", tap, "master", bridge, "up")
            children.append(start_bare(netns, tap, command))
        wait_for_answers(netns, SERVERS)
        return {"cpu_s": sum(cpu_s(c.pid) for c in children), "vms": len(children),
                "pss_mib": sum(pss_mib(c.pid) for c in children)}
    finally:
        for child in children:
            child.kill()
            child.wait()
        ip("netns", "delete", netns)
        shutil.rmtree(folder)


def start_bare(netns, tap, command):
    """libvirt's words but for what only its daemon can give: its monitor, its passed descriptors."""
    words = shlex.split(command)
    while "=" in words[0]:
        key, _, value = words.pop(0).partition("=")
        if key == "LC_ALL" or key == "PATH":
            os.environ.setdefault(key, value)
    args, skip = [], False
    for i, word in enumerate(words):
        if skip:
            skip = False
            continue
        following = words[i + 1] if i + 1 < len(words) else ""
        if word == "-S":  # libvirt lets it go through the monitor
            continue
        if word in ("-chardev", "-mon", "-object") and re.search("charmonitor|masterKey", following):
            skip = True
            continue
        if word == "-netdev":
            identity = re.search(r"id[=\"': ]+(\w+)", following)[1]
            args += ["-netdev", f"tap,id={identity},ifname={tap},script=no,downscript=no"]
            skip = True
            continue
        args.append(word)
    return subprocess.Popen(["ip", "netns", "exec", netns, *args], stdin=subprocess.DEVNULL)


def measure_controller(work):
    env = dict(os.environ, VTILE_STATE=f"{work}/s", VTILE_RUNTIME=f"{work}/r")
    child = subprocess.Popen([VTILE, "run", "--json", "--host", "embed", "--spec", "web"], env=env,
                             stdout=subprocess.PIPE, text=True)
    begin = end = None
    for line in child.stdout:
        event = json.loads(line)
        if event["type"] == "phase" and event["phase"] == "measure":
            begin = (time.monotonic(), cpu_s(child.pid, children=False))
        elif event["type"] == "phase" and event["phase"] == "drain":
            end = (time.monotonic(), cpu_s(child.pid, children=False))
    child.wait()
    if not begin or not end:
        die("the whole run had no measure phase")
    return (end[1] - begin[1]) / (end[0] - begin[0])


# Student's t for a one-sided bound of 95 %, by degrees of freedom (any statistics table).
T95 = {4: 2.132, 5: 2.015, 6: 1.943, 7: 1.895, 8: 1.860, 9: 1.833, 10: 1.812, 11: 1.796, 12: 1.782,
       13: 1.771, 14: 1.761, 15: 1.753, 19: 1.729, 24: 1.711, 29: 1.699}


def upper_bound(ratios):
    """Of the mean of log ratios, back as a ratio."""
    logs = [math.log(r) for r in ratios]
    n = len(logs)
    t = T95.get(n - 1, 2.132)
    return math.exp(statistics.mean(logs) + t * statistics.stdev(logs) / math.sqrt(n))


def main():
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    work = tempfile.mkdtemp(prefix="vb.", dir="/tmp")
    rows = []
    try:
        subprocess.run([VTILE, "image", "build"], check=True, stdout=subprocess.DEVNULL)
        run_vtile(work)  # not counted: fills the capability cache
        for i in range(pairs):
            order = (run_vtile, run_bare) if i % 2 == 0 else (run_bare, run_vtile)
            result = {f.__name__: f(work) for f in order}
            rows.append((result["run_vtile"], result["run_bare"]))
            vtile, bare = rows[-1]
            print(f"pair {i + 1:2}: vtile {vtile['cpu_s']:6.2f} CPU s (own {vtile['own_cpu_s']:.2f}), "
                  f"bare {bare['cpu_s']:6.2f}, ratio {vtile['cpu_s'] / bare['cpu_s']:.3f}; "
                  f"PSS {vtile['pss_mib']:.0f} / {bare['pss_mib']:.0f} MiB", flush=True)
        controller = measure_controller(work)
    finally:
        subprocess.run([VTILE, "clean"], env=dict(os.environ, VTILE_STATE=f"{work}/s",
                       VTILE_RUNTIME=f"{work}/r"), stdout=subprocess.DEVNULL, check=False)
        shutil.rmtree(work, ignore_errors=True)
    ratios = [v["cpu_s"] / b["cpu_s"] for v, b in rows]
    memory = [v["pss_mib"] / b["pss_mib"] for v, b in rows]
    result = {
        "v": 1, "type": "bench", "name": "deploy", "pairs": pairs,
        "cpu_ratio_median": round(statistics.median(ratios), 4),
        "cpu_ratio_upper95": round(upper_bound(ratios), 4) if pairs > 4 else None,
        "cpu_s_per_vm": round(statistics.median(v["cpu_s"] / v["vms"] for v, _ in rows), 3),
        "pss_ratio_median": round(statistics.median(memory), 4),
        "pss_ratio_max": round(max(memory), 4),
        "pss_mib_per_vm": round(statistics.median(v["pss_mib"] / v["vms"] for v, _ in rows), 1),
        "controller_core_share": round(controller, 5),
    }
    for key, value in result.items():
        print(f"{key:24} {value}")
    print(json.dumps(result))


main()
