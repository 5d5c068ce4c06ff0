# SPDX-License-Identifier: Apache-2.0
# kernel.sh FOLDER PACKAGE VERSION: fetches the kernel's package and unpacks it to FOLDER/kernel.
set -eu
export LC_ALL=C
cd "$1"
apt-get --quiet --quiet \
    -o Dir::Etc::sourcelist="$1/sources.list" -o Dir::Etc::sourceparts=/dev/null \
    -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User=root \
    download "$2=$3" >&2
dpkg-deb --extract ./"$2"_*.deb kernel
rm -f ./"$2"_*.deb
