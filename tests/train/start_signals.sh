#!/usr/bin/env bash
# start_signals.sh: signals to the parent of forked workers, or to one of these, while they start: at any moment between the first fork and
# the first step, by chance and, at named places, while workers are killed there and replaced. SIGTERM ends it with 143, SIGUSR2 with 75,
# SIGUSR1 has it save and go on; it never hangs, and no process, file or shared memory stays. What was there before stays as it was.
# ROUNDS=n: so many signals; SEED=n sets the draws.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"
case "$TIER" in
long) rounds=${ROUNDS:-300} ;;
*) rounds=${ROUNDS:-15} ;;
esac
RANDOM=${SEED:=$((${EPOCHREALTIME/[.,]/} % 30000))}
slow=1
[ -z "${SANITIZE:-}" ] || slow=3

experiment=(--model "$deep" --data "$text" --seq 11 --global-batch 8 --lr 0.01 --warmup 5 --lr-schedule constant --eval-every 0 --steps 3 --threads 1)
case_begin "the undisturbed run"
train "${experiment[@]}" --out "$scratch/whole"
final=$(weights)
[ -n "$final" ] || { fail "no hash"; finished; }
two=$scratch/two
train "${experiment[@]}" --steps 2 --out "$two"
expect_status 0

# Until the child has that many processes below it.
await_workers() {
    local end=$(($(now_ms) + 30000 * slow))
    while
        pids=()
        { read -r -a pids <"/proc/$child/task/$child/children"; } 2>/dev/null
        [ "${#pids[@]}" -lt "$1" ] && is_alive "$child" && [ "$(now_ms)" -lt $end ]
    do sleep 0.002; done
}

# What the run has left: processes that name its folder, shared memory that has its parent's number, temporary files.
expect_nothing_left() {
    local pid
    for pid in "${pids[@]}"; do
        ! is_alive "$pid" || ! tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -q -- "$1" || fail "process $pid is left"
    done
    [ -z "$(find /dev/shm -maxdepth 1 -name "*lockstep*$2*" 2>/dev/null)" ] || fail "shared memory is left"
    [ ! -d "$1" ] || expect_no_leftovers "$1"
}

layouts=('2 --dp 2' '3 --dp 3 --zero 2' '4 --tp 2 --pp 2')
signals=(TERM USR1 USR2)
points=('' '' '' start:1:-1:0 ready:0:-1:0 load:1:-1:0 start:0:-1:-1)
# Until the child is gone, or `$1` says enough; it hangs otherwise.
await() {
    local end=$(($(now_ms) + 20000 * slow))
    while is_alive "$child" && ! "$@" && [ "$(now_ms)" -lt $end ]; do sleep 0.01; done
    [ "$(now_ms)" -lt $end ] && return
    fail "it hangs"
    return 1
}
has_saved() { [ -n "$(steps_of "$run" | grep -v "${before:-none}")" ]; }

