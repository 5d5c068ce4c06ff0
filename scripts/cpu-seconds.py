#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cpu-seconds.py NAME TABLE COMMAND...: runs a command and adds its wall and CPU seconds to TABLE.

Programs that the command leaves to init (QEMU puts itself in the background) count too: this
process is made their reaper, so that their CPU time arrives here when they end.
"""
import ctypes
import os
import resource
import signal
import sys
import time

PR_SET_CHILD_SUBREAPER = 36  # <linux/prctl.h>


def pass_on(child, number):
    try:
        os.kill(child, number)
    except ProcessLookupError:
        pass  # it has just ended


def run(command):
    child = os.fork()
    if child == 0:
        try:
            os.execvp(command[0], command)
        except OSError as error:
            print(f"{command[0]}: {error.strerror}", file=sys.stderr)
            os._exit(127)
    # The terminal sends Ctrl-C to the command too; what it then answers is what counts.
    signal.signal(signal.SIGINT, lambda *_: None)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _: pass_on(child, received))
    while True:
        pid, status = os.wait()
        if pid == child:
            break
    try:
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass
    except ChildProcessError:
        pass
    return os.waitstatus_to_exitcode(status)


def main():
    name, table, command = sys.argv[1], sys.argv[2], sys.argv[3:]
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    begin = time.monotonic()
    code = run(command)
    wall = time.monotonic() - begin
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime
    with open(table, "a", encoding="utf-8") as file:
        file.write(f"{name}\t{wall:.1f}\t{cpu:.1f}\t{code}\n")
    print(f"== {name}: {wall:.1f} s, {cpu:.1f} CPU s", file=sys.stderr)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
