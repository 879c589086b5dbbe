#!/usr/bin/env bash
# places.sh: many connections to the page of a run that do nothing, were refused, or are opened again and again: its owner gets an answer
# to each request.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"
"$LOCKSTEP" --version | grep -q '^microhttpd  *[0-9]' || { echo "skipped: needs libmicrohttpd"; exit 77; }

requests=14 crowd=64
runs=$scratch/runs
run=$runs/one
mkdir -p "$run"
echo '{"step":1,"loss":5.5,"norm":1,"lr":0.1,"ms":3}' >"$run/metrics.jsonl"

# serve ADDRESS: as `child`, at `port`, with `token`.
serve() {
    local end=$(($(now_ms) + 60000))
    "$LOCKSTEP" watch "$runs" --live "$1" >"$scratch/link" 2>"$scratch/err" </dev/null &
    child=$!
    until port=$(sed -n 's/.*http:[^ ]*:\([0-9]*\)\/.*/\1/p' "$scratch/link" | head -n 1) && [ -n "$port" ]; do
        if [ "$(now_ms)" -gt $end ] || ! is_alive "$child"; then
            fail "the page did not start"
            return 1
        fi
        sleep 0.01
    done
    token=$(sed -n 's/.*?token=\([0-9a-f]*\).*/\1/p' "$scratch/link" | head -n 1)
}

# send REQUEST: on a new connection, which stays open as the descriptor `place`.
send() {
    exec {place}<>"/dev/tcp/127.0.0.1/$port" || return
    # shellcheck disable=SC2059 # headers end with \r\n
    [ -z "$1" ] || printf "$1" >&"$place"
}
close_place() { exec {place}>&-; }
with_token() { echo "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:$port\r\n${token:+Authorization: Bearer $token\r\n}\r\n"; }
half() { echo "GET /metrics HTTP/1.1\r\nHo"; }
without_token() { echo "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:$port\r\n\r\n"; }

# fill WHAT: so many connections that stay open, each with that request and its answer.
fill() {
    local i line
    places=()
    for ((i = 0; i < crowd; i++)); do
        send "$1" 2>/dev/null || break
        places+=("$place")
        case "$1" in *'\r\n\r\n') read -r -t 5 line <&"$place" ;; esac
    done
}
empty() {
    local place
    for place in "${places[@]}"; do exec {place}>&-; done
}

owner() {
    local i line answered=0 begin
    begin=$(now_ms)
    for ((i = 0; i < requests; i++)); do
        line=
        send "$(with_token)" && read -r -t 20 line <&"$place"
        close_place
        case "$line" in "HTTP/1.1 200"*) answered=$((answered + 1)) ;; *) break ;; esac
    done
    [ "$answered" -eq "$requests" ] || fail "$answered of $requests requests were answered, in $(($(now_ms) - begin)) ms"
}

# crowded NAME ADDRESS REQUEST: with REQUEST, a function or nothing, on each connection of the crowd.
crowded() {
    case_begin "$1"
    serve "$2" || return
    fill "$([ -z "$3" ] || "$3")"
    owner
    empty
    owner
    kill -TERM "$child"
    reap
    expect_status 0
}
beside crowded "idle connections that were answered" 127.0.0.1:0 with_token
beside crowded "idle connections that were refused" 0.0.0.0:0 without_token
beside crowded "silent connections" 127.0.0.1:0 ''
beside crowded "silent connections, with a token" 0.0.0.0:0 ''
beside crowded "half a request" 0.0.0.0:0 half

# A crowd that comes back, all of it, whenever it was sent away.
again_and_again() {
    case_begin "connections that are opened again and again"
    serve 0.0.0.0:0 || return
    (
        crowd=60
        while is_alive "$child"; do
            fill ''
            sleep 0.05
            empty
        done
    ) &
    local attacker=$!
    owner
    kill -TERM "$child"
    reap
    wait "$attacker"
    expect_status 0
}
beside again_and_again
join
finished
