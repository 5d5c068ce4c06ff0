#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Configuration that is wrong is refused with its place and exit code 2 before anything is made;
# --print-config says where each setting came from.
set -euo pipefail

vtile=$VTILE_BUILD/vtile
work=$(mktemp -d /tmp/vc.XXXXXX)
trap 'rm -rf "$work"' EXIT
cd "$work"
unset "${!VTILE_@}"
export VTILE_STATE=$work/state VTILE_RUNTIME=$work/runtime VTILE_CACHE=$work/cache
die() {
    echo "FAILED: $*"
    exit 1
}

# refused TEXT ARGUMENT...: exit code 2, TEXT on standard error, nothing made.
refused() {
    local text=$1 code=0
    shift
    "$vtile" run "$@" >"$work/out" 2>"$work/err" || code=$?
    [ "$code" -eq 2 ] || die "run $*: exit code $code: $(cat "$work/err")"
    grep -qF -- "$text" "$work/err" || die "run $*: no \"$text\" in: $(cat "$work/err")"
    [ ! -s "$work/out" ] || die "run $*: wrote to standard output"
    for folder in state runtime cache; do
        [ ! -e "$work/$folder" ] || die "run $*: made $folder"
    done
}

refused '--tiles: expected a whole number from 1 to 256, not "0"' --tiles 0
refused '--tiles: expected a whole number from 1 to 256, not "9999999999"' --tiles 9999999999
refused '--load: expected a number with at most six decimals from 0.000001 to 1, not "1.5"' --load 1.5
refused 'not "-1"' --load -1
refused 'unknown option --tile: did you mean --tiles?' --tile 1
refused 'did you mean "web"?' --spec wbe

# The same section twice, far apart.
{
    printf 'name: x\ndescription: y\nroles:\n  infra:\n'
    for i in $(seq 200); do printf '    # %d\n' "$i"; done
    printf '  infra:\n'
} >twice.yaml
refused 'twice.yaml:205:3: duplicate key "infra": it stands at 4:3 already' --spec twice.yaml

# Words that other readers take for true or false, and nothing at all.
printf 'name: NO\ndescription: y\nroles:\n  infra:\n    scored: no\n' >norway.yaml
refused 'norway.yaml:5:13: roles.infra.scored: expected true or false, not "no"' --spec norway.yaml
printf 'name:\ndescription: y\n' >null.yaml
refused 'null.yaml:1:6: name: expected text of 1 to 31 bytes on one line, not an empty value' --spec null.yaml

# What would cost memory, stack or time.
printf 'a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n' >laughs.yaml
refused 'laughs.yaml:2:8: an alias' --spec laughs.yaml
printf '[%.0s' $(seq 5000) >deep.yaml
refused 'deep.yaml:1:17: nested deeper than the depth limit, 16 levels' --spec deep.yaml
truncate -s 50M large.yaml
refused 'larger than the size limit, 1048576 bytes' --spec large.yaml
mkfifo fifo.yaml
refused 'not a regular file' --spec fifo.yaml
refused 'not a regular file' --spec /dev/zero
printf 'x: !!python/object/apply:os.system ["true"]\n' >tag.yaml
refused 'tag.yaml:1:4: a tag' --spec tag.yaml

# Sources, and an override of each by the next.
printf 'tiles: 3\nload: 0.25\n' >vtile.yaml
VTILE_LOAD=0.5 "$vtile" run --print-config --preset turbo >config.txt
for line in 'spec +specvirt +default' 'tiles +3 +vtile.yaml:1:8' 'load +0.5 +VTILE_LOAD' \
    'preset +turbo +--preset' "state +$work/state +VTILE_STATE"; do
    grep -qE -- "^$line\$" config.txt || die "no \"$line\" in: $(cat config.txt)"
done
[ ! -e state ] || die "--print-config made the state folder"
printf 'tils: 3\n' >vtile.yaml
refused 'vtile.yaml:1:1: unknown key "tils": did you mean "tiles"?'
"$vtile" run --help >help.txt || die "--help needs a good vtile.yaml"
grep -q -- '--print-config' help.txt || die "--help does not list the options"

# A word that is nearly one is answered with the right one.
rm vtile.yaml
said() {
    local want=$1 code=0
    shift
    "$vtile" "$@" >out.txt 2>&1 || code=$?
    { [ "$code" -eq 2 ] && grep -qF -- "$want" out.txt; } || die "$*: $code, $(cat out.txt)"
}
said 'unknown command "rum": did you mean run?' rum
said 'unknown command "zzzzzzzz"; `vtile --help` lists the commands' zzzzzzzz
said 'unknown verb "lsit": did you mean list?' results lsit

# A reader that has gone is told nothing; the exit code says it.
exec 3> >(exec true)
wait $!
code=0
"$vtile" run --help >&3 2>err.txt || code=$?
exec 3>&-
{ [ "$code" -eq 4 ] && [ ! -s err.txt ]; } || die "a pipe without reader: exit code $code, $(cat err.txt)"
code=0
"$vtile" run --help >/dev/full 2>err.txt || code=$?
{ [ "$code" -eq 4 ] && grep -q 'did not take all' err.txt; } || die "full output: exit code $code, $(cat err.txt)"

# Every command looks where the settings say, not run alone.
printf 'state: %s\n' "$work/other" >vtile.yaml
listed=$(unset VTILE_STATE && "$vtile" results list) || die "results list with a state folder of vtile.yaml"
[ "$listed" = "no results in $work/other/results yet" ] || die "results list looked elsewhere: $listed"
listed=$("$vtile" results list --state "$work/third")
[ "$listed" = "no results in $work/third/results yet" ] || die "results list --state looked elsewhere: $listed"
for command in clean 'host check' 'image list'; do
    code=0
    # shellcheck disable=SC2086
    "$vtile" $command --state rel >out.txt 2>&1 || code=$?
    { [ "$code" -eq 2 ] && grep -qF 'expected a path from /, not "rel"' out.txt; } || die "$command --state rel: $code"
done
code=0
"$vtile" host check --host 'qemu+unix:///system?socket=/nowhere' >out.txt 2>&1 || code=$?
{ [ "$code" -eq 2 ] && grep -q 'error: connection' out.txt; } || die "host check of a host that is not there: $code"
echo "refused and printed as it should"
