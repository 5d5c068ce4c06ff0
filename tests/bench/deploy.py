# SPDX-License-Identifier: Apache-2.0
"""deploy.py [PAIRS [SPEC [together]]]: what vtile costs over the same QEMUs started by hand.

Alternated pairs (fifteen unless said otherwise) of one tile of SPEC (web unless said otherwise),
each side from nothing until all servers have answered: CPU seconds of everything that was started,
and the QEMUs' proportional memory. The bare side runs libvirt's own command lines for the same
domains with the same image; its guests serve without a controller. The same poller asks on both
sides. `together`: both sides of a pair at the same time, each in its network, so that a machine
whose speed changes from minute to minute changes for both; either costs more than it would alone.
Then one whole run for the controller's share of a core while it measures. Prints a table and, as
its last line, JSON.
"""
import ctypes
import json
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

sys.dont_write_bytecode = True
from shared.pairs import upper_bound  # noqa: E402

BUILD = os.environ["VTILE_BUILD"]
VTILE = f"{BUILD}/vtile"
TICK = os.sysconf("SC_CLK_TCK")
PAIRS = int(sys.argv[1]) if len(sys.argv) > 1 else 15
SPEC = sys.argv[2] if len(sys.argv) > 2 else "web"
TOGETHER = sys.argv[3:] == ["together"]
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


def ask(address, port, tls, text, good):
    """Whether what a server answers, or greets with, is good."""
    with socket.create_connection((address, port), timeout=2) as s:
        if tls:
            context = ssl.create_default_context()
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            s = context.wrap_socket(s)
        s.sendall(text.replace(b"@", address.encode()))
        return good in s.recv(64)


def http(path):
    return f"GET {path} HTTP/1.1\r\nHost: @\r\nConnection: close\r\n\r\n".encode()


# How each role answers: port, TLS, question, part of a good answer. In the order in which they can
# give one. PostgreSQL is asked for TLS (SSLRequest: 80877103) and says S or N.
ROLES = {
    "infra": (80, False, http("/home?r=4294967295&n=0"), b" 200"),
    "web": (443, True, http("/home?r=4294967295&n=0"), b" 200"),
    "database": (5432, False, b"\0\0\0\x08\x04\xd2\x16\x2f", b"N"),
    "app": (80, False, http("/browse?r=4294967295&n=0"), b" 200"),
    "mail": (993, True, b"", b"* OK"),
}


def answers(role, address):
    if role not in ROLES:  # nothing listens in a batch VM: that it says so is its answer
        try:
            socket.create_connection((address, 7), timeout=2)
        except ConnectionRefusedError:
            return True
        except OSError:
            pass
        return False
    try:
        return ask(address, *ROLES[role])
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
        die("not all of these answered: " + ", ".join(role for role, _ in servers))


def wait_until(what, seconds=DEADLINE_S):
    end = time.monotonic() + seconds
    while not (value := what()):
        if time.monotonic() > end:
            die("nothing happened")
        time.sleep(0.02)
    return value


def qemus_of(text):
    return [pid for pid, line in processes_with(text) if b"-accel" in line and b"guest=" in line]


def role_of(pid):
    """Of the QEMU whose -name says guest=vt-<run>-<tile>-<role>."""
    with open(f"/proc/{pid}/cmdline", "rb") as f:
        found = re.search(rb"guest=vt-[0-9a-f]+-[0-9]+-([a-z]+)", f.read())
    return found[1].decode() if found else "?"


def by_role(pids):
    return {role_of(pid): cpu_s(pid) for pid in pids}


def environment(work):
    return dict(os.environ, VTILE_STATE=f"{work}/s", VTILE_RUNTIME=f"{work}/r",
                VTILE_GUEST_PROGRAMS=BUILD)


def plan(work):
    """Bridge and its address; of each VM role, address, tap, command line."""
    os.makedirs(f"{work}/bare/ba5eba5eba5e", exist_ok=True)
    lines = subprocess.run([f"{BUILD}/tests/bare", f"{work}/bare", SPEC], env=environment(work),
                           check=True, text=True, stdout=subprocess.PIPE).stdout.splitlines()
    return lines[0].split()[1:], [line.split(" ", 4)[1:] for line in lines[1:]]


def servers_of(vms):
    order = list(ROLES)
    servers = [(role, address) for role, address, _, _ in vms]
    return sorted(servers, key=lambda s: order.index(s[0]) if s[0] in order else len(order))


def run_vtile(work, servers):
    env = environment(work)
    begin = time.monotonic()
    # Into a file: a pipe that nobody reads would stop the run.
    with open(f"{work}/events", "w+") as events:
        child = subprocess.Popen([VTILE, "run", "--json", "--host", "embed", "--spec", SPEC],
                                 env=env, stdout=events, stderr=subprocess.STDOUT)

    def deploys():
        with open(f"{work}/events") as said:
            text = said.read()
        found = re.search(r'"text":"run ([0-9a-f]{6})', text)
        return f"vt-{found[1]}" if found and '"phase":"deploy"' in text else None

    netns = wait_until(deploys)
    wait_for_answers(netns, servers)
    wall = time.monotonic() - begin
    qemus = qemus_of(f"{work}/s/embed")
    clients = [pid for pid, _ in processes_with(f"{work}/r/") if pid not in qemus + [child.pid]]
    guests = by_role(qemus)
    own = cpu_s(child.pid) + sum(cpu_s(pid) for pid in clients)
    memory = [pss_mib(pid) for pid in qemus]
    child.send_signal(signal.SIGINT)
    child.wait()
    return {"cpu_s": sum(guests.values()) + own, "own_cpu_s": own, "roles": guests,
            "vms": len(qemus), "pss_mib": sum(memory), "wall_s": wall}


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def run_bare(work, servers):
    return run_planned(plan(work), work, servers)


