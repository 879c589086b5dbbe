#!/usr/bin/env bash
# sgd.sh: SGD and the schedule of steps from end to end: the same bits under ZeRO 0 to 3, on rows, slices and stages and in 16 bit; what a
# dry run tells; checkpoints and going on, with momentum and without; what is another experiment; and rates that follow the batch.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

base=(--data "$text" --steps 8 --seq 13 --global-batch 8 --optimizer sgd --lr 0.05 --weight-decay 0.0005 --lr-schedule step --warmup 2
      --eval-every 0 --threads 1)

# Weights after 8 steps of the runs below: docs/reference/arithmetic.md fixes them. A change of its rules changes them, and nothing else may.
declare -A golden=(
    [momentum]=39b0caa7b464afea5d4871011915649d
    [nesterov]=b1e86cc2cf480efe78f5f24e6aa23638
    [plain]=b0e0f9852e4fea0b1a4ae806de234b01
    [bf16]=0fb4b299ca9cf37456d5d850c829ebd2
)

n=0
# same NAME FLAGS…: a run of the experiment NAME with flags that must not matter.
same() {
    local name=$1
    shift
    n=$((n + 1))
    case_begin "$name $*"
    train "${experiment[@]}" --out "$scratch/run-$n" "$@"
    expect_weights "${golden[$name]}"
}

experiment=(--model "$gpt2" "${base[@]}")
same momentum
same momentum --dp 2 --zero 0
same momentum --dp 3 --zero 1 --shares 3,3,2
same momentum --dp 2 --zero 2 --micro-batch 1
same momentum --dp 4 --zero 3 --recompute full
same momentum --tp 2 --pp 2 --micro-batch 2
experiment+=(--nesterov)
same nesterov --isa portable
same nesterov --dp 2 --pp 2 --zero 3 --micro-batch 1 --check state
experiment=(--model "$llama" "${base[@]}" --momentum 0)
same plain
same plain --dp 2 --zero 1
same plain --dp 2 --zero 3
experiment=(--model "$llama" "${base[@]}" --precision bf16)
same bf16
same bf16 --dp 2 --zero 1
same bf16 --dp 2 --zero 3 --micro-batch 1

# ---- the rates ---------------------------------------------------------------------------------------------------------

rates() { sed -n 's/^{"step":[0-9]*,"loss":.*"lr":\([0-9.e-]*\).*/\1/p' "$1/metrics.jsonl" | tr '\n' ' '; }
case_begin "rates: two steps of warm-up, falls after half and three quarters"
found=$(rates "$scratch/run-1" | awk '{for (i = 1; i <= NF; i++) printf "%.6g ", $i}')
[ "$found" = "0.025 0.05 0.05 0.05 0.005 0.005 0.0005 0.0005 " ] || fail "they are $found"

case_begin "a rate that follows the batch is the rate"
train --model "$gpt2" "${base[@]}" --lr 0.025 --lr-scaling linear --lr-base-batch 4 --out "$scratch/scaled"
expect_weights "${golden[momentum]}"
grep -Fxq 'lr        0.025 × 2 (linear, batch 8 / 4) = 0.05' "$scratch/out" || fail "it does not say how the rate came about"
grep -q 'no warm-up' "$scratch/err" && fail "it warns of a warm-up that is there"
cmp -s "$scratch/scaled/identity.json" "$scratch/run-1/identity.json" || fail "it is another experiment"
case_begin "without warm-up it says so"
train --model "$gpt2" "${base[@]}" --lr-scaling linear --lr-base-batch 4 --warmup 0 --dry-run
expect_status 0
expect_said '^lockstep: warning: the learning rate was raised with the batch, 0.05 to 0.1, and there is no warm-up'

# ---- memory ------------------------------------------------------------------------------------------------------------

