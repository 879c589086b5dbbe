#!/usr/bin/env bash
# parent.sh: the process that the user started is killed, interrupted or terminated: all workers exit within two seconds.
# Runs alone: all workers have two seconds to end.
# shellcheck source=tests/faults/common.bash
. "$(dirname "$0")/common.bash"

for op in all_reduce barrier send_recv; do
    start "SIGKILL for the parent in $op" --workers 3 --op $op --bytes 65536 --timeout 60
    if await_workers 3; then
        kill -KILL "$parent"
        finish 2000 137
    fi
done

start "SIGKILL for the parent while a worker is stopped" --workers 3 --op all_reduce --timeout 60 --fail-rank 1 --fail-how stop --fail-loop 50
if await_workers 3; then
    sleep 0.3
    kill -KILL "$parent"
    finish 2000 137
fi

for op in all_reduce all_to_all; do
    start "SIGINT in $op" --workers 3 --op $op --bytes 65536 --timeout 60
    if await_workers 3; then
        kill -INT "$parent"
        finish 2000 130
        [ "$(grep -c '^error: ' "$scratch/err")" -le 1 ] || fail "more than one line of error"
    fi
    start "SIGTERM in $op" --workers 3 --op $op --bytes 65536 --timeout 60
    if await_workers 3; then
        kill -TERM "$parent"
        finish 2000 143
        [ "$(grep -c '^error: ' "$scratch/err")" -le 1 ] || fail "more than one line of error"
    fi
done

# A terminal sends Ctrl-C to the whole process group.
through=(setsid)
start "SIGINT for the group" --workers 3 --op all_reduce --bytes 65536 --timeout 60
if await_workers 3; then
    kill -INT -- "-$parent"
    finish 2000 130
    [ "$(grep -c '^error: ' "$scratch/err")" -le 1 ] || fail "more than one line of error"
fi
through=()

# One worker runs in the parent itself.
start "SIGTERM with one worker" --workers 1 --op all_reduce --bytes 65536 --timeout 60
if await_workers 1; then
    kill -TERM "$parent"
    finish 2000 143
fi
finished
