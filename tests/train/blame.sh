#!/usr/bin/env bash
# blame.sh: of eight workers (dp 2 · tp 2 · pp 2) one is stopped; whichever it is, and wherever it was, it is the one that the error names,
# though nearly all of the others wait for another worker. A worker that works is never taken for stopped: one that takes longer than
# --timeout for its data, or all of them suspended for longer than that. CASES=n sets how many are stopped.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

case "$TIER" in
long) cases_wanted=${CASES:-24} ;;
*) cases_wanted=${CASES:-4} ;;
esac
RANDOM=${SEED:=$((${EPOCHREALTIME/[.,]/} % 30000))}

model=$deep
experiment=(--model "$model" --data "$text" --seq 11 --global-batch 8 --lr 0.01 --eval-every 5 --save-every 7)

first=$((RANDOM % 8))
# Every second one, from the given one on.
stop_some() {
    local turn rank pids
    for ((turn = $1; turn < cases_wanted; turn += 2)); do
        rank=$(((first + turn * 3) % 8))
        case_begin "worker $rank is stopped, seed $SEED"
        rm -rf "$scratch/stopped"
        start "${experiment[@]}" --steps 1000000 --dp 2 --tp 2 --pp 2 --timeout 2s --restarts 0 --out "$scratch/stopped"
        if await_steps "$scratch/stopped" $((3 + turn / 8)); then
            sleep "0.0$((RANDOM % 90 + 10))"
            read -r -a pids <"/proc/$child/task/$child/children"
            kill -STOP "${pids[rank]}"
        fi
        reap
        expect_status 4
        expect_said "error: worker $rank did not answer within 2 s in .*: it is stopped \(by SIGSTOP\)$"
    done
}

suspend() {
    case_begin "the whole run is suspended for longer than --timeout"
    rm -rf "$scratch/suspended"
    start "${experiment[@]}" --steps 1000000 --dp 2 --tp 2 --timeout 1s --restarts 0 --out "$scratch/suspended"
    if await_steps "$scratch/suspended" 3; then
        read -r -a pids <"/proc/$child/task/$child/children"
        kill -STOP "$child" "${pids[@]}"
        sleep 2.5
        done_steps=$(losses "$scratch/suspended" | wc -l)
        kill -CONT "${pids[@]}" "$child"
        await_steps "$scratch/suspended" $((done_steps + 3))
        kill -TERM "$child"
    fi
    reap
    expect_status 143

}

# The first replica reads seven times 300 ms, the second once, and then waits, with a timeout of one second. Heartbeats
# alone do not extend it, progress does: the first replica finishes one micro-batch after the other.
work_long() {
    case_begin "work that gets somewhere is no timeout"
    LS_FAULT_INPUT=300 "$LOCKSTEP" train "${experiment[@]}" --steps 1 --dp 2 --pp 2 --shares 7,1 --micro-batch 1 --timeout 1s --eval-every 0 --restarts 0 \
        --out "$scratch/slow" >"$scratch/out" 2>"$scratch/err" </dev/null
    status=$?
    expect_status 0

}

# No worker hangs, but every message takes longer than --timeout, and than a worker may be silent.
slow_link() {
    case_begin "a slow link is no hang"
    train "${experiment[@]}" --steps 1 --dp 2 --eval-every 0 --slow-link 2500ms --timeout 2s --out "$scratch/linked"
    expect_status 0
    ! grep -q 'restart' "$scratch/err" || fail "a worker was taken to hang"
}

