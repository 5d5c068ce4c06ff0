#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/skips-ci.txt: each line has a reason and names a test that exists.
set -euo pipefail
list=$VTILE_SOURCE/tests/skips-ci.txt
known=$(ctest --test-dir "$VTILE_BUILD" -N | sed -n 's/^ *Test *#[0-9]*: //p')
[ -n "$known" ] || { echo "ctest names no test"; exit 1; }
bad=0
while IFS= read -r line; do
    case $line in '#'* | '') continue ;; esac
    if ! [[ $line =~ ^([a-z0-9/_.-]+):\ +.{10,}$ ]]; then
        echo "not 'test-name: reason': $line"
        bad=1
    elif ! grep -qxF "${BASH_REMATCH[1]#asan/}" <<<"$known"; then
        echo "no test is named ${BASH_REMATCH[1]}"
        bad=1
    fi
done <"$list"
exit "$bad"
