#!/usr/bin/env bash
# bits.sh: the weights after some steps are the same bits for any micro-batch, any number of threads, any instruction set, and
# whatever is evaluated, sampled and saved along the way; and they are those of the constants below, on every machine.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

# Weights after 6 steps of the runs below: docs/reference/arithmetic.md fixes them. A change of its rules changes them, and nothing else may.
declare -A golden=(
    [gpt2]=3930a5397463d2bc8edc68b446aff033
    [llama]=0f4d4ef3d6782860ec9255b06eb84a4e
    [gpt2-dropout]=9fce3fb8ccba6eee7dc079d36543c4fe
    [gpt2-dropout-sliced]=668c05abd32421e5cbeefa35312abd03
    [llama-sgd]=ec89979af28850cb4760962d43f9daf0
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
    rm -rf "$scratch/run-$n"
}

# Instruction sets that this processor has; a set that it has not is refused.
isas() {
    local isa
    for isa in portable neon avx2 avx512; do
        LS_ISA=$isa "$LOCKSTEP" train --steps 0 --print-config >/dev/null 2>&1 && echo "$isa"
    done
}

base=(--data "$text" --steps 6 --seq 13 --global-batch 7 --lr 0.01)

experiment=(--model "$gpt2" "${base[@]}")
for micro in 1 2 3 5 7; do same gpt2 --micro-batch $micro --threads $((micro % 3 + 1)); done
for isa in $(isas); do LS_ISA=$isa same gpt2 --threads 2; done
same gpt2 --eval-every 2 --sample-every 3 --save-every 1 --max-tokens 30 --prompt line
same gpt2 --micro-batch 3 --eval-every 1 --eval-batches 2 --sample-every 1 --max-tokens 3 --temperature 0 --keep 0
same gpt2 --no-pin --threads 3

experiment=(--model "$llama" "${base[@]}" --groups 5)
for micro in 1 2 3 5 7; do same llama --micro-batch $micro --threads $((micro % 3 + 1)); done
for isa in $(isas); do LS_ISA=$isa same llama --threads 2; done
same llama --micro-batch 2 --eval-every 2 --sample-every 3 --save-every 2 --max-tokens 30

experiment=(--model "$gpt2" "${base[@]}" --dropout 0.1 --seed 12345678901234567 --slices 1)
same gpt2-dropout --threads 1
for micro in 1 2 5; do same gpt2-dropout --micro-batch $micro --threads $((micro % 3 + 1)) --eval-every 2; done
LS_ISA=portable same gpt2-dropout --micro-batch 3
same gpt2-dropout --micro-batch 2 --recompute full

# Dropout of attention weights is indexed over all heads and sequences, so it does not depend on the worker that has them.
experiment=(--model "$gpt2" "${base[@]}" --dropout 0.2)
same gpt2-dropout-sliced --micro-batch 3 --threads 2
same gpt2-dropout-sliced --tp 2 --sequence-parallel
LS_ISA=portable same gpt2-dropout-sliced --dp 3 --micro-batch 1
same gpt2-dropout-sliced --dp 2 --tp 2 --pp 2 --micro-batch 1 --recompute full

experiment=(--model "$llama" "${base[@]}" --optimizer sgd --lr-schedule wsd --clip 0.5 --weight-decay 0.01 --nesterov)
for micro in 1 4 7; do same llama-sgd --micro-batch $micro --threads $((micro % 3 + 1)); done

# Same text, tokenized before, in two files: the same data.
case_begin "data in two token files"
mkdir "$scratch/tokens"
"$LOCKSTEP" tokenize --tokenizer bytes --data "$text" --out "$scratch/tokens/t" --shard-tokens 5000 >"$scratch/out" 2>"$scratch/err" ||
    fail "tokenize failed"
train --model "$gpt2" "${base[@]}" --data "$scratch/tokens" --out "$scratch/tokens-run"
expect_weights "${golden[gpt2]}"

# Another seed, another batch, another cut into groups or slices: another experiment, with other bits.
experiment=(--model "$gpt2" "${base[@]}")
for change in '--seed 1' '--global-batch 8' '--groups 1' '--slices 1' '--seq 12' '--dropout 0.01'; do
    n=$((n + 1))
    case_begin "other bits with $change"
    # shellcheck disable=SC2086 # a flag and its value
    train "${experiment[@]}" --out "$scratch/run-$n" $change
    expect_status 0
    if [ "$(weights)" = "${golden[gpt2]}" ]; then fail "the weights are the same"; fi
done

# From the CPU to another device and back, each time under another layout.
other=${TEST_DEVICE:-fake}
[ "$other" != fake ] || LOCKSTEP=$BUILD/tests/spoil/lockstep
case_begin "two steps on the CPU, two on $other, two on the CPU"
leave() { for step in "${@}"; do rm -rf "$scratch/mixed/checkpoints/step-00000000$step"; done; }
LS_DEVICE=cpu train "${experiment[@]}" --dp 2 --save-every 1 --keep 9 --out "$scratch/mixed"
leave 3 4 5 6
LS_DEVICE=$other train --out "$scratch/mixed" --resume --tp 2 --pp 2
expect_weights "${golden[gpt2]}"
leave 5 6
LS_DEVICE=cpu train --out "$scratch/mixed" --resume --dp 3 --zero 2
expect_weights "${golden[gpt2]}"
finished
