# SPDX-License-Identifier: Apache-2.0
# fingerprint.sh: prints what changes whenever apt may resolve differently on this machine: its
# settings, and name, size and time of its source and list files. A hundred times cheaper than
# resolving.
set -eu
export LC_ALL=C
lists=/var/lib/apt/lists/ etc=/etc/apt/
eval "$(apt-config shell lists Dir::State::lists/d etc Dir::Etc/d)"
apt-config dump
find "$lists" "$etc" -maxdepth 2 -type f ! -name lock -printf '%p %s %T@ %i\n' | sort
