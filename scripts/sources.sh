#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# sources.sh PATTERN...: the project's files that match, one a line: those that git tracks or would
# track, or, without a repository, all but the build folder.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -e .git ]; then
    # Root often works in a folder of somebody else.
    git -c safe.directory="$PWD" ls-files --cached --others --exclude-standard -- "$@" |
        while IFS= read -r file; do [ ! -f "$file" ] || printf '%s\n' "$file"; done
else
    names=()
    for pattern in "$@"; do names+=(-o -name "${pattern##*/}"); done
    find . -path ./build -prune -o -type f \( "${names[@]:1}" \) -print | sed 's,^\./,,'
fi | LC_ALL=C sort
