#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the programs are made of: no GPL-only source in them (vtile-sim: no Apache-only one), the agent
# needs no library that the guest image lacks, vtile-init none at all.
set -euo pipefail
cd "$VTILE_SOURCE"
[ -f "$VTILE_BUILD/build.ninja" ] || { echo "skip: $VTILE_BUILD was not made by ninja"; exit 77; }
bad=0

# sources_of PROGRAM: source files and headers that went into it.
sources_of() {
    local objects
    ninja -C "$VTILE_BUILD" -t inputs "$1" | grep -E '\.(c|S)$' || true
    objects=$(ninja -C "$VTILE_BUILD" -t inputs "$1" | grep -E '\.o$' || true)
    # shellcheck disable=SC2086
    ninja -C "$VTILE_BUILD" -t deps $objects | sed -n 's/^    //p'
}

# check PROGRAM LICENCE: none of its files may have only that licence.
check() {
    local file count=0
    while IFS= read -r file; do
        case $file in "$VTILE_SOURCE"/*) ;; *) continue ;; esac
        case $file in "$VTILE_BUILD"/*) continue ;; esac
        count=$((count + 1))
        if head -n 4 "$file" | grep -qE "SPDX-License-Identifier: $2( \*/)?\$"; then
            echo "$1 is made from ${file#"$VTILE_SOURCE"/}, which is $2"
            bad=1
        fi
    done < <(sources_of "$1" | sort -u)
    echo "$1: $count files"
    [ "$count" -ge 1 ] || { echo "no source found of $1"; bad=1; }
}

needed() {
    readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort
}

for program in vtile vtile-agent vtile-init; do
    check "$program" 'GPL-2\.0(-only|-or-later)?'
done
if [ -x "$VTILE_BUILD/vtile-sim" ]; then
    check vtile-sim 'Apache-2\.0'
fi

for library in $(needed "$VTILE_BUILD/vtile-agent"); do
    case $library in
    libc.so.* | libm.so.* | ld-linux* | libuv.so.* | libssl.so.* | libcrypto.so.* | \
        libjansson.so.* | libz.so.* | libcap-ng.so.*) ;;
    *)
        echo "vtile-agent needs $library, which guests of 128 MB do not carry"
        bad=1
        ;;
    esac
done
if [ -n "$(needed "$VTILE_BUILD/vtile-init")" ]; then
    echo "vtile-init is not static"
    bad=1
fi
exit "$bad"
