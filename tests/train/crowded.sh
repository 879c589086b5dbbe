#!/usr/bin/env bash
# crowded.sh: 8 workers on few cores that others keep busy, with every guard and with restarts: no worker is reported as hung, no guard reports anything, and the
# weights are those of one worker. In the long tier 10,000 steps.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

steps=16 load=$(nproc) layouts=("--dp 8 --zero 3" "--dp 2 --tp 2 --pp 2")
[ "$TIER" != long ] || steps=2500 load=$((2 * load)) layouts+=("--dp 8" "--dp 4 --pp 2 --zero 2")
experiment=(--model "$gpt2" --data "$text" --seq 11 --global-batch 8 --groups 8 --lr 0.001 --threads 1 --no-pin --steps "$steps" --eval-every $((steps / 8))
            --eval-batches 1 --sample-every $((steps / 4)) --max-tokens 8 --save-every $((steps / 5)) --keep 2 --check state --audit 0.25)

busy=()
trap 'kill "${busy[@]}" 2>/dev/null; stop_child; rm -rf "$scratch"' EXIT

case_begin "one worker"
train "${experiment[@]}" --out "$scratch/one"
expect_status 0
final=$(weights)

for ((i = 0; i < load; i++)); do
    (while :; do :; done) &
    busy+=($!)
done
alarms=0 done=0
for layout in "${layouts[@]}"; do
    case_begin "$layout"
    # shellcheck disable=SC2086 # flags are words
    train "${experiment[@]}" --out "$scratch/run" $layout
    expect_weights "$final"
    said=$(grep -c 'warning\|error\|restart' <(grep -v 'more threads than cores' "$scratch/err"))
    events=$(grep -c '"event"\|"restart"' "$scratch/run/metrics.jsonl")
    [ "$said" -eq 0 ] && [ "$events" -eq 0 ] || fail "alarms: $(grep 'warning\|error' "$scratch/err" | head -n 3) $(grep '"event"' "$scratch/run/metrics.jsonl" | head -n 3)"
    alarms=$((alarms + said + events)) done=$((done + steps))
    rm -rf "$scratch/run"
done
kill "${busy[@]}"
echo "$done steps of 8 workers on $(nproc) cores with $load other programs: $alarms alarms"
finished
