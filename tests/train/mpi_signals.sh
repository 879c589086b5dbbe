#!/usr/bin/env bash
# mpi_signals.sh: signals to a run under mpirun on one machine: to one rank, and to mpirun itself. All save, one tells of it, the status is the one that
# the signal has (mpirun, when it is signalled itself, ends with 1), and the run goes on from there to the bits of one that was not stopped.
# What goes into a file is plain lines, though mpirun gives its ranks a terminal.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"
if ! "$LOCKSTEP" --version 2>/dev/null | grep -q '^MPI .*Open MPI' || ! mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
    echo "skipped: needs Open MPI's mpirun and a build with it"
    exit 77
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

experiment=(--model "$gpt2" --data "$text" --seq 11 --global-batch 8 --lr 0.01 --lr-schedule constant --warmup 5 --eval-every 0 --threads 1)
case_begin "the undisturbed run"
train "${experiment[@]}" --steps 12 --out "$scratch/whole"
final=$(weights)
[ -n "$final" ] || { fail "no hash"; finished; }

# The first process under $1 whose name is $2.
find_below() {
    local pid
    for pid in $(cat "/proc/$1/task/$1/children" 2>/dev/null); do
        if [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$2" ]; then
            echo "$pid"
            return
        fi
        find_below "$pid" "$2"
    done | head -n 1
}

for case in 'TERM rank 143' 'USR2 rank 75' 'TERM mpirun 1'; do
    read -r signal target code <<<"$case"
    case_begin "SIG$signal to $target"
    rm -rf "$scratch/run"
    mpirun --oversubscribe -n 2 "$LOCKSTEP" train "${experiment[@]}" --dp 2 --steps 1000000 --out "$scratch/run" \
        >"$scratch/out" 2>"$scratch/err" </dev/null &
    child=$!
    if await_steps "$scratch/run" 3; then
        pid=$child
        [ "$target" = mpirun ] || pid=$(find_below "$child" "$(basename "$LOCKSTEP")")
        kill -"$signal" "${pid:-$child}"
    fi
    reap
    expect_status "$code"
    ! grep -q $'\e' "$scratch/out" || fail "it drew into a file"
    if [ "$target" = rank ]; then
        ! grep -q MPI_ABORT "$scratch/out" "$scratch/err" || fail "it called MPI_Abort"
        [ "$(cat "$scratch/out" "$scratch/err" | grep -c '^lockstep: stopped at step')" -eq 1 ] || fail "it was not one rank that told of the stop"
        expect_said 'checkpoint saved; continue with: mpirun -n 2 [^ ]*lockstep train --out'
    fi
    done_steps=$(losses "$scratch/run" | wc -l)
    [ "$(steps_of "$scratch/run")" = "$(printf 'step-%09d' "$done_steps")" ] || fail "step $done_steps was not saved"
    [ "$done_steps" -ge 12 ] && continue # it was too fast for the comparison
    train --resume --out "$scratch/run" --steps 12
    expect_weights "$final"
    expect_no_leftovers "$scratch/run"
done

# While it starts there is nothing to save, and nothing may stay.
for wait in 0 0.02 0.05 0.2 0.35; do
    case_begin "SIGTERM to a rank that starts, after $wait s"
    rm -rf "$scratch/run"
    mpirun --oversubscribe -n 2 "$LOCKSTEP" train "${experiment[@]}" --dp 2 --steps 1000000 --out "$scratch/run" \
        >"$scratch/out" 2>"$scratch/err" </dev/null &
    child=$!
    end=$(($(now_ms) + 20000)) pid=
    until pid=$(find_below "$child" "$(basename "$LOCKSTEP")"); [ -n "$pid" ] || [ "$(now_ms)" -gt $end ]; do sleep 0.01; done
    sleep $wait
    kill -TERM "${pid:-$child}" 2>/dev/null
    reap
    [ "$status" -ne 0 ] || fail "it went on"
    [ -z "$(find "$scratch/run" -name '.shared-*' 2>/dev/null)" ] || fail "files are left: $(find "$scratch/run" -name '.shared-*')"
done
finished
