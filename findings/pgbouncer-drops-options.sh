#!/bin/sh
# PgBouncer 1.18.0 (Debian 12), session pooling: it refuses a client that sends `options` at the start (PGOPTIONS, or options= in a URL of
# libpq, JDBC and psycopg) with "unsupported startup parameter". With the usual remedy, ignore_startup_parameters = options, the client
# is connected, and none of its options has an effect: a session that asked to be read-only writes, a statement_timeout is off,
# and neither side says so. Expected: the options are applied to the session of this client, which has a server of its own.
set -eu
folder=$(mktemp -d)
chown postgres "$folder"
as() { runuser -u postgres -- "$@"; }
bin=/usr/lib/postgresql/15/bin
trap 'as $bin/pg_ctl -D "$folder/db" -m immediate stop >/dev/null 2>&1 || true; kill $(cat ./*.pid) || true; rm -rf "$folder"' EXIT
cd "$folder"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
as $bin/initdb -D db -A trust >/dev/null
as $bin/pg_ctl -D db -w -o "-k $folder -h 127.0.0.1 -p $port" -l log start >/dev/null
as sh -c "cat >pool.ini" <<INI
[databases]
postgres = host=127.0.0.1 port=$port user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $((port + 1))
unix_socket_dir =
auth_type = any
pool_mode = session
pidfile = $folder/pool.pid
INI
as sh -c "sed 's/pool_mode.*/&\nignore_startup_parameters = options/; s/^listen_port.*/listen_port = $((port + 2))/; s/pool.pid/ignoring.pid/' \
    pool.ini >ignoring.ini"
for file in pool.ini ignoring.ini; do as pgbouncer -q -d "$file"; done
ask() {
    PGOPTIONS='-c default_transaction_read_only=on -c statement_timeout=5s' psql -X -At -h 127.0.0.1 -p "$1" -U postgres postgres -c \
        "SELECT current_setting('default_transaction_read_only'), current_setting('statement_timeout')" 2>&1 | tail -1
}
for try in $(seq 100); do
    psql -X -h 127.0.0.1 -p $((port + 1)) -U postgres postgres -c 'SELECT 1' >/dev/null 2>&1 &&
        psql -X -h 127.0.0.1 -p $((port + 2)) -U postgres postgres -c 'SELECT 1' >/dev/null 2>&1 && break
    sleep 0.1
done
seen="PostgreSQL: $(ask "$port")
PgBouncer: $(ask $((port + 1)) | sed 's/.*FATAL: *//')
PgBouncer, ignore_startup_parameters: $(ask $((port + 2)))"
expected='PostgreSQL: on|5s
PgBouncer: unsupported startup parameter: options
PgBouncer, ignore_startup_parameters: off|0'
echo "$seen"
[ "$seen" = "$expected" ]
