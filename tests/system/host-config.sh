# SPDX-License-Identifier: Apache-2.0
# Sourced by 40-run-tile.sh: what its record says of the host and of the settings, held against what other
# tools tell, $work/x/record.sqlite and $archive.
fact() {
    sqlite3 "$work/x/record.sqlite" "SELECT value FROM meta WHERE key = 'config.$1'"
}
expect() {
    [ "$(fact "$1")" = "$2" ] || die "config.$1 is '$(fact "$1")', not '$2'"
}

# The host, as uname, lscpu and others see it.
expect host.1.kernel "$(uname -r) $(uname -m)"
expect host.1.cpus "$(nproc --all)"
expect host.1.sockets "$(lscpu -p=SOCKET | grep -v '^#' | sort -u | wc -l)"
expect host.1.numa.nodes "$(find /sys/devices/system/node -maxdepth 1 -name 'node[0-9]*' | wc -l)"
expect host.1.distribution "$(sed -n 's/^PRETTY_NAME="\(.*\)"$/\1/p' /etc/os-release)"
expect host.1.cpu "$(sed -n 's/^model name\t: //p' /proc/cpuinfo | head -n 1)"
case $(fact host.1.machine) in pc-q35-*) ;; *) die "machine type: $(fact host.1.machine)" ;; esac
for name in libvirt qemu hypervisor governor smt thp ksm cmdline cache.l3 cpu.model cores threads memory; do
    [ -n "$(fact "host.1.$name")" ] || die "nothing about $name"
done

# Settings and their sources, in the record and for people.
expect settings.seed 42
expect settings.seed.source vtile.yaml:2:7
expect settings.host.source --host
expect settings.tiles.source VTILE_TILES
expect settings.profile.source default
case $(fact settings.load.source) in 'spec web:'[0-9]*) ;; *) die "source of load: $(fact settings.load.source)" ;; esac
"$vtile" results show "$archive" >"$work/shown"
grep -Eq '^  seed +42 +vtile\.yaml:2:7$' "$work/shown" || die "the seed's source is not shown"
grep -Eq '^  host +embed +--host$' "$work/shown" || die "the host's source is not shown"

