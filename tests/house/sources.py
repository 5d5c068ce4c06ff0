#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The project names no path or host of the machine it was written on, and files stay readable."""
import os
import re
import subprocess
import sys

# The brackets keep these patterns from matching themselves. Examples have a user u.
PATHS = re.compile(r"/(wor[k]|far[m]|mn[t])/[a-z]|/hom[e]/(?!u\b)[a-z]|/User[s]/")
HOSTS = re.compile(r"(deb|security|snapshot|ftp)[.]debia[n]|registry[.]npmj[s]|pypi[.]or[g]"
                   r"|archive[.]ubunt[u]|[a-z][.]interna[l]\b")
DATA = re.compile(r"^tests/(.*/)?(data|corpus|golden)/")
LONGEST_FILE = 600
LONGEST_LINE = 140


def main():
    os.chdir(os.environ["VTILE_SOURCE"])
    listing = subprocess.run(["bash", "scripts/sources.sh", "*"], check=True, text=True,
                             stdout=subprocess.PIPE).stdout.splitlines()
    bad = []
    for path in listing:
        if DATA.match(path) or path == "LICENSE":
            continue
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().split("\n")
        for number, line in enumerate(lines, 1):
            if PATHS.search(line) or HOSTS.search(line):
                bad.append(f"{path}:{number}: a path or host of some machine: {line.strip()}")
            if re.search(r"[ \t]$", line) and not path.endswith(".md"):
                bad.append(f"{path}:{number}: blanks at the end of the line")
            if path.endswith((".c", ".h", ".sh", ".py")) and len(line) > LONGEST_LINE:
                bad.append(f"{path}:{number}: {len(line)} columns")
        if path.endswith((".c", ".h")) and len(lines) > LONGEST_FILE:
            bad.append(f"{path}: {len(lines)} lines, a reader gets lost above {LONGEST_FILE}")
    print("\n".join(bad))
    print(f"{len(listing)} files, {len(bad)} findings")
    return 1 if bad or len(listing) < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
