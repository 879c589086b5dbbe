#!/usr/bin/env bash
# resize.sh: `lockstep resize` has an answer for every run: yes, and the run does it; or no, with the reason, and the run is left as it
# is. No note stays in a run directory.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

experiment=(--model "$gpt2" --data "$text" --seq 11 --global-batch 8 --lr 0.01 --threads 1 --no-pin --eval-every 0 --save-every 0)

until_so() {
    local end=$(($(now_ms) + 60000))
    until "$@"; do
        if [ "$(now_ms)" -gt $end ]; then
            fail "not in a minute: $*"
            return 1
        fi
        sleep 0.01
    done
}

# resize STATUS TEXT ARGUMENTS…: what the command ends with, and a part of what it says.
resize() {
    local code=$1 said=$2 got
    shift 2
    "$LOCKSTEP" resize "$part" "$@" >"$scratch/said" 2>&1
    got=$?
    [ "$got" -eq "$code" ] || fail "resize $* ended with $got, not $code: $(cat "$scratch/said")"
    grep -Eq -- "$said" "$scratch/said" || fail "resize $* did not say '$said' but: $(cat "$scratch/said")"
    [ ! -e "$part/resize" ] && [ ! -e "$part/resize.answer" ] || fail "a note is left"
}

# refused SAID FLAGS…: a run with these flags takes no other number of workers.
refused() {
    local part=$scratch/part said=$1
    shift
    case_begin "a run with $* is not resized"
    start "${experiment[@]}" --steps 1000000 --out "$part" "$@"
    await_steps "$part" 2 && resize 2 "$said" --workers 4
    kill -TERM "$child"
    reap
    expect_status 143
}

answers() {
    local part=$scratch/part
    case_begin "a number that the run has, one for which it has no layout, and one that it takes"
    start "${experiment[@]}" --steps 1000000 --out "$part" --dp 2
    if await_steps "$part" 2; then
        resize 0 ' has 2 workers already$' --workers 2
        resize 2 'was not resized: no layout of this run has 9 workers; 8 is possible$' --workers 9
        resize 0 ' goes on with 4 workers after the step under way$' --workers 4
        until_so grep -q 'with 4 workers' "$scratch/err"
    fi
    kill -TERM "$child"
    reap
    expect_status 143
    expect_said 'warning: resize: no layout of this run has 9 workers; 8 is possible: it stays as it is$'
}

# Its only worker is stopped in its last step.
too_late() {
    local part=$scratch/part
    case_begin "a run that ends before it has another number of workers"
    LS_FAULT_POINT=forward:0:2:0:1:stop start "${experiment[@]}" --steps 3 --out "$part" --timeout 100s
    if await_steps "$part" 2; then
        read -r worker <"/proc/$child/task/$child/children"
        until_so grep -q '^State:.T' "/proc/$worker/status"
        resize 0 ' goes on with 2 workers after the step under way$' --workers 2
        kill -CONT "$worker"
    fi
    reap
    expect_status 0
    expect_said 'the run ended before it could go on with 2 workers$'
}

# A run that is resumed does nothing about what was asked of the one that was killed.
left_note() {
    local part=$scratch/part
    case_begin "a note that the run has not read"
    start "${experiment[@]}" --steps 1000000 --out "$part"
    await_steps "$part" 2
    kill -TERM "$child"
    reap
    echo 4 >"$part/resize"
    echo '4 yes it does' >"$part/resize.answer"
    start --resume --out "$part"
    await_steps "$part" $(($(losses "$part" | wc -l) + 2))
    kill -TERM "$child"
    reap
    ! grep -q 'with 4 workers' "$scratch/err" || fail "it took a note of the run before"
    [ ! -e "$part/resize" ] && [ ! -e "$part/resize.answer" ] || fail "a note is left"
    resize 2 'no run is active' --workers 4
}

beside refused 'because --restarts 0 leaves it without a supervisor' --restarts 0
beside refused 'because --restarts 0 leaves it without a supervisor' --restarts 0 --dp 2
beside answers
beside too_late
beside left_note
join
if "$LOCKSTEP" --version 2>/dev/null | grep -q '^MPI .*Open MPI' && mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    case_begin "a run under mpirun is not resized"
    part=$scratch/launched
    mpirun --oversubscribe -n 2 "$LOCKSTEP" train "${experiment[@]}" --dp 2 --steps 1000000 --out "$part" >"$scratch/out" 2>"$scratch/err" </dev/null &
    child=$!
    await_steps "$part" 2 && resize 2 'because mpirun or srun started its workers' --workers 4
    kill -TERM "$child"
    reap
fi
finished
