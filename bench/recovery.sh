#!/usr/bin/env bash
# recovery.sh: how soon a lost worker is noticed, how soon the step that it was in is tried again, and what it costs a run that
# nobody disturbs that it could be. A worker is killed from outside, at moments that are drawn; the run says in its metrics when the
# supervisor saw it and when the new workers began their first step.
#
#   LOCKSTEP=build/lockstep MODEL=gpt2-124m WORKERS=8 KILLS=6 ROUNDS=11 bench/recovery.sh
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")/.." && pwd)
LOCKSTEP=${LOCKSTEP:-$here/build/lockstep} MODEL=${MODEL:-gpt2-124m} WORKERS=${WORKERS:-8} KILLS=${KILLS:-6} ROUNDS=${ROUNDS:-11}
SEQ=${SEQ:-64} BATCH=${BATCH:-16} LAYOUTS=${LAYOUTS:-"--zero 1;--zero 3;--tp 2"} COST_MODEL=${COST_MODEL:-tiny} RANDOM=${SEED:-1}
scratch=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-recovery.XXXXXX")
child=
trap '[ -z "$child" ] || kill -KILL "$child" 2>/dev/null || true; rm -rf "$scratch"' EXIT
for ((i = 0; i < 4000; i++)); do echo "line $i: $((i * i)) quick brown foxes jump over $((i * 7 % 31)) lazy dogs"; done >"$scratch/text.txt"
export XDG_CACHE_HOME=$scratch/cache LS_DEVICE=cpu
now_us() { echo "${EPOCHREALTIME/[.,]/}"; }

echo "| layout of $WORKERS workers, $MODEL | deaths | seen after ms, median (worst) | first step after ms, median (worst) | step ms |"
echo "|---|---|---|---|---|"
IFS=';' read -r -a layouts <<<"$LAYOUTS"
for layout in "${layouts[@]}"; do
    out=$scratch/run
    rm -rf "$out" "$scratch/kills"
    # shellcheck disable=SC2086 # flags are words
    "$LOCKSTEP" train --model "$MODEL" --tokenizer bytes --data "$scratch/text.txt" --seq "$SEQ" --global-batch "$BATCH" --steps 100000 \
        --eval-every 0 --sample-every 0 --save-every 0 --restarts 1000 --spares 0 --workers "$WORKERS" $layout --out "$out" \
        >"$scratch/out" 2>"$scratch/err" </dev/null &
    child=$!
    for ((k = 0; k < KILLS; k++)); do
        count=$(grep -c '"loss"' "$out/metrics.jsonl" 2>/dev/null || true)
        while [ "$(grep -c '"loss"' "$out/metrics.jsonl" 2>/dev/null || true)" -lt $((${count:-0} + 3)) ]; do
            kill -0 "$child" 2>/dev/null || { tail -n 3 "$scratch/err"; exit 1; }
            sleep 0.05
        done
        sleep "0.$((RANDOM % 10))"
        read -r -a pids <"/proc/$child/task/$child/children" || true
        # Each at another place: one that fails twice is left out.
        victim=${pids[k % ${#pids[@]}]}
        echo "$(now_us)" >>"$scratch/kills"
        kill -KILL "$victim"
        while [ "$(grep -c '"restart"' "$out/metrics.jsonl" 2>/dev/null || true)" -le "$k" ]; do
            kill -0 "$child" 2>/dev/null || { tail -n 3 "$scratch/err"; exit 1; }
            sleep 0.05
        done
    done
    kill -KILL "$child"
    wait "$child" 2>/dev/null || true
    child=
    paste <(cat "$scratch/kills") <(sed -n 's/.*"lost_unix_us":\([0-9]*\),"recovery_ms":\([0-9.e+-]*\).*/\1 \2/p' "$out/metrics.jsonl") |
        awk '{ print ($2 - $1) / 1000, $3 }' >"$scratch/times"
    step=$(sed -n 's/.*"loss".*"ms":\([0-9.]*\).*/\1/p' "$out/metrics.jsonl" | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }')
    seen=$(cut -d' ' -f1 "$scratch/times" | sort -g | awk '{ v[NR] = $1 } END { printf "%.1f (%.1f)", v[int((NR + 1) / 2)], v[NR] }')
    first=$(cut -d' ' -f2 "$scratch/times" | sort -g | awk '{ v[NR] = $1 } END { printf "%.0f (%.0f)", v[int((NR + 1) / 2)], v[NR] }')
    echo "| $layout | $KILLS | $seen | $first | $step |"
done

[ "$ROUNDS" -gt 0 ] || exit 0
printf '#!/bin/sh\nexec "%s" "$@" --restarts 0\n' "$LOCKSTEP" >"$scratch/without"
printf '#!/bin/sh\nexec "%s" "$@"\n' "$LOCKSTEP" >"$scratch/with"
chmod +x "$scratch/without" "$scratch/with"
for workers in 1 2; do
    echo "A run that nobody disturbs, $COST_MODEL on $workers worker(s): --restarts 3 beside 0"
    "$here/tools/ab" --rounds "$ROUNDS" "$scratch/without" "$scratch/with" -- {} train --model "$COST_MODEL" --tokenizer bytes \
        --data "$scratch/text.txt" --seq 128 --global-batch 16 --steps 60 --eval-every 0 --sample-every 0 --save-every 0 --workers $workers --out '{dir}/run' || true
done
