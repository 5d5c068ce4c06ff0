# SPDX-License-Identifier: Apache-2.0
# kernel.sh FOLDER RESOLVED PACKAGE VERSION: fetches the kernel's package from the repositories that
# resolve.sh found and unpacks it to FOLDER/kernel.
set -eu
export LC_ALL=C
cd "$1"
apt-get --quiet --quiet \
    -o Dir::Etc::sourcelist="$2/sources.list" -o Dir::Etc::sourceparts=/dev/null \
    -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User=root \
    download "$3=$4" >&2
dpkg-deb --extract ./"$3"_*.deb kernel
rm -f ./"$3"_*.deb
