# SPDX-License-Identifier: Apache-2.0
# packages.sh FOLDER RESOLVED SUITE LOG PACKAGE...: makes FOLDER/packages.erofs by mmdebstrap from
# what resolve.sh left in RESOLVED. The lists are copied from this machine, so that exactly the
# resolved versions are installed. What roles make from their programs comes last: FOLDER/recipes
# holds an image.sh a role. Runs in mount and PID namespaces of its own: nothing outlives it.
set -eu
export LC_ALL=C DEBIAN_FRONTEND=noninteractive
folder=$1 resolved=$2 suite=$3 log=$4
shift 4
for tool in mmdebstrap mkfs.erofs; do
    command -v "$tool" >/dev/null && continue
    echo "$tool is missing: install mmdebstrap and erofs-utils" >&2
    exit 1
done
exec 3>&2 >"$log" 2>&1
trap 'code=$?; [ $code = 0 ] || tail -n 4 "$log" >&3' EXIT

include=$(echo "$*" | tr ' ' ',')
# Read by the hooks, which are separate shells; credentials and pins stay on this machine.
export VT_LISTS="$(cat "$resolved/lists")" VT_RECIPES="$folder/recipes"
set -- --mode=root --variant=essential --format=directory --skip=update,check/signed-by \
    --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr --aptopt="$resolved/apt.conf" \
    --dpkgopt=force-unsafe-io --include="$include"
for path in man doc info locale lintian bug groff; do
    set -- "$@" --dpkgopt="path-exclude=/usr/share/$path/*"
done
mmdebstrap "$@" \
    --setup-hook='mkdir -p "$1/var/lib/apt/lists/partial"
        find "$VT_LISTS" -maxdepth 1 -type f ! -name lock -exec cp -t "$1/var/lib/apt/lists" {} +
        for part in auth.conf.d preferences preferences.d; do
            if [ -e "/etc/apt/$part" ]; then cp -rT "/etc/apt/$part" "$1/etc/apt/$part"; fi
        done' \
    --customize-hook='set -e
        for recipe in "$VT_RECIPES"/*; do
            role=/usr/share/vtile/roles/$(basename "$recipe")
            mkdir -p "$1$role"
            cp "$recipe" "$1/image.sh"
            chroot "$1" sh /image.sh "$role"
            rm "$1/image.sh"
        done' \
    --customize-hook='cd "$1"
        rm -rf etc/apt/auth.conf.d/* etc/apt/preferences etc/apt/preferences.d/*
        rm -rf var/log/* var/cache/* var/lib/apt/lists/* var/lib/dpkg/info/*.md5sums
        rm -f etc/hostname etc/resolv.conf etc/machine-id etc/nginx/sites-enabled/default
        mkdir -p var/log/nginx var/cache/nginx dev proc sys run tmp root' \
    "$suite" "$folder/root" "$resolved/sources.list"

# lz4hc halves the image; no compression would save a twentieth of the CPU of an emulated boot.
# Clusters of 16 KiB are 7 % smaller than of 4 KiB and cost the same.
mkfs.erofs -zlz4hc -C16384 -T0 -U "$(printf '%08x-0000-4000-8000-%012x' 1 1)" \
    "$folder/packages.erofs" "$folder/root" >/dev/null
rm -rf "$folder/root" "$folder/recipes"
