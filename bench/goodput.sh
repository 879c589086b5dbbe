#!/usr/bin/env bash
# goodput.sh: compares a run that loses a worker every 30 s with the prediction that `lockstep plan --recovery` makes from a few losses.
#
#   LOCKSTEP=build/lockstep MODEL=gpt2-124m WORKERS=8 MINUTES=20 EVERY=30 LEARN=5 FLAGS="--zero 1" bench/goodput.sh
#
# First a run loses LEARN workers: from it plan takes what a recovery and a step cost. Then another run goes on for MINUTES, and loses a worker
# every EVERY seconds, give or take half of that. Its goodput is the time that its steps would have taken undisturbed (their number times the
# mean of those that were) over the time that went by.
# shellcheck source=bench/common.bash
. "$(dirname "$0")/common.bash"
MODEL=${MODEL:-gpt2-124m} WORKERS=${WORKERS:-8} MINUTES=${MINUTES:-20} EVERY=${EVERY:-30}
LEARN=${LEARN:-5} SEQ=${SEQ:-64} BATCH=${BATCH:-$WORKERS} FLAGS=${FLAGS:-"--zero 1"} RANDOM=${SEED:-1}
now_ms() {
    local us=${EPOCHREALTIME/[.,]/}
    echo $((us / 1000))
}
alive() {
    kill -0 "$child" 2>/dev/null && return
    tail -n 3 "$scratch/err" >&2
    exit 1
}
await() { while [ "$(count "$1")" -lt "$2" ]; do alive && sleep 0.02; done; }
start() {
    out=$scratch/$1
    # shellcheck disable=SC2086 # flags are words
    "$LOCKSTEP" train --model "$MODEL" --tokenizer bytes --data "$scratch/text.txt" --seq "$SEQ" --global-batch "$BATCH" --steps 10000000 \
        --eval-every 0 --sample-every 0 --save-every 0 --restarts 1000000 --place-losses 0 --workers "$WORKERS" $FLAGS --out "$out" \
        >"$scratch/out" 2>"$scratch/err" </dev/null &
    child=$!
    await '"loss"' 3
}
stop() {
    kill -KILL "$child"
    wait "$child" 2>/dev/null || true
    child=
}
lose_one() {
    local pids
    read -r -a pids <"/proc/$child/task/$child/children" || true
    [ ${#pids[@]} -eq 0 ] || kill -KILL "${pids[RANDOM % ${#pids[@]}]}" 2>/dev/null || true
}
# Some part of the time of a step, so that a death comes anywhere in one.
sleep_in_step() {
    local ms
    ms=$(metrics "$out" steps ms | tail -n 1)
    sleep "$(awk -v ms="$ms" -v r="$RANDOM" 'BEGIN { printf "%.3f", ms * r / 32768 / 1000 }')"
}
steps_done() { tail -n 1 "$out/metrics.jsonl" | sed -n 's/^{"step":\([0-9]*\).*/\1/p'; }

start learn
for ((k = 1; k <= LEARN; k++)); do
    sleep_in_step
    lose_one
    await '"restart"' "$k"
    await '"loss"' $(($(count '"loss"') + 3))
done
stop
hours=$(awk -v e="$EVERY" 'BEGIN { printf "%.9f", e / 3600 }')
"$LOCKSTEP" plan --recovery "$out" --mtbf 3
predicted=$("$LOCKSTEP" plan --recovery "$out" --mtbf "$hours" --json | tr -d '\n' | sed -n 's/.*"goodput": *\([0-9.e+-]*\).*/\1/p')

start chaos
first=$(steps_done) begin=$(now_ms) deaths=0
end=$((begin + $(awk -v m="$MINUTES" 'BEGIN { printf "%.0f", 60000 * m }'))) next=$((begin + EVERY * (500 + RANDOM % 1000)))
while [ "$(now_ms)" -lt "$end" ]; do
    alive
    if [ "$(now_ms)" -ge "$next" ]; then
        lose_one
        deaths=$((deaths + 1))
        next=$((begin + EVERY * (deaths * 1000 + 500 + RANDOM % 1000)))
    fi
    sleep 0.02
done
# From the end of a step to the end of a step.
last=$(steps_done)
while [ "$(steps_done)" = "$last" ]; do alive && sleep 0.01; done
last=$(steps_done) passed=$(($(now_ms) - begin))
stop
# The mean step time without losses: leaves out the first steps and those whose time includes a recovery.
usual=$({ metrics "$out" restarts step && metrics "$out" steps step ms; } | awk '
    NF == 1 { out[$1] = out[$1 + 1] = 1 }
    NF == 2 { ms[$1] = $2 }
    END { for (s in ms) if (s > 3 && !(s in out)) { n++; sum += ms[s] } printf "%.6f", sum / n / 1000 }')
awk -v n=$((last - first)) -v s="$usual" -v ms="$passed" -v p="$predicted" -v d="$deaths" -v w="$WORKERS" -v m="$MODEL" 'BEGIN {
    g = n * s * 1000 / ms
    print "| " w " workers, " m " | minutes | deaths | step s | goodput measured | predicted | off by |\n|---|---|---|---|---|---|---|"
    printf "| | %.1f | %d | %.3f | %.2f %% | %.2f %% | %+.1f %% |\n", ms / 60000, d, s, 100 * g, 100 * p, 100 * (p / g - 1)
}'
