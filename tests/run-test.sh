#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run-test.sh NAME COMMAND...: runs one test for ctest. A skip (exit status 77, or a case that cmocka
# skipped) becomes a failure where CI=true and tests/skips-ci.txt does not give its reason.
set -uo pipefail
name=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
# A leftover of the caller's shell would change what cmocka prints and where.
unset CMOCKA_MESSAGE_OUTPUT CMOCKA_XML_FILE CMOCKA_TEST_ABORT
export ASAN_OPTIONS=${ASAN_OPTIONS:-strict_string_checks=1:detect_stack_use_after_return=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
if [ "${CI:-}" != true ]; then
    exec "$@"
fi

listed() {
    grep -qE "^$(printf '%s' "$name" | sed 's/[^A-Za-z0-9_/-]/./g'): *[^ ]" "$here/skips-ci.txt"
}

log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
"$@" 2>&1 | tee "$log"
code=$?
if [ "$code" -eq 77 ] || grep -qE '^\[ *SKIPPED *\] .*[a-z]' "$log"; then
    if ! listed; then
        echo "$name was skipped, and tests/skips-ci.txt gives no reason"
        exit 1
    fi
fi
exit "$code"
