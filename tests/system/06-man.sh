#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Each command has a man page; it and --help name the same options and verbs; pages are clean and whole.
set -euo pipefail
command -v mandoc >/dev/null || { echo "skip: no mandoc here"; exit 77; }
vtile=$VTILE_BUILD/vtile
pages=$VTILE_SOURCE/docs/man
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
fail() {
    echo "FAILED: $*"
    bad=1
}

# same WHAT: $work/help and $work/page hold the same lines.
same() {
    [ -s "$work/help" ] || fail "$1: nothing found in --help"
    diff -u "$work/help" "$work/page" >"$work/diff" ||
        fail "$1: --help (-) and the page (+) differ: $(grep '^[-+][^-+]' "$work/diff" | xargs)"
}

# section PAGE NAME: its lines.
section() {
    awk -v name="$2" '/^\.Sh/ { on = $0 == ".Sh " name; next } on' "$1"
}

# words PATTERN: what stands behind it at the beginning of lines; names the page's items.
words() {
    sed -n "s/^$1\([a-z][a-z-]*\).*/\1/p" | sort -u
}

"$vtile" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z][a-z-]*\) .*/\1/p' | sort >"$work/commands"
sort "$work/commands" >"$work/help"
section "$pages/vtile.1" DESCRIPTION | words '\.It Cm ' >"$work/page"
same "vtile.1, commands"
[ "$(sed 's/.*/vtile-&.1/' "$work/commands" | cat - <(echo vtile.1) | sort | xargs)" = "$(cd "$pages" && ls | sort | xargs)" ] ||
    fail "pages are $(ls "$pages" | xargs), commands are $(xargs <"$work/commands")"

while read -r command; do
    page=$pages/vtile-$command.1
    [ -f "$page" ] || continue # told above
    "$vtile" "$command" --help | sed -n 's/^  --\([a-z0-9-]*\).*/\1/p' | sort -u >"$work/help"
    section "$page" OPTIONS | words '\.It Fl -' >"$work/page"
    same "vtile-$command.1, options"
    # "vtile results show|verify [OPTION]...": the words of the usage lines.
    "$vtile" "$command" --help | sed -n "s/^\(Usage:\)\? *vtile $command \([a-z|-]*\)\( .*\)\?$/\2/p" |
        tr '|' '\n' | grep -v '^-\|^$' | sort -u >"$work/verbs" || true
    case $command in
    completion) ;; # its one word is an argument
    *)
        [ -s "$work/verbs" ] || continue
        cp "$work/verbs" "$work/help"
        section "$page" DESCRIPTION | words '\.It Cm ' >"$work/page"
        same "vtile-$command.1, verbs"
        ;;
    esac
done <"$work/commands"

# What a plain run is made of: the page knows the built-in specs and what the default one says.
"$vtile" run --help | sed -n '/^Built-in specs:/,$s/^  \([a-z]*\) .*/\1/p' >"$work/specs"
[ -s "$work/specs" ] || fail "run --help names no built-in specs"
while read -r spec; do
    section "$pages/vtile-run.1" OPTIONS | grep -q "^\.Cm $spec\( [,;]\)\?$" || fail "vtile-run.1 does not know the spec $spec"
done <"$work/specs"
"$vtile" run --help | sed -n "s/.*(the spec's; \(.*\))$/\1/p" >"$work/defaults"
[ -s "$work/defaults" ] || fail "run --help says nothing of the spec's own values"
while read -r default; do
    grep -qF "Po $default Pc" "$pages/vtile-run.1" || fail "vtile-run.1 does not say $default"
done <"$work/defaults"

for page in "$pages"/*.1; do
    name=$(basename "$page")
    lint=$(mandoc -Tlint -Wwarning "$page" 2>&1) || fail "$name: $lint"
    for want in NAME SYNOPSIS DESCRIPTION OPTIONS ENVIRONMENT FILES "EXIT STATUS" EXAMPLES "SEE ALSO"; do
        [ -n "$(section "$page" "$want")" ] || fail "$name has no section $want"
    done
    for other in $(sed -n 's/^\.Xr \(vtile[a-z-]*\) .*/\1/p' "$page"); do
        [ -f "$pages/$other.1" ] || fail "$name refers to $other, which has no page"
    done
done
# What the build installs.
DESTDIR=$work/root cmake --install "$VTILE_BUILD" --prefix /usr >/dev/null
[ "$(cd "$work/root/usr/share/man/man1" && ls | xargs)" = "$(cd "$pages" && ls | xargs)" ] || fail "not all pages are installed"
exit "$bad"
