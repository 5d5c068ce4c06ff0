# SPDX-License-Identifier: Apache-2.0
# resolve.sh FOLDER SUITE PACKAGE...: prints "name version" of all that an empty root would get,
# from this machine's own package lists, and leaves in FOLDER what the other scripts need:
# sources.list (the repositories of SUITE that this machine uses), lists (where its lists stand)
# and apt.conf (proxies and other settings of downloads). Reads only; takes no lock of apt.
set -eu
export LC_ALL=C
folder=$1 suite=$2
shift 2

apt-get indextargets --format '$(REPO_URI)|$(RELEASE)|$(CODENAME)|$(COMPONENT)|$(FILENAME)' \
    'Created-By: Packages' >"$folder/targets"
awk -F'|' -v suite="$suite" 'index($3, suite) == 1 && !seen[$1, $2, $4]++ {
    print "deb", $1, $2, $4 }' "$folder/targets" >"$folder/sources.list"
if [ ! -s "$folder/sources.list" ]; then
    echo "this machine has no package lists of $suite: run apt-get update" >&2
    exit 1
fi
awk -F'|' -v suite="$suite" 'index($3, suite) == 1 { sub("/[^/]*$", "", $5); print $5; exit }' \
    "$folder/targets" >"$folder/lists"
apt-config dump --no-empty --format '%f "%v";%n' Acquire |
    grep -E '^Acquire::(http|https|ftp|Retries|Check-|Allow|ForceIPv)' >"$folder/apt.conf" || :

apt-get --simulate --quiet \
    -o Dir::State::status=/dev/null -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= \
    -o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=/dev/null \
    -o APT::Install-Recommends=false install '?essential' "$@" >"$folder/simulated"
sed -n 's/^Inst \([^ ]*\) (\([^ ]*\) .*/\1 \2/p' "$folder/simulated" | sort
