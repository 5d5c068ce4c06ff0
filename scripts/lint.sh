#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lint.sh format | cppcheck | tidy ROOM: one linter over the project's C source; any finding fails.
# VTILE_BUILD names the build folder that holds compile_commands.json.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${VTILE_BUILD:-build}
what=$1

for tool in clang-format clang-tidy cppcheck; do
    command -v "$tool" >/dev/null || { echo "skip: no $tool here"; exit 77; }
done

case $what in
format)
    bash scripts/sources.sh '*.c' '*.h' | xargs -r clang-format --dry-run -Werror
    ;;
cppcheck)
    mkdir -p "$build/cppcheck"
    bash scripts/sources.sh '*.c' >"$build/cppcheck.files"
    [ -s "$build/cppcheck.files" ] || exit 0
    cppcheck --quiet --error-exitcode=1 --enable=warning,performance,portability \
        --inline-suppr --suppressions-list=.cppcheck-suppressions --std=c11 --language=c \
        --cppcheck-build-dir="$build/cppcheck" -I . -D_GNU_SOURCE -D__linux__ -D__x86_64__ \
        --library=scripts/cppcheck.cfg \
        --template='{file}:{line}:{column}: {severity}: {message} [{id}]' \
        --file-list="$build/cppcheck.files"
    ;;
tidy)
    # Only what this build compiles has an entry in the compile commands; fuzz targets have none.
    mapfile -t files < <(bash scripts/sources.sh "$2/*.c" "$2/**/*.c" |
        while IFS= read -r file; do
            ! grep -qF "\"file\": \"$PWD/$file\"" "$build/compile_commands.json" || echo "$file"
        done | sort -u)
    [ "${#files[@]}" -gt 0 ] || { echo "no source in $2 yet"; exit 0; }
    # "N warnings generated" counts what the filters dropped, mostly in the system's headers.
    # -w: the compilers' own warnings are theirs to tell.
    clang-tidy --quiet --extra-arg=-w -p "$build" "${files[@]}" 2> >(grep -v 'warnings\? generated' >&2)
    ;;
*)
    echo "usage: lint.sh format | cppcheck | tidy ROOM" >&2
    exit 2
    ;;
esac
