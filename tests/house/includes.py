#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Includes go one way between the rooms, as docs/rooms.md draws them; guards are named by path."""
import os
import re
import subprocess
import sys

ROOMS = {
    "base": {"base"},
    "wire": {"base", "wire"},
    "tiles": {"base", "tiles"},
    "tuning": {"base", "tuning"},
    "results": {"base", "results"},
    "agents": {"base", "wire", "tiles", "tuning", "agents"},
    "orchestrator": {"base", "wire", "tiles", "tuning", "results", "orchestrator"},
}
DUAL = {f"base/{name}.h" for name in ("error", "text", "clock", "rng", "hist", "scope", "log")}
GPL = ("tuning/xen/", "tuning/sim/")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def wrong(path, form, target):
    """Why `path` may not include `target`, or None."""
    room = path.split("/")[0]
    if form == "<":
        if target.startswith("libvirt/") and room != "orchestrator":
            return "only the orchestrator knows libvirt"
        return None
    if not os.path.exists(target):
        return "is not a path from the project's root"
    if target.split("/")[0] not in ROOMS[room]:
        return f"{room} may include {', '.join(sorted(ROOMS[room]))} only"
    if path.startswith(GPL):
        if not target.startswith(GPL) and target not in DUAL:
            return "GPL-2.0 code includes its own and the dual-licensed headers of base only"
    elif target.startswith(GPL) and not target.startswith("tuning/xen/abi/"):
        return "GPL-2.0 header"
    if re.sub(r"\.c$", ".h", path) in DUAL and target not in DUAL:
        return "dual-licensed files of base include each other only"
    if re.fullmatch(r"tiles/roles/[^/]+/guest\.c", path) and \
            not target.startswith(("base/", "tiles/roles/")):
        return "the guest part of a role sees base and its role only"
    return None


def guard_is_right(path, text):
    """Two headers with one guard would shut each other out."""
    prefix = "VT_" if path.startswith("base/") else "VTILE_"
    guard = prefix + re.sub(r"[^A-Z0-9]", "_", path.upper())
    return f"#ifndef {guard}\n#define {guard}\n" in text


def main():
    os.chdir(os.environ["VTILE_SOURCE"])
    listing = subprocess.run(["bash", "scripts/sources.sh", "*.c", "*.h"], check=True, text=True,
                             stdout=subprocess.PIPE).stdout
    checked = bad = 0
    for path in listing.splitlines():
        if path.split("/")[0] not in ROOMS:
            continue
        with open(path, encoding="utf-8") as file:
            text = file.read()
        if path.endswith(".h") and not guard_is_right(path, text):
            bad += 1
            print(f"{path}: its guard does not have its path's name")
        for match in INCLUDE.finditer(text):
            checked += 1
            why = wrong(path, match.group(1), match.group(2))
            if why:
                bad += 1
                line = text.count("\n", 0, match.start()) + 1
                print(f"{path}:{line}: {match.group(2)}: {why}")
    print(f"{checked} includes, {bad} wrong")
    return 1 if bad or checked < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