def run_planned(planned, work, servers):
    (bridge, address), vms = planned
    netns = "vt-bare"
    ip("netns", "add", netns)
    inside = ["-n", netns]
    children = []
    begin = time.monotonic()
    try:
        ip(*inside, "link", "set", "lo", "up")
        ip(*inside, "link", "add", bridge, "type", "bridge")
        ip(*inside, "address", "add", address, "dev", bridge)
        ip(*inside, "link", "set", bridge, "up")
        for _, _, tap, command in vms:
            ip(*inside, "tuntap", "add", tap, "mode", "tap", "vnet_hdr")
            ip(*inside, "link", "set", tap, "master", bridge, "up")
            children.append(start_bare(netns, tap, command))
        wait_for_answers(netns, servers)
        wall = time.monotonic() - begin
        guests = by_role([c.pid for c in children])
        return {"cpu_s": sum(guests.values()), "roles": guests, "vms": len(children),
                "pss_mib": sum(pss_mib(c.pid) for c in children), "wall_s": wall}
    finally:
        for child in children:
            child.kill()
            child.wait()
        ip("netns", "delete", netns)
        shutil.rmtree(f"{work}/bare")


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


def run_alternated(work, servers, vtile_first):
    order = (run_vtile, run_bare) if vtile_first else (run_bare, run_vtile)
    result = {f.__name__: f(work, servers) for f in order}
    return result["run_vtile"], result["run_bare"]


def run_together(work, servers, vtile_first):
    """vtile_first: which of the two starts some milliseconds before the other."""
    planned = plan(work)  # while nobody else has the embedded host
    other, here = (run_bare_of(planned), run_vtile) if vtile_first else (run_vtile, run_bare_of(planned))
    receive, send = os.pipe()
    pid = os.fork()
    if pid == 0:
        with os.fdopen(send, "w") as out:
            json.dump(other(work, servers), out)
        os._exit(0)
    os.close(send)
    mine = here(work, servers)
    with os.fdopen(receive) as told:
        theirs = told.read()
    if os.waitpid(pid, 0)[1] != 0 or not theirs:
        die("the other side of a pair failed")
    sides = (mine, json.loads(theirs))
    return sides if vtile_first else sides[::-1]


def run_bare_of(planned):
    return lambda work, servers: run_planned(planned, work, servers)


def measure_controller(work):
    child = subprocess.Popen([VTILE, "run", "--json", "--host", "embed", "--spec", SPEC],
                             env=environment(work), stdout=subprocess.PIPE, text=True)
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


def main():
    work = tempfile.mkdtemp(prefix="vb.", dir="/tmp")
    rows = []
    try:
        subprocess.run([VTILE, "image", "build"], check=True, stdout=subprocess.DEVNULL)
        servers = servers_of(plan(work)[1])
        run_vtile(work, servers)  # not counted: fills the capability cache
        for i in range(PAIRS):
            pair = run_together if TOGETHER else run_alternated
            rows.append(pair(work, servers, i % 2 == 0))
            vtile, bare = rows[-1]
            print(f"pair {i + 1:2}: vtile {vtile['cpu_s']:6.2f} CPU s (own {vtile['own_cpu_s']:.2f}), "
                  f"bare {bare['cpu_s']:6.2f}, ratio {vtile['cpu_s'] / bare['cpu_s']:.3f}; "
                  f"PSS {vtile['pss_mib']:.0f} / {bare['pss_mib']:.0f} MiB", flush=True)
        controller = measure_controller(work)
    finally:
        subprocess.run([VTILE, "clean"], env=environment(work), stdout=subprocess.DEVNULL,
                       check=False)
        shutil.rmtree(work, ignore_errors=True)
    ratios = [v["cpu_s"] / b["cpu_s"] for v, b in rows]
    memory = [v["pss_mib"] / b["pss_mib"] for v, b in rows]
    result = {
        "v": 1, "type": "bench", "name": "deploy", "spec": SPEC, "pairs": PAIRS,
        "together": TOGETHER,
        "cpu_ratio_median": round(statistics.median(ratios), 4),
        "cpu_ratio_upper95": round(upper_bound(ratios), 4) if PAIRS > 4 else None,
        "cpu_s_per_vm": round(statistics.median(v["cpu_s"] / v["vms"] for v, _ in rows), 3),
        "pss_ratio_median": round(statistics.median(memory), 4),
        "pss_ratio_max": round(max(memory), 4),
        "pss_mib_per_vm": round(statistics.median(v["pss_mib"] / v["vms"] for v, _ in rows), 1),
        "controller_core_share": round(controller, 5),
    }
    print("\nmedian CPU s   vtile    bare")
    for role in sorted(rows[0][0]["roles"]):
        sides = [statistics.median(row[side]["roles"].get(role, 0) for row in rows) for side in (0, 1)]
        print(f"  {role:10} {sides[0]:7.2f} {sides[1]:7.2f}")
    walls = [statistics.median(row[side]["wall_s"] for row in rows) for side in (0, 1)]
    print(f"  until all answered: {walls[0]:.1f} s, {walls[1]:.1f} s\n")
    for key, value in result.items():
        print(f"{key:24} {value}")
    print(json.dumps(result))


main()
