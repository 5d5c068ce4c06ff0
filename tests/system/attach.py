#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""attach.py VTILE RUN s|n: `vtile attach` on a terminal of 80x24: Ctrl-C, "go on", Ctrl-C again, then that key alone,
"stop in order" or "stop now". Prints the exit code; 1 where the terminal was left otherwise than it was found."""
import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
import time


class Session:
    def __init__(self, argv):
        self.seen = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "xterm"
            os.execv(argv[0], argv)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))

    def wait_for(self, pattern, since=0, seconds=60):
        """Reads until the pattern is there; returns where it ends."""
        end = time.monotonic() + seconds
        while True:
            match = re.compile(pattern).search(self.seen, since)
            if match:
                return match.end()
            if time.monotonic() > end:
                sys.exit(f"no {pattern} in {self.seen[-2000:]!r}")
            if select.select([self.fd], [], [], 0.2)[0]:
                try:
                    data = os.read(self.fd, 65536)
                except OSError:
                    data = b""
                if not data:
                    sys.exit(f"ended before {pattern}: {self.seen[-2000:]!r}")
                self.seen += data

    def say(self, data):
        os.write(self.fd, data)

    def end(self):
        while True:
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                break
            if not data:
                break
            self.seen += data
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def main():
    session = Session([sys.argv[1], "attach", sys.argv[2]])
    before = termios.tcgetattr(session.fd)
    at = session.wait_for(rb"\] deploy")
    session.say(b"\x03")
    at = session.wait_for(rb"d detach.*go on: ", at)
    session.say(b"\n")
    at = session.wait_for(rb"\] [a-z-]+ .*\n", at)
    session.say(b"\x03")
    at = session.wait_for(rb"d detach.*go on: ", at)
    session.say(sys.argv[3].encode())
    at = session.wait_for(rb"interrupted from another terminal: ending in order", at)
    if sys.argv[3] == "n":
        session.wait_for(rb"no archive: it was told to stop at once, and the record was removed", at, 120)
    else:
        session.wait_for(rb"archive: ", at, 120)
    after = termios.tcgetattr(session.fd)
    code = session.end()
    if before != after or b"\x1b[?" in session.seen:
        sys.exit("the terminal's state was changed")
    print(code)


if __name__ == "__main__":
    main()
