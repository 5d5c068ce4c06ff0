#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The script of `vtile completion bash`, sourced: it offers what --help has.
set -euo pipefail
export PATH=$VTILE_BUILD:$PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck disable=SC1090
source <(vtile completion bash)
[[ $(complete -p vtile) == *_vtile* ]] || { echo "nothing is registered for vtile"; exit 1; }
cd "$work"
touch my.yaml
bad=0

# offers WORD...: the last word is being written; prints what is offered, sorted.
offers() {
    COMP_WORDS=(vtile "$@")
    COMP_CWORD=$#
    _vtile
    printf '%s\n' "${COMPREPLY[@]}" | sort | xargs
}

# expect "OFFERED" WORD...
expect() {
    local want=$1 got
    shift
    got=$(offers "$@")
    [ "$got" = "$want" ] || { echo "FAILED: 'vtile $*' offers '$got', not '$want'"; bad=1; }
}

commands=$(vtile --help | sed -n '/^Commands:/,/^$/s/^  \([a-z][a-z-]*\) .*/\1/p' | xargs)
expect "$(printf '%s\n' $commands --help --version | sort | xargs)" ""
for command in $commands; do
    expect "$(vtile "$command" --help | sed -n 's/^  \(--[a-z0-9-]*\).*/\1/p' | sort | xargs)" "$command" --
done
expect "watch" wat
expect "build" image bu
expect "check" host ch
expect "score show" results s
expect "smoke standard turbo" run --preset ""
expect "turbo" run --tiles 2 --preset t
expect "" run --tiles ""
expect "my.yaml" run --config m
expect "web" run --spec we
expect "my.yaml" run --spec m
expect "--preset" run --load 0.5 --pres
exit "$bad"
