# SPDX-License-Identifier: Apache-2.0
# Sourced by tests. wait_until SECONDS COMMAND...: polls until the command succeeds, 1 when the time is over.
wait_until() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.05
    done
}
