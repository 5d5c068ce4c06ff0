# SPDX-License-Identifier: Apache-2.0
# image.sh FOLDER: makes FOLDER/cluster, an empty cluster of PostgreSQL's user where root asks. Run in
# the packages layer when it is made, with the role's folder there: the guest then lays a copy on
# its data, since initdb costs an emulated CPU more than all that follows. The guest itself runs
# this where it was given none.
set -eu
export LC_ALL=C TZ=UTC
bin=/usr/lib/postgresql/15/bin cluster=$1/cluster
# Where this stands others may not be let in.
cd /
if [ "$(id -u)" -eq 0 ]; then
    install -d -m 0700 -o postgres -g postgres "$cluster"
    as_user() { setpriv --reuid postgres --regid postgres --init-groups --pdeathsig keep "$@"; }
else
    install -d -m 0700 "$cluster"
    as_user() { "$@"; }
fi
as_user "$bin/initdb" -D "$cluster" --no-sync -E UTF8 --no-locale -A trust --wal-segsize=1 \
    -U postgres --no-instructions >&2

# initdb leaves two templates of 7 MiB each that nothing copies from: in a guest without a disk they
# would stay in memory. Each command by itself: dropping a database is no transaction.
as_user "$bin/postgres" --single -j -D "$cluster" -c exit_on_error=on -c fsync=off \
    -c wal_level=minimal -c max_wal_senders=0 -c max_wal_size=4MB -c min_wal_size=2MB \
    -c shared_buffers=16MB -c log_checkpoints=off postgres >&2 <<'SQL'
UPDATE pg_database SET datistemplate = false;

DROP DATABASE template0;

DROP DATABASE template1;
SQL
