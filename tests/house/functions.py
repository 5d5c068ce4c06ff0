#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No call of a function that cannot be used safely, no exit() in library code, no guessed waits."""
import os
import re
import subprocess
import sys

CALL = r"(?<![\w.>])({})\s*\("
BANNED = re.compile(CALL.format(
    "strcpy|stpcpy|strcat|v?sprintf|gets|strtok|ato[ifl]|atoll|system|popen|"
    "alloca|s?rand|random|tmpnam|mktemp|tempnam|asctime|ctime|gmtime|localtime|vfork"))
EXIT = re.compile(CALL.format("exit|abort"))
PAUSE = re.compile(CALL.format("u?sleep|nanosleep|clock_nanosleep"))
POLL = re.compile(r"\b(while|for) \([^\n]*(\n[^\n]*){0,4}$")
SCRIPT_POLL = re.compile(r"\b(while|for) [^\n]*(\n[^\n]*){0,4}$")
# A long sleep is a process to look at; a short one is a guess at how long something takes.
SCRIPT_PAUSE = re.compile(r"\bsleep[ (]+[0-9]{0,2}(\.[0-9]+)?(?![0-9.])")
# The loops that poll for a condition are written once.
WAITS = ("tests/system/wait-until.sh", "tests/house/functions.py")


def code_only(text):
    """The text with comments and the insides of strings blanked, lines kept."""
    token = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
    return token.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), text)


def findings(path, text):
    if path.endswith((".c", ".h")):
        text = code_only(text)
        for match in BANNED.finditer(text):
            yield match, "not used here"
        if not path.startswith("tests/") and not path.endswith("/main.c") \
                and not path.startswith("tiles/image/init/"):
            for match in EXIT.finditer(text):
                yield match, "only main() ends a program"
        if path.startswith("tests/"):
            for match in PAUSE.finditer(text):
                # Inside a loop that looks at its condition between pauses.
                if not POLL.search(text[:match.start()]):
                    yield match, "wait for a condition instead"
    elif path.startswith("tests/") and path.endswith((".sh", ".py")) and path not in WAITS:
        for match in SCRIPT_PAUSE.finditer(text):
            if path.endswith(".py") and SCRIPT_POLL.search(text[:match.start()]):
                continue
            yield match, "use wait_until of tests/system/wait-until.sh"


def main():
    os.chdir(os.environ["VTILE_SOURCE"])
    listing = subprocess.run(["bash", "scripts/sources.sh", "*.c", "*.h", "*.sh", "*.py"],
                             check=True, text=True, stdout=subprocess.PIPE).stdout.splitlines()
    bad = 0
    for path in listing:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for match, why in findings(path, text):
            bad += 1
            line = text.count("\n", 0, match.start()) + 1
            print(f"{path}:{line}: {match.group(0).strip()}: {why}")
    print(f"{len(listing)} files, {bad} findings")
    return 1 if bad or len(listing) < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