# memory FLAGS…: the bytes of the dry run, by worker, are the run's.
memory() {
    local dry used
    case_begin "memory $*"
    train --model "$gpt2" "${base[@]}" --steps 1 "$@" --dry-run --json
    dry=$(grep -o '"bytes":[0-9]*,"kinds"' "$scratch/out" | grep -o '[0-9]*' | tr '\n' ,)
    train --model "$gpt2" "${base[@]}" --steps 1 "$@" --json --out "$scratch/memory"
    used=$(sed -n 's/.*"arena_bytes":\[\([0-9,]*\)\].*/\1,/p' "$scratch/out")
    [ -n "$used" ] && [ "$dry" = "$used" ] || fail "the dry run says ${dry:-nothing}, the run ${used:-nothing}"
    rm -rf "$scratch/memory"
}
memory --momentum 0
memory --dp 2 --zero 1
memory --dp 2 --zero 3 --precision bf16
# One number for each parameter with momentum, none without, two of AdamW.
state_bytes() { train --model "$gpt2" "${base[@]}" "$@" --dry-run --json; grep -o '"optimizer state":[0-9]*' "$scratch/out" | grep -o '[0-9]*$'; }
case_begin "numbers of the optimizer"
one=$(state_bytes) two=$(state_bytes --optimizer adamw) none=$(state_bytes --momentum 0)
[ "${one:-0}" -gt 0 ] && [ "${two:-0}" -eq $((2 * one)) ] && [ "${none:-0}" -eq 0 ] || fail "momentum $one, AdamW $two, plain $none bytes"

# ---- going on ----------------------------------------------------------------------------------------------------------

# goes_on NAME FLAGS…: stopped after three steps, it goes on under another layout to the same bits.
goes_on() {
    local name=$1 part=$scratch/part
    shift
    case_begin "$name goes on $*"
    rm -rf "$part"
    train "${experiment[@]}" --save-every 3 --keep 0 --out "$part"
    expect_weights "${golden[$name]}"
    find "$part/checkpoints" -name 'step-00000000[678]' -exec rm -r {} +
    train --resume --out "$part" "$@"
    expect_weights "${golden[$name]}"
}
experiment=(--model "$gpt2" "${base[@]}")
goes_on momentum --dp 2 --zero 3
[ "$(grep -ao '"[^"]*\.[mv]":' "$scratch/part/checkpoints/step-000000008/optimizer.safetensors" | grep -c '\.v"')" -eq 0 ] || fail "there are second moments"
experiment=(--model "$llama" "${base[@]}" --momentum 0)
goes_on plain --dp 2
experiment=(--model "$llama" "${base[@]}" --precision bf16)
goes_on bf16 --dp 2 --zero 2

refused() { # field, flags…
    local field=$1
    shift
    case_begin "resume with $*"
    train --resume --out "$scratch/run-1" "$@"
    expect_status 2
    expect_said "error: not the same experiment: (.*; )?$field is .* here and .* in the checkpoint"
}
refused momentum --momentum 0.8
refused nesterov --nesterov
refused lr-gamma --lr-gamma 0.2
refused lr-steps --lr-steps 3,6
refused lr-steps --steps 16
refused lr --lr-scaling sqrt --lr-base-batch 2
case_begin "the same steps in other words"
train --resume --out "$scratch/run-1" --lr-steps 4,6
expect_weights "${golden[momentum]}"
case_begin "more steps, where the rate falls at steps that have a number"
train --resume --out "$scratch/run-1" --lr-steps 4,6 --steps 10
expect_status 0
more=$(weights)
train --model "$gpt2" "${base[@]}" --steps 10 --lr-steps 4,6 --out "$scratch/ten"
expect_weights "$more"

# ---- verify ------------------------------------------------------------------------------------------------------------

case_begin "verify"
"$LOCKSTEP" verify --model "$gpt2" --data "$text" --seq 13 --global-batch 8 --optimizer sgd --nesterov --lr-schedule step --lr-steps 1,2 \
    --warmup 1 --steps 3 --dp 2 --pp 2 --zero 2 >"$scratch/out" 2>"$scratch/err"
status=$?
expect_status 0
grep -q 'every loss, gradient and weight is bit-identical to one worker$' "$scratch/out" || fail "verify found differences"
finished
