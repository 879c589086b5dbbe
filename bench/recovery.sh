#!/usr/bin/env bash
# recovery.sh: measures how soon a lost worker is noticed, and how soon its step is repeated.
#
#   LOCKSTEP=build/lockstep MODEL=gpt2-124m WORKERS=8 KILLS=5 LAYOUTS="--zero 1;--zero 3;--tp 2" RELAUNCHES=2 bench/recovery.sh
#
# On one machine: a worker is killed from outside, at moments that are drawn. The metrics say when the supervisor saw it and when the
# new workers began the forward pass of their first step, and what went before: the others ended, workers made, the state taken, ready.
# Over MPI (RELAUNCHES=0: not at all): a worker of mpirun is killed, the job ends, tools/relaunch starts it again from the newest
# checkpoint; times are those of its log and of the metrics of the new job.
#
# `make bench-overhead` measures what supervision costs an undisturbed run.
# shellcheck source=bench/common.bash
. "$(dirname "$0")/common.bash"
MODEL=${MODEL:-gpt2-124m} WORKERS=${WORKERS:-8} KILLS=${KILLS:-5}
SEQ=${SEQ:-64} BATCH=${BATCH:-$WORKERS} LAYOUTS=${LAYOUTS:-"--zero 1;--zero 3;--tp 2"} RELAUNCHES=${RELAUNCHES:-2} RANDOM=${SEED:-1}
out=$scratch/run
now_us() { echo "${EPOCHREALTIME/[.,]/}"; }
train=(train --model "$MODEL" --tokenizer bytes --data "$scratch/text.txt" --seq "$SEQ" --global-batch "$BATCH" --steps 100000 --eval-every 0
    --sample-every 0 --out "$out")

# await PATTERN COUNT: until the metrics have so many lines.
await() {
    while [ "$(count "$1")" -lt "$2" ]; do
        kill -0 "$child" 2>/dev/null || {
            tail -n 3 "$scratch/err" >&2
            exit 1
        }
        sleep 0.02
    done
}
# median and worst of the numbers in column $1 of a file, in format $2
middle() { awk -v c="$1" '{ print $c }' "$3" | sort -g | awk -v f="$2 ($2)" '{ v[NR] = $1 } END { printf f, v[int((NR + 1) / 2)], v[NR] }'; }
step_ms() {
    metrics "$out" steps ms | sort -g | awk '{ v[NR] = $1 } END { printf "%.0f", v[int((NR + 1) / 2)] }'
}

deaths() {
    local layout=$1 k pids begun
    rm -rf "$out" "$scratch/kills"
    # shellcheck disable=SC2086 # flags are words
    "$LOCKSTEP" "${train[@]}" --save-every 0 --restarts 1000 --workers "$WORKERS" $layout >"$scratch/out" 2>"$scratch/err" </dev/null &
    child=$!
    begun=0
    for ((k = 0; k < KILLS; k++)); do
        await '"loss"' $((begun + 2))
        sleep "0.$((RANDOM % 10))"
        read -r -a pids <"/proc/$child/task/$child/children" || true
        # Each at another place: one that fails twice is left out.
        now_us >>"$scratch/kills"
        kill -KILL "${pids[k % ${#pids[@]}]}"
        await '"restart"' $((k + 1))
        begun=$(count '"loss"')
    done
    kill -KILL "$child"
    wait "$child" 2>/dev/null || true
    child=
    paste "$scratch/kills" <(metrics "$out" restarts lost_unix_us recovery_ms recovery_parts_ms | tr , ' ') | awk '{ print ($2 - $1) / 1000, $3, $4, $5, $6, $7 }' >"$scratch/times"
    echo "| $layout | $KILLS | $(middle 1 %.1f "$scratch/times") | $(middle 2 %.0f "$scratch/times") | $(middle 3 %.0f "$scratch/times") | $(middle 4 %.0f "$scratch/times") | $(
        middle 5 %.0f "$scratch/times") | $(middle 6 %.0f "$scratch/times") | $(step_ms) |"
}

if [ "$KILLS" -gt 0 ]; then
    echo "| $WORKERS workers, $MODEL | deaths | seen after ms, median (worst) | first forward after ms | others gone | workers made | state taken | ready | step ms |"
    echo "|---|---|---|---|---|---|---|---|---|"
    IFS=';' read -r -a layouts <<<"$LAYOUTS"
    for layout in "${layouts[@]}"; do deaths "$layout"; done
fi

# Workers of mpirun are grandchildren of relaunch.
workers_of() { pgrep -P "$1" -f -- "--out $out" | while read -r pid; do
    pgrep -P "$pid" -f -- "^$LOCKSTEP" || true
done; }

relaunches() {
    local k begun victim
    command -v mpirun >/dev/null || {
        echo "relaunch over MPI: there is no mpirun"
        return
    }
    rm -rf "$out" "$scratch/rows"
    mpi=(mpirun --oversubscribe --bind-to none -n "$WORKERS" "$LOCKSTEP" "${train[@]}" --save-every 3 --keep 1 --resume auto)
    [ "$(id -u)" != 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    "$here/tools/relaunch" --pause 0 --times 9 -- "${mpi[@]}" >"$scratch/out" 2>"$scratch/err" </dev/null &
    child=$!
    for ((k = 0; k < RELAUNCHES; k++)); do
        await '"saved":true' $((k + 1))
        victim=$(workers_of "$child" | head -n 1)
        local killed ended
        killed=$(now_us)
        kill -KILL "$victim"
        while [ "$(grep -c '^relaunch: exit status' "$scratch/err" || true)" -le "$k" ]; do sleep 0.01; done
        ended=$(now_us)
        await '"started":true' $((k + 2))
        # The line is written behind the first step, whose time it does not have.
        await '"loss"' 1
        local first
        first=$(metrics "$out" first-step ms)
        while [ -z "$first" ]; do
            sleep 0.02
            first=$(metrics "$out" first-step ms)
        done
        awk -v a="$killed" -v b="$ended" -v c="$(now_us)" -v f="$first" 'BEGIN { print (b - a) / 1e6, (c - b) / 1e6 - f / 1e3, (c - a) / 1e6 - f / 1e3 }' >>"$scratch/rows"
    done
    kill -TERM "$child"
    wait "$child" 2>/dev/null || true
    child=
    echo "| $WORKERS workers of mpirun | relaunches | job gone after s, median (worst) | then first forward after s | in all |"
    echo "|---|---|---|---|---|"
    echo "| $MODEL | $RELAUNCHES | $(middle 1 %.1f "$scratch/rows") | $(middle 2 %.1f "$scratch/rows") | $(middle 3 %.1f "$scratch/rows") |"
}
[ "$RELAUNCHES" -eq 0 ] || relaunches