# signal NUMBER: one run, that would never end. What a worker knows of a signal dies with it: where one is to die the parent gets it.
signal() {
    RANDOM=$((SEED + $1)) # a round can be had again by itself
    local resume=() layout=${layouts[RANDOM % 3]} kind=${signals[$1 % 3]} point=${points[RANDOM % 7]} parent target code
    run=$scratch/run-$1 before=''
    if [ $((RANDOM % 2)) -eq 0 ]; then
        cp -r "$two" "$run"
        resume=(--resume)
        before=$(steps_of "$run")
    fi
    case_begin "round $1, seed $SEED: SIG$kind to $layout ${resume[*]} ${point:+with a death at $point}"
    [ -z "$point" ] || export LS_FAULT_POINT=$point
    # shellcheck disable=SC2086 # flags are words
    start "${experiment[@]}" --steps 1000000 --save-every 0 --keep 0 --grace 5s --restarts 2 --out "$run" "${resume[@]}" ${layout#* }
    unset LS_FAULT_POINT
    parent=$child
    await_workers $((RANDOM % ${layout%% *} + 1))
    sleep "0.$(printf '%03d' $((RANDOM % 100)))"
    target=$child
    [ -n "$point" ] || [ $((RANDOM % 2)) -eq 0 ] || [ "${#pids[@]}" -eq 0 ] || target=${pids[RANDOM % ${#pids[@]}]}
    kill -"$kind" "$target" 2>/dev/null
    case $kind in
    TERM) code=143 ;;
    USR2) code=75 ;;
    USR1)
        code=143
        await has_saved
        kill -TERM "$child" 2>/dev/null
        ;;
    esac
    await false || kill -KILL "$child"
    reap
    case "$point $status" in
    *" $code") ;;
    start:0:-1:-1\ 3) ;; # a worker dies in every attempt: restarts may be used up before the signal comes
    *) fail "exit status $status, not $code" ;;
    esac
    expect_nothing_left "$run" "$parent"
    [ -z "$before" ] || [ "$(steps_of "$run" | head -n 1)" = "$before" ] || fail "it had $before, and has $(steps_of "$run")"
    [ "$(losses "$run" 2>/dev/null | wc -l)" -le 3 ] || return # it came further than the run that it would be compared with
    resume=()
    [ ! -e "$run/identity.json" ] || resume=(--resume)
    train "${experiment[@]}" --out "$run" "${resume[@]}"
    expect_weights "$final"
    rm -rf "$run"
}
# Before there are workers: while a text is read that takes a moment.
reads() { ls -l "/proc/$child/fd" "/proc/$child/map_files" 2>/dev/null | grep -q "$scratch/long.txt"; }
for kind in USR1 USR2; do
    case_begin "SIG$kind while the data is read"
    run=$scratch/read-$kind before=''
    yes "$(cat "$text")" | head -c 20000000 >"$scratch/long.txt"
    echo "$kind" >>"$scratch/long.txt" # a text that was never tokenized
    start "${experiment[@]}" --data "$scratch/long.txt" --steps 1000000 --save-every 0 --grace 5s --out "$run" --dp 2
    await reads
    kill -$kind "$child"
    if [ $kind = USR1 ]; then
        await has_saved
        kill -TERM "$child" 2>/dev/null
    fi
    await false || kill -KILL "$child"
    reap
    expect_status $([ $kind = USR1 ] && echo 143 || echo 75)
done

# lost_at_the_end KIND TARGET DEATH [--resume]: a worker that was asked to stop before the first step is lost while the run ends; there is nothing
# to go on with, and nothing is done again.
has_stopped() { grep -q '^State:.T' "/proc/$1/status" 2>/dev/null; }
lost_at_the_end() {
    local run=$scratch/end kind=$1 target=$2 death=$3 resume=() worker
    [ "${4:-}" != --resume ] || { cp -r "$two" "$run" && resume=(--resume); }
    case_begin "SIG$kind to the $target before the first step ${resume[*]}, and a worker is lost at $death"
    LS_FAULT_POINT=ready:0:-1:0:1:stop,$death start "${experiment[@]}" --steps 1000000 --save-every 0 --dp 2 --timeout 100s --out "$run" "${resume[@]}"
    await_workers 2
    worker=${pids[0]}
    await has_stopped "$worker"
    case $target in
    parent) kill -"$kind" "$child" ;;
    *) kill -"$kind" "$worker" ;;
    esac
    kill -CONT "$worker"
    await false || kill -KILL "$child"
    reap
    expect_status $([ "$kind" = TERM ] && echo 143 || echo 75)
    expect_nothing_left "$run" nothing
    [ -n "${resume[*]}" ] || [ ! -e "$run" ] || fail "$(ls "$run" | tr '\n' ' ')is left of a run that did nothing"
}
for kind in USR2 TERM; do
    for target in parent worker; do
        beside lost_at_the_end $kind $target stopped:1:-1:0:1:kill
        beside lost_at_the_end $kind $target stopped:0:-1:0:1:kill
        more beside lost_at_the_end $kind $target stopped:1:-1:0:1:stop
        more beside lost_at_the_end $kind $target stopped:1:-1:0:1:kill --resume
    done
    join
done

every_third() { for ((i = $1; i < rounds; i += 3)); do signal $i; done; }
for k in 0 1 2; do beside every_third $k; done
join
echo "$rounds signals, seed $SEED"
finished
