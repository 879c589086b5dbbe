#!/usr/bin/env bash
# fake.sh: a device whose memory only its own queues may access, and which runs queued work late (tests/fake), gives the bits of the CPU in every
# layout: so no code above the table of operations dereferences a pointer to a tensor or forgets a wait. The product has no such device.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

case_begin "the product names the devices that it has"
train --device fake --data "$text" --model "$gpt2" --out "$scratch/none"
expect_status 2
expect_said "--device fake: no device is called fake; choose auto, cpu, cuda or cuda:N"
LOCKSTEP=$BUILD/tests/spoil/lockstep

n=0
# same FLAGS…: the run of $experiment with these flags on the fake device has the weights $right.
same() {
    n=$((n + 1))
    case_begin "fake $*"
    train "${experiment[@]}" --device fake --out "$scratch/run-$n" "$@"
    expect_weights "$right"
    rm -rf "$scratch/run-$n"
}

# golden NAME: what bits.sh expects of it.
golden() { sed -n "s/^ *\[$1\]=//p" tests/train/bits.sh; }

base=(--data "$text" --steps 6 --seq 13 --global-batch 7 --lr 0.01)
experiment=(--model "$gpt2" "${base[@]}") right=$(golden gpt2)
same --eval-every 2 --sample-every 3 --max-tokens 10 --save-every 3
same --dp 2 --tp 2 --sequence-parallel
same --pp 2 --schedule zero-bubble --micro-batch 2
same --dp 3 --zero 1 --micro-batch 1
same --dp 2 --zero 2 --recompute selective
same --dp 2 --zero 3 --recompute full
same --dp 2 --check state --audit 1
same --loss-chunk 2 --eval-every 2
same --dp 2 --tp 2 --sequence-parallel --loss-chunk 1 --check state --audit 1

experiment=(--model "$llama" "${base[@]}" --groups 5) right=$(golden llama)
same --tp 2 --dp 2 --micro-batch 2
same --pp 3 --schedule 1f1b
same --pp 2 --schedule zero-bubble --keep-activations --loss-chunk 3

experiment=(--model "$gpt2" "${base[@]}" --dropout 0.2) right=$(golden gpt2-dropout-sliced)
same --tp 2 --sequence-parallel
same --dp 2 --pp 2

# 16 bits: against the CPU.
experiment=(--model "$gpt2" "${base[@]}" --precision bf16 --reduce-dtype bf16)
train "${experiment[@]}" --out "$scratch/cpu"
right=$(sed -n 's/.*weights=xxh128:\([0-9a-f]*\).*/\1/p' "$scratch/out" | tail -n 1)
same --dp 2 --zero 3 --loss-chunk 1
same --tp 2 --pp 2

finished
