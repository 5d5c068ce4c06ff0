#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every source and script names its licence in its first lines, and one that its folder allows."""
import os
import re
import subprocess
import sys

DUAL = "Apache-2.0 OR GPL-2.0-or-later"
# vtile-sim is built from Xen's schedulers (GPL-2.0) and these files, so both licences must fit.
DUAL_FILES = {f"base/{name}.{end}"
              for name in ("error", "text", "clock", "rng", "hist", "scope", "log")
              for end in "ch"}
FOLDERS = [("tuning/xen/abi/", {"MIT"}),
           ("tuning/xen/", {"GPL-2.0-only", "GPL-2.0"}),
           ("tuning/sim/", {"GPL-2.0-only", "GPL-2.0"})]
ENDINGS = {".c", ".h", ".S", ".sh", ".py", ".cmake", ".yaml", ".php", ".sql", ".js", ".css",
           ".html", ".svg", ".cfg", ".in", ".conf", ".1", ".5", ".7"}
NAMES = {"CMakeLists.txt", "packages.txt", "skips-ci.txt", "dev", "run", ".clang-tidy"}
# Inputs and expected outputs of tests are kept byte for byte.
DATA = re.compile(r"^tests/(.*/)?(data|corpus|golden)/")


def allowed(path):
    if path in DUAL_FILES:
        return {DUAL}
    for folder, licences in FOLDERS:
        if path.startswith(folder):
            return licences
    return {"Apache-2.0"}


def needs_licence(path):
    if DATA.match(path):
        return False
    if os.path.splitext(path)[1] in ENDINGS or os.path.basename(path) in NAMES:
        return True
    with open(path, "rb") as file:
        return file.read(2) == b"#!"


def licence(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        head = "".join(file.readline() for _ in range(4))
    found = re.search(r"SPDX-License-Identifier: ([^*<>\n]+)", head)
    return found.group(1).strip().removesuffix("--").strip() if found else None


def main():
    os.chdir(os.environ["VTILE_SOURCE"])
    listing = subprocess.run(["bash", "scripts/sources.sh", "*"], check=True, text=True,
                             stdout=subprocess.PIPE).stdout
    checked = bad = 0
    for path in listing.splitlines():
        if not needs_licence(path):
            continue
        checked += 1
        found = licence(path)
        if found not in allowed(path):
            bad += 1
            print(f"{path}: licence {found}, expected {' or '.join(sorted(allowed(path)))}")
    print(f"{checked} files, {bad} wrong")
    return 1 if bad or checked < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
