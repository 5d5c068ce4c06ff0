#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The mail role on this machine, against a real dovecot: steps of many sessions on few mailboxes are
# right, what was acknowledged is kept and is still after a restart, and another IMAP client reads
# it with a checksum that another program computes. About 20 s.
# timeout: 180
set -euo pipefail
die() {
    echo "FAILED: $*"
    tail -n 5 "$work/run/dovecot.log" 2>/dev/null || true
    exit 1
}
[ "$(id -u)" -eq 0 ] || { echo "needs root"; exit 77; }
for tool in dovecot unshare ip openssl python3 jq; do
    command -v "$tool" >/dev/null || { echo "needs $tool"; exit 77; }
done
if [ "${1:-}" != inside ]; then
    # 127.0.0.1:993 of its own; nothing outlives the first process of the PID namespace.
    exec unshare --net --pid --fork --kill-child --mount-proc bash "$0" inside
fi
ip link set lo up
ulimit -S -n 1024 # as in a guest
work=$(mktemp -d /tmp/vm.XXXXXX)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
mkdir "$work/run"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=mail.test \
    -addext subjectAltName=IP:127.0.0.1 -keyout "$work/key.pem" -out "$work/cert.pem" 2>/dev/null

mkfifo "$work/go"
"$VTILE_BUILD/tests/mail_sessions" "$VTILE_SOURCE/tiles/roles/mail/files" "$work" 1200 7 \
    <"$work/go" >"$work/out" 2>"$work/err" &
pid=$!
exec 3>"$work/go"
for _ in $(seq 1500); do
    [ "$(wc -l <"$work/out")" -lt 3 ] || break
    kill -0 "$pid" 2>/dev/null || die "$(cat "$work/err")"
    read -rt 0.1 <> <(:) || true
done
mapfile -t seen <"$work/out"
[ "${#seen[@]}" -eq 3 ] || die "not done in time"
for i in 0 1 2; do
    jq -e '.lost == 0 and .failed_steps == 0 and ."wrong.messages" == 0 and ."wrong.twice" == 0
        and .appended == .acknowledged and .complaints == 0' <<<"${seen[i]}" >/dev/null ||
        die "look $i: ${seen[i]}"
done
jq -e '.wrong_steps == 0 and .acknowledged > 60 and .expunge > 60 and .login > 100' \
    <<<"${seen[2]}" >/dev/null || die "${seen[2]}"
# The second look is that of a new server on the data of the first.
[ "$(jq .appended <<<"${seen[0]}")" = "$(jq .appended <<<"${seen[1]}")" ] || die "restart: ${seen[1]}"

python3 - "$work/cert.pem" "$(jq .acknowledged <<<"${seen[2]}")" <<'EOF' || die "another client"
import imaplib, re, ssl, sys, zlib
appended = 0
for user in range(5):
    m = imaplib.IMAP4_SSL("127.0.0.1", 993, ssl_context=ssl.create_default_context(cafile=sys.argv[1]))
    m.login("user%04d" % user, "vtile")
    m.select("INBOX")
    generated = int(m.response("UIDVALIDITY")[1][0])
    answer = m.uid("FETCH", "1:*", "(BODY.PEEK[])")[1]
    uids = []
    for part in answer:
        if not isinstance(part, tuple):
            continue
        uid, body = int(re.search(rb"UID (\d+)", part[0]).group(1)), part[1]
        uids.append(uid)
        assert body[-20:] == b"vtile-crc %08x\r\n" % zlib.crc32(body[:-20]), uid
        number = uid if uid <= generated else 0
        assert body.startswith(b"X-Vtile-Message: 3 %d %d\r\n" % (user, number)), body[:80]
        assert max(map(len, body.split(b"\r\n"))) <= 998 and b"\n" not in body.replace(b"\r\n", b"")
        appended += uid > generated
    if user == 4: # nobody's: as it was made
        assert uids == list(range(1, generated + 1)), uids
    m.logout()
assert appended == int(sys.argv[2]), (appended, sys.argv[2])
EOF
exec 3>&-
wait "$pid" || die "the server did not end: $(cat "$work/err")"
cat "$work/out"
