#!/usr/bin/env bash
# kill.sh: any worker is killed at any moment of a run of several: one error that names it, exit status 3, all processes exit within two
# seconds, the last checkpoint is valid; the run continues under another layout to the bits of an undisturbed one. So it does
# after SIGTERM and Ctrl-C, which end it in order. KILLS=n sets the number of kills, SEED=n the draws.
# Runs alone: all processes have two seconds to exit.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

case "$TIER" in
long) kills=${KILLS:-60} ;;
*) kills=${KILLS:-5} ;;
esac
RANDOM=${SEED:=$((${EPOCHREALTIME/[.,]/} % 30000))}
echo "$kills kills, seed $SEED"

# Five blocks, four slices, eight groups.
model=$deep
experiment=(--model "$model" --data "$text" --seq 11 --global-batch 8 --lr 0.01 --dropout 0.1 --warmup 5 --lr-schedule constant --eval-every 7)
# How many workers, and as what.
victims=('4 --dp 2 --tp 2' '2 --pp 2' '4 --dp 2 --pp 2 --zero 3' '3 --dp 3 --zero 2' '4 --tp 2 --pp 2 --sequence-parallel')
others=('' '--dp 4' '--tp 2 --dp 2' '--pp 3 --schedule gpipe' '--dp 2 --zero 3 --recompute full')

case_begin "the undisturbed run"
train "${experiment[@]}" --steps 12 --out "$scratch/whole"
expect_status 0
final=$(weights)
[ -n "$final" ] || { fail "no hash"; finished; }
losses "$scratch/whole" >"$scratch/whole.losses"

# Time that an undisturbed run of several workers takes.
case_begin "several workers, undisturbed"
begin_ms=$(now_ms)
train "${experiment[@]}" --steps 12 --save-every 1 --dp 2 --tp 2 --out "$scratch/several"
whole_ms=$(($(now_ms) - begin_ms))
expect_weights "$final"

# The workers of the child, once there are as many as $1.
await_workers() {
    local end=$(($(now_ms) + 20000))
    while
        read -r -a pids <"/proc/$child/task/$child/children" # its one line has no end, so the status says nothing
        [ "${#pids[@]}" -lt "$1" ]
    do
        if [ "$(now_ms)" -gt $end ] || ! is_alive "$child"; then
            fail "its $1 workers did not start"
            return 1
        fi
        sleep 0.005
    done 2>/dev/null
}

# Passes if all processes have exited by the time $1.
expect_gone() {
    local pid
    for pid in "$child" "${pids[@]}"; do
        while is_alive "$pid" && [ "$(now_ms)" -le "$1" ]; do sleep 0.01; done
        if is_alive "$pid"; then fail "process $pid is still there two seconds later"; fi
    done
}

expect_one_error() {
    local lines
    lines=$(grep -c '^lockstep: error: ' "$scratch/err")
    [ "$lines" -eq 1 ] || fail "$lines lines of error, not one"
    expect_said "$1"
}

# ---- kill -9 -----------------------------------------------------------------------------------------------------------

killed=0
for ((turn = 0; killed < kills && turn < 3 * kills; turn++)); do
    part=$scratch/killed
    rm -rf "$part"
    layout=${victims[turn % ${#victims[@]}]#* }
    count=${victims[turn % ${#victims[@]}]%% *}
    other=${others[RANDOM % ${#others[@]}]}
    case_begin "kill $turn under '$layout', then '$other'"
    # shellcheck disable=SC2086 # flags are words
    start "${experiment[@]}" --restarts 0 --steps 12 --save-every 1 --keep $((RANDOM % 4)) --out "$part" $layout
    await_workers "$count" || { stop_child; continue; }
    delay_ms=$((RANDOM % (whole_ms + 1)))
    sleep "$(printf '%d.%03d' $((delay_ms / 1000)) $((delay_ms % 1000)))"
    target=${pids[RANDOM % ${#pids[@]}]}
    if kill -KILL "$target" 2>/dev/null; then expect_gone $(($(now_ms) + 2000)); fi
    reap
    case $status in
    0) ;; # it was done before
    3)
        killed=$((killed + 1))
        expect_one_error "error: worker [0-9]+ \(process $target\) was killed by signal 9, SIGKILL"
        ;;
    *) fail "exit status $status, not 3" ;;
    esac
    for folder in "$part"/checkpoints/step-*[0-9]; do
        [ ! -e "$folder" ] || [ -e "$folder/complete.json" ] || fail "$folder has no marker"
    done
    flags=()
    [ ! -e "$part/identity.json" ] || flags=(--resume)
    # shellcheck disable=SC2086 # flags are words
    train "${experiment[@]}" --steps 12 --out "$part" "${flags[@]}" $other
    expect_weights "$final"
    expect_losses "$part" "$scratch/whole.losses"
    expect_no_leftovers "$part"
done
echo "$killed workers killed in $turn runs"
[ "$killed" -gt 0 ] || fail "no worker lived long enough to be killed"

# ---- orderly stops -----------------------------------------------------------------------------------------------------

for signal in TERM INT; do
    case_begin "SIG$signal"
    part=$scratch/signal-$signal
    start "${experiment[@]}" --steps 1000000 --dp 2 --tp 2 --out "$part"
    await_steps "$part" 3 && await_workers 4 && kill -"$signal" "$child"
    reap
    case $signal in TERM) expect_status 143 ;; INT) expect_status 130 ;; esac
    done_steps=$(losses "$part" | wc -l)
    [ "$(grep -cE '^lockstep: (stopped|error)' "$scratch/err")" -eq 1 ] || fail "not one line about its end"
    expect_said "^lockstep: stopped at step $done_steps, checkpoint saved; continue with: .*lockstep train --out $part --resume\$"
    [ "$(steps_of "$part")" = "$(printf 'step-%09d' "$done_steps")" ] || fail "the checkpoint is not that of its last step, $done_steps"
    grep -q '^done:' "$scratch/out" && fail "it says that it is done"
    train "${experiment[@]}" --steps $((done_steps + 3)) --out "$part-whole"
    straight=$(weights)
    train --resume --out "$part" --steps $((done_steps + 3)) --pp 2 --dp 3
    expect_weights "$straight"
    losses "$part-whole" >"$scratch/straight.losses"
    expect_losses "$part" "$scratch/straight.losses"
done

case_begin "a second Ctrl-C ends everything at once"
start "${experiment[@]}" --steps 1000000 --dp 2 --tp 2 --out "$scratch/twice"
if await_steps "$scratch/twice" 2 && await_workers 4; then
    kill -STOP "${pids[1]}"
    kill -INT "$child"
    sleep 0.1
    kill -INT "$child"
    expect_gone $(($(now_ms) + 2000))
fi
reap
expect_status 130

case_begin "SIGKILL for the parent takes the workers with it"
start "${experiment[@]}" --steps 1000000 --dp 2 --tp 2 --save-every 1 --out "$scratch/parent"
if await_steps "$scratch/parent" 2 && await_workers 4; then
    kill -KILL "$child"
    expect_gone $(($(now_ms) + 2000))
fi
reap
done_steps=$(losses "$scratch/parent" | wc -l)
train "${experiment[@]}" --steps $((done_steps + 2)) --out "$scratch/parent-whole"
straight=$(weights)
train --resume --out "$scratch/parent" --steps $((done_steps + 2)) --dp 2
expect_weights "$straight"
finished
