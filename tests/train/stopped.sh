#!/usr/bin/env bash
# stopped.sh: processes of a run that are stopped (SIGSTOP): its page, its TensorBoard writer, each worker, all workers at once. The run
# comes to its end all the same, with the bits of one that was not disturbed, and nothing of it is left, also where its supervisor is
# killed.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

experiment=(--model "$gpt2" --data "$text" --seq 11 --global-batch 8 --lr 0.01 --threads 1 --no-pin --eval-every 0)

case_begin "the undisturbed run"
train "${experiment[@]}" --steps 40 --out "$scratch/whole"
expect_status 0
final=$(weights)
[ -n "$final" ] || { fail "no hash"; finished; }

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

# The child of the run that is a program of its own with this argument: `watch`, its page, or `metrics`, its writer; as `found`.
has_program() {
    local pid
    found=
    for pid in $(cat "/proc/$child/task/$child/children" 2>/dev/null); do
        tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -q "^lockstep $1 " && found=$pid
    done
    [ -n "$found" ]
}
is_gone() { ! is_alive "$1"; }
is_state() { grep -q "^State:.$2" "/proc/$1/status" 2>/dev/null; }
helpers=(--live 127.0.0.1:0)
"$LOCKSTEP" --version | grep -q '^microhttpd  *[0-9]' || helpers=()

# stop_helper PROGRAM SAID: it is stopped while the run is at work.
stop_helper() {
    local part=$scratch/part
    case_begin "lockstep $1 beside a run is stopped"
    start "${experiment[@]}" --steps 1000000 --out "$part" "${helpers[@]}" --tensorboard "$scratch/board"
    if await_steps "$part" 2 && until_so has_program "$1"; then
        kill -STOP "$found"
        kill -TERM "$child"
    fi
    reap
    expect_status 143
    until_so is_gone "$found"
    [ -z "${2:-}" ] || expect_said "$2"
}

# Its supervisor is killed while both are stopped, so that neither sees a pipe or a signal.
orphans() {
    local part=$scratch/part page writer
    case_begin "the supervisor of stopped helpers is killed"
    start "${experiment[@]}" --steps 1000000 --out "$part" --dp 2 "${helpers[@]}" --tensorboard "$scratch/board"
    await_steps "$part" 2 && until_so has_program metrics && writer=$found
    page=$writer
    [ ${#helpers[@]} -eq 0 ] || { until_so has_program watch && page=$found; }
    kill -STOP "$page" "$writer"
    kill -KILL "$child"
    reap
    until_so is_gone "$page"
    until_so is_gone "$writer"
}

# stop_workers WHICH FLAGS…: those of the list, or all.
stop_workers() {
    local part=$scratch/part which=$1 pids pid
    shift
    case_begin "stopped of $*: $which"
    start "${experiment[@]}" --steps 40 --out "$part" "$@"
    if await_steps "$part" 2; then
        read -r -a pids <"/proc/$child/task/$child/children"
        # The run may be over by the time they are stopped; then there is nothing to be seen.
        if [ "$which" = all ]; then kill -STOP "${pids[@]}"; else kill -STOP "${pids[which]}"; fi 2>/dev/null
    fi
    reap
    expect_weights "$final"
}

# If no supervisor restarts them, the process that forked them ends them after --timeout.
without_supervisor() {
    local part=$scratch/part pids
    case_begin "all workers are stopped, with --restarts 0"
    start "${experiment[@]}" --steps 1000000 --dp 2 --restarts 0 --timeout 2s --out "$part"
    if await_steps "$part" 2; then
        read -r -a pids <"/proc/$child/task/$child/children"
        kill -STOP "${pids[@]}"
    fi
    reap
    expect_status 4
    expect_said 'error: all workers have been stopped \(by SIGSTOP\) for [0-9]+ s, .*\(--timeout\)$'
}

[ ${#helpers[@]} -eq 0 ] || beside stop_helper watch
beside stop_helper metrics 'the process that writes event files \(process [0-9]+\) was stopped or stuck and has been killed'
beside orphans
beside stop_workers all --dp 2
more beside stop_workers all --dp 2 --tp 2
more beside stop_workers all
beside stop_workers 1 --pp 2
beside without_supervisor
join
finished
