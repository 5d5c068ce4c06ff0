#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 120
# `vtile load` against a real nginx in a network namespace of the test's own: a stall is seen as the law says,
# counts agree with the server's log, each end has its exit code.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/wait-until.sh"
vtile=$VTILE_BUILD/vtile

if [ $# -eq 0 ]; then
    [ "$(id -u)" -eq 0 ] || { echo "needs root"; exit 77; }
    for tool in nginx openssl ip jq unshare; do
        command -v "$tool" >/dev/null || { echo "needs $tool"; exit 77; }
    done
    work=$(mktemp -d /tmp/vl.XXXXXX)
    trap 'rm -rf "$work"' EXIT
    unshare --mount --net --pid --fork --kill-child --mount-proc bash "$0" "$work"
    exit
fi

work=$1
cd "$work"
die() {
    echo "FAILED: $*"
    tail -n 20 out err error.log 2>/dev/null || true
    exit 1
}

# ---- the server ----

ip link set lo up
printf '%s two.test\n' ::1 127.0.0.1 >hosts
mount --bind hosts /etc/hosts
for name in server other; do
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=web.test \
        -addext subjectAltName=IP:127.0.0.1 -keyout "$name.key" -out "$name.pem" 2>/dev/null
done
cat >nginx.conf <<'CONF'
daemon off; master_process off; pid nginx.pid; error_log error.log warn;
events { worker_connections 1024; }
http {
    access_log access.log;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    keepalive_requests 1000000;
    server {
        listen 127.0.0.1:8080 backlog=511;
        listen [::1]:8081;
        listen 127.0.0.1:8443 ssl backlog=511;
        ssl_certificate server.pem; ssl_certificate_key server.key; ssl_protocols TLSv1.3;
        location / { return 200 "hello\n"; }
        location /no { return 404; }
    }
}
CONF
nginx -p "$work" -c "$work/nginx.conf" -e error.log &
server=$!
listens() { (exec 3<>/dev/tcp/127.0.0.1/8443) 2>/dev/null; }
wait_until 20 listens || die "nginx does not listen"
url=http://127.0.0.1:8080

# load CODE OPTION...: runs it, output in out and err. The generator may be late on a busy machine.
load() {
    local want=$1 code=0
    shift
    "$vtile" load "$@" >out 2>err || code=$?
    [ "$code" -eq "$want" ] || die "vtile load $*: exit code $code, not $want"
}
# is FILTER: of the JSON in out.
is() {
    jq -e "$@" out >/dev/null || die "not so: $*"
}
adds_up='.v == 1 and .type == "load" and .intended == .right + .wrong + .failed and .all_requests >= .intended'
logged() { grep -c "GET $1 " access.log || true; }
# counted PATH: as many lines in the log as requests in all; nginx writes one at the request's end.
counted() {
    local all
    all=$(jq .all_requests out)
    as_many() { [ "$(logged "$1")" -eq "$all" ]; }
    wait_until 5 as_many "$1" || die "$(logged "$1") requests in the log, $all counted"
}

# ---- a stall of one second in five: p_q = S - (1 - q)(1 - rho)T ----

"$vtile" load $url/stall --rate 200 --duration 5s --wake-lag-max 5s --seed 1 --json >out 2>err &
pid=$!
busy() { [ "$(logged /stall)" -ge 500 ]; }
wait_until 20 busy || die "no load"
from=$(date +%s%N)
kill -STOP "$server"
over() { [ $(($(date +%s%N) - from)) -ge 1000000000 ]; }
wait_until 5 over
kill -CONT "$server"
stop_ms=$((($(date +%s%N) - from) / 1000000))
code=0
wait "$pid" || code=$?
[ "$code" -eq 0 ] || die "stall: exit code $code"
is "$adds_up and .valid and .intended == 1000 and .right == 1000 and .all_requests == 1200 and .seconds == 5"
is '.offered_per_s == 200 and .queue_high > 100 and (.response | length) == 7'
counted /stall
# rho: 200/s of the median service time; (1 - q) 1000 requests came in the stop's first S - p_q seconds,
# give or take three times their root. Draining takes a while on a busy machine.
jq -r --argjson s "$stop_ms" '
    (.service[0].ns / 1e6 * 0.2) as $rho | .response[] | select(.percentile >= 90 and .percentile <= 99)
    | ((100 - .percentile) * 10) as $n
    | [.percentile, .ns / 1e6, $s - ($n / 1000) * (1 - $rho) * 5000, 3 * ($n | sqrt) * 5 + 20] | @tsv' out >law
[ "$(wc -l <law)" -eq 3 ] || die "no three percentiles: $(cat law)"
awk '{ printf "p%s: %.0f ms, law %.0f ms +- %.0f\n", $1, $2, $3, $4 }
    $2 < $3 - $4 || $2 > $3 + $4 + 100 { bad = 1 } END { exit bad }' law || die "the law of stalls does not hold"
# In service time 16 answers of 1000 show it: those of the connections.
is '.service[] | select(.percentile == 95) | .ns < 100e6'

# ---- other loads ----

load 0 $url/bursts --rate 100 --schedule bursty:100ms,150ms --duration 2s --wake-lag-max 5s --seed 1 --json
is "$adds_up and .valid and .shape == \"bursty:100ms,150ms\" and .intended == 200 and .all_requests == 300"
counted /bursts
printf '0\n0.25\n500000000\n1.75\n' >times
load 0 $url/again --schedule replay:times --warm-up 0s --wake-lag-max 5s --threads 2
grep -q '^open loop, 2 requests a second, replay:times, ' out || die "no head"
grep -q '^requests   4 intended: 4 right' out || die "not the recorded requests"
[ "$(logged /again)" -eq 4 ] || die "$(logged /again) requests in the log, 4 recorded"
printf '0\n2\n1\n' >times
load 2 $url/ --schedule replay:times
grep -q 'times:3:1: earlier than the line before' err || die "order: $(cat err)"
load 0 $url/closed --closed --duration 1s --warm-up 0s --connections 8 --threads 2 --json
is "$adds_up and .valid and .loop == \"closed\" and .failed == 0 and .right > 100 and (has(\"response\") | not)"
counted /closed
load 0 http://[::1]:8081/think --closed --think 100ms --duration 1s --warm-up 0s
grep -q '^closed loop, think time 0.1 s' out || die "no head"
grep -q 'stalls are hidden' out || die "closed loop without its warning"
load 0 http://two.test:8080/two --closed --duration 1s --warm-up 0s --json
is '.address == "127.0.0.1" and .host == "two.test:8080"'
load 1 $url/no --rate 50 --duration 1s --warm-up 0s --wake-lag-max 5s --threads 4
grep -q '^first .*the status is 404' out || die "no reason given"
load 3 $url/late --rate 100 --duration 1s --warm-up 0s --wake-lag-max 1us --json
is '.valid == false and (.why | startswith("the generator was late"))'
load 0 https://127.0.0.1:8443/tls --ca server.pem --rate 50 --duration 1s --warm-up 0s --wake-lag-max 5s --json
is "$adds_up and .valid and .tls and .right == 50"
load 0 https://127.0.0.1:8443/tls --insecure --closed --duration 1s --warm-up 0s
load 4 https://127.0.0.1:8443/tls --ca other.pem --rate 50
grep -q 'certificate' err || die "an untrusted certificate is not named: $(cat err)"
load 4 https://127.0.0.1:8443/tls --rate 50
load 2 https://127.0.0.1:8443/tls --ca nginx.conf --rate 50
load 2 https://127.0.0.1:8443/tls --ca nowhere.pem --rate 50
load 4 http://127.0.0.1:1/ --rate 50
grep -q 'connect to 127.0.0.1 port 1: .*refused' err || die "refused: $(cat err)"
load 2 $url/
load 2 "$url/a b" --rate 1
load 2 ftp://127.0.0.1/ --closed
load 2 $url/ --rate 1 --duration 90ms
(ulimit -n 60 && load 2 $url/ --rate 1) || exit 1
grep -q 'ulimit -n' err || die "no way out of too few open files: $(cat err)"
code=0
"$vtile" load $url/full --rate 50 --duration 1s --warm-up 0s --wake-lag-max 5s >/dev/full 2>err || code=$?
[ "$code" -eq 4 ] || die "full output: exit code $code"

# ---- interrupted in the middle, by a signal of its own ----

for how in "--rate 200 --wake-lag-max 5s" --closed; do
    : >access.log
    # shellcheck disable=SC2086
    "$vtile" load $url/int $how --connections 4 --duration 60s --warm-up 0s --json >out 2>err &
    pid=$!
    busy() { [ "$(logged /int)" -ge 100 ]; }
    wait_until 20 busy || die "no load"
    from=$(date +%s%N)
    wait_until 5 over
    kill -INT "$pid"
    code=0
    wait "$pid" || code=$?
    [ "$code" -eq 130 ] || die "interrupted: exit code $code"
    is "$adds_up and .interrupted and .valid and .seconds >= 1 and .seconds < 20 and .right > 100"
done
kill "$server"
