#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# install-packages.sh GROUP...: installs what is missing of these groups of packages.txt.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
policy=/usr/sbin/policy-rc.d
saved=$policy.before-vtile
mark='# put here by vtile while it installs packages'

wanted() {
    awk -v groups=" $* " '!/^#/ && index(groups, " " $1 " ") { print $2 }' "$here/packages.txt"
}

missing() {
    local package
    for package in "$@"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
            echo "$package"
    done
}

# Debian's packages start their services when they are installed; policy-rc.d forbids it. One that
# the machine has already is kept aside, also when an earlier installation was killed half-way.
forbid_services() {
    if [ -e "$policy" ] && ! grep -qF "$mark" "$policy"; then
        mv "$policy" "$saved"
    fi
    printf '#!/bin/sh\n%s\nexit 101\n' "$mark" >"$policy"
    chmod 755 "$policy"
}

allow_services() {
    rm -f "$policy"
    [ ! -e "$saved" ] || mv "$saved" "$policy"
}

mapfile -t packages < <(wanted "$@")
[ "${#packages[@]}" -gt 0 ] || { echo "no package group named $*" >&2; exit 2; }
mapfile -t packages < <(missing "${packages[@]}")
if [ "${#packages[@]}" -eq 0 ]; then
    exit 0
fi

# One installation at a time, so that the second does not find the first one's policy-rc.d.
exec 9>/run/vtile-install.lock
flock 9
log=$(mktemp)
trap 'allow_services; rm -f "$log"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
forbid_services
export DEBIAN_FRONTEND=noninteractive
apt=(apt-get -q -o DPkg::Lock::Timeout=600)
echo "installing ${#packages[@]} packages: ${packages[*]}"
if ! "${apt[@]}" update >"$log" 2>&1 ||
    ! "${apt[@]}" install -y --no-install-recommends "${packages[@]}" >>"$log" 2>&1; then
    tail -n 40 "$log" >&2
    echo "apt-get failed; scripts/packages.txt lists what is needed" >&2
    exit 4
fi
