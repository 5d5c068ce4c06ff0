#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What flush-replay.sh needs beside QEMU and PostgreSQL.

  config FILE                  a config disk of a database guest without a controller
  orders LOG ACKS COUNT -- PSQL...   places orders one by one; a line "<step> <entries>" for each that
                               was acknowledged: so many entries the log of the disk had then
  flushes LOG                  numbers of entries up to and with each flush
  replay LOG DISK FROM TO      applies entries [FROM, TO) to the disk

The log is that of QEMU's blklogwrites, which is dm-log-writes':
https://docs.kernel.org/admin-guide/device-mapper/log-writes.html
"""
import itertools
import struct
import subprocess
import sys
import zlib

MAGIC = 0x6A736677736872
FLUSH, DISCARD = 1, 4
ENTRY = struct.Struct("<QQQQ")  # sector, sectors, flags, length of the data of a mark


def write_config(path):
    text = "".join(
        f"{key}={value}\n"
        for key, value in {
            "run": "flushreplay",
            "role": "database",
            "agent": "database-1",
            "hostname": "database-1",
            "tile": "1",
            "mac": "52:54:00:00:00:01",
            "address": "10.0.2.15/24",
            "unattended": "1",
            "peer.app": "10.0.2.2",  # where QEMU's own network lets this machine appear
            "param.data_disk": "1",
            "param.data_bytes": str(8 << 20),
            "param.seed": "7",
        }.items()
    ).encode()
    head = b"VTCONF1\n" + struct.pack("<II", len(text), zlib.crc32(text))
    with open(path, "wb") as f:
        f.write((head + text).ljust(65536, b"\0"))


def read_super(log):
    log.seek(0)
    magic, version, entries, sector = struct.unpack("<QQQI", log.read(28))
    assert magic == MAGIC and version == 1, "no log of writes"
    return entries, sector


def entries_of(log):
    """Yields (sector size, offset, sectors, flags, where its data stands)."""
    count, size = read_super(log)
    at = size
    for _ in range(count):
        log.seek(at)
        sector, sectors, flags, _ = ENTRY.unpack(log.read(ENTRY.size))
        yield size, sector * size, sectors, flags, at + size
        at += size + (0 if flags & DISCARD else sectors * size)


def place_orders(log_path, acks_path, count, psql):
    with open(log_path, "rb", buffering=0) as log, open(acks_path, "w") as acks:
        session = subprocess.Popen(psql, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for step in range(count):
            # An item that is not the last one's, so that none runs out.
            session.stdin.write(
                f"SELECT number FROM purchase({step}, {step}, array[{step % 50 + 1}], array[1]);\n"
            )
            session.stdin.flush()
            number = session.stdout.readline().strip()
            if not number:
                sys.exit(f"order {step} was not taken")
            acks.write(f"{step} {read_super(log)[0]}\n")
        session.stdin.close()
        session.wait()


def flushes(log_path):
    with open(log_path, "rb") as log:
        for number, (_, _, _, flags, _) in enumerate(entries_of(log), 1):
            if flags & FLUSH:
                print(number)


def replay(log_path, disk_path, first, end):
    with open(log_path, "rb") as log, open(disk_path, "r+b") as disk:
        for size, offset, sectors, flags, data in itertools.islice(entries_of(log), first, end):
            disk.seek(offset)
            if flags & DISCARD:
                zeroes = bytes(1 << 20)
                left = sectors * size
                while left:
                    left -= disk.write(zeroes[: min(left, len(zeroes))])
            elif sectors:
                log.seek(data)
                disk.write(log.read(sectors * size))


def main(argv):
    what = argv[1]
    if what == "config":
        write_config(argv[2])
    elif what == "orders":
        place_orders(argv[2], argv[3], int(argv[4]), argv[6:])
    elif what == "flushes":
        flushes(argv[2])
    elif what == "replay":
        replay(argv[2], argv[3], int(argv[4]), int(argv[5]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv)