# The first worker makes tokens of a text for several timeouts, while the other waits: beside it, and as if on another machine.
tokenize_long() {
    local model=$scratch/bpe.json bpe=tests/data/tiny_bpe size
    "$LOCKSTEP" --version | grep -q '^MPI .*Open MPI' && mpirun --version 2>/dev/null | grep -q 'Open MPI' || return 0
    echo '{"arch": "gpt2", "vocab": 282, "width": 16, "layers": 1, "heads": 2, "hidden": 32, "positions": 24}' >"$model"
    awk 'BEGIN { for (i = 0; i < 8000000; i++) printf "%d lazy dogs jump over %d foxes\n", i * i % 1000003, i % 7919 }' >"$scratch/long.txt"
    for size in 2 1; do
        case_begin "text that is tokenized for long under mpirun is no timeout, --node-size $size"
        rm -rf "$scratch/long"
        begin=$(now_ms)
        XDG_CACHE_HOME=$scratch/cache-$size mpirun --oversubscribe --bind-to none -n 2 "$LOCKSTEP" train --model "$model" --tokenizer $bpe \
            --data "$scratch/long.txt" --seq 11 --global-batch 2 --groups 2 --steps 1 --eval-every 0 --threads 1 --timeout 1s --node-size $size \
            --out "$scratch/long" >"$scratch/out" 2>"$scratch/err" </dev/null
        status=$?
        expect_status 0
        [ $(($(now_ms) - begin)) -gt 3000 ] || fail "it took only $(($(now_ms) - begin)) ms: the text is too short to show anything"
    done
}

# One that reads for the other, as if on another machine, and of which nothing is heard for three timeouts, as of a process that gets no core: it is
# held by SIGSTOP, of which the other sees no more than of the lack of a core.
tokenize_without_a_core() {
    local bpe=tests/data/tiny_bpe cache=$scratch/cache-held lock reader mpi
    "$LOCKSTEP" --version | grep -q '^MPI .*Open MPI' && mpirun --version 2>/dev/null | grep -q 'Open MPI' || return 0
    case_begin "a worker of another machine that gets no core while it tokenizes is no timeout"
    echo '{"arch": "gpt2", "vocab": 282, "width": 16, "layers": 1, "heads": 2, "hidden": 32, "positions": 24}' >"$scratch/bpe.json"
    awk 'BEGIN { for (i = 0; i < 1000000; i++) printf "%d lazy dogs jump over %d foxes\n", i * i % 1000003, i % 7919 }' >"$scratch/held.txt"
    XDG_CACHE_HOME=$cache mpirun --oversubscribe --bind-to none -n 2 "$LOCKSTEP" train --model "$scratch/bpe.json" --tokenizer $bpe \
        --data "$scratch/held.txt" --seq 11 --global-batch 2 --groups 2 --steps 1 --eval-every 0 --threads 1 --timeout 1s --node-size 1 \
        --out "$scratch/held" >"$scratch/out" 2>"$scratch/err" </dev/null &
    mpi=$!
    # The lock of the entry has the process that makes it.
    until reader= && lock=$(compgen -G "$cache/lockstep/*.lock") && read -r reader _ <"$lock" && [ -n "$reader" ]; do
        kill -0 "$mpi" 2>/dev/null || break
        sleep 0.01
    done
    if [ -n "$reader" ]; then
        kill -STOP "$reader"
        sleep 3
        kill -CONT "$reader"
    fi
    wait "$mpi"
    status=$?
    expect_status 0
    [ -n "$reader" ] || fail "it was done before it could be held"
}

# ---- ended and replaced ------------------------------------------------------------------------------------------------

case_begin "several workers, undisturbed"
train "${experiment[@]}" --steps 400 --out "$scratch/whole"
final=$(weights)
replace() {
    local layout=$1 pids
    case_begin "a worker of $layout that is stopped is ended and replaced"
    rm -rf "$scratch/replaced"
    # shellcheck disable=SC2086 # flags are words
    start "${experiment[@]}" --steps 400 --out "$scratch/replaced" ${layout#* }
    if await_steps "$scratch/replaced" 20; then
        read -r -a pids <"/proc/$child/task/$child/children"
        kill -STOP "${pids[RANDOM % ${#pids[@]}]}"
    fi
    reap
    expect_weights "$final"
    grep -hq 'has sent no heartbeat for [0-9]* s while .*: it is stopped' "$scratch/out" "$scratch/err" || fail "it does not name the stopped worker"
}
beside stop_some 0
beside stop_some 1
beside suspend
beside replace '1 '
beside replace '4 --dp 2 --tp 2'
beside work_long
beside tokenize_without_a_core
[ "$TIER" != long ] || beside slow_link
[ "$TIER" != long ] || beside tokenize_long
join
finished
