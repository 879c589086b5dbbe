#!/usr/bin/env bash
# copies.sh: --state-copies: state that a lost worker left damaged is restored from replicas and from the worker that keeps copies. If
# no worker has it, or if its hash is not the recorded one, the run rejects it, says so, and restarts from its newest checkpoint.
# In every case it ends with the weights and losses of an undisturbed run.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

model=$deep
experiment=(--model "$model" --data "$text" --seq 11 --global-batch 8 --lr 0.01 --dropout 0.1 --warmup 5 --lr-schedule constant
            --threads 1 --steps 6 --eval-every 0 --sample-every 0 --save-every 2 --save-mode stream)
plain=$LOCKSTEP spoiler=$BUILD/tests/spoil/lockstep

case_begin "the undisturbed runs"
for kind in plain bf16 rounded sgd; do
    case $kind in
    plain) more=() ;;
    bf16) more=(--precision bf16) ;;
    rounded) more=(--precision bf16 --no-master-weights) ;;
    sgd) more=(--optimizer sgd --momentum 0.9) ;;
    esac
    train "${experiment[@]}" --out "$scratch/whole-$kind" --restarts 0 "${more[@]}"
    expect_status 0
    eval "final_$kind=$(weights)"
    losses "$scratch/whole-$kind" >"$scratch/$kind.losses"
done

# kept KIND DEATHS SPOIL OPTIONS…: the run loses a worker, and the state that it left is corrupted.
kept() {
    local kind=$1 deaths=$2 spoil=$3 final=final_$1 out=$scratch/lost
    shift 3
    case_begin "$deaths, spoiled '$spoil', with $*"
    rm -rf "$out"
    LOCKSTEP=$plain
    [ -z "$spoil" ] || LOCKSTEP=$spoiler
    LS_FAULT_POINT=$deaths LS_SPOIL=$spoil train "${experiment[@]}" --out "$out" --restarts 9 --state-copies 1 "$@"
    LOCKSTEP=$plain
    expect_weights "${!final}"
    expect_losses "$out" "$scratch/$kind.losses"
}
from_others() {
    expect_said "the memory of worker $1 was damaged; other workers supplied its part of the state"
    ! grep -q "goes back to its newest" "$scratch/err" || fail "it went back to a checkpoint"
}
from_checkpoint() {
    expect_said "$1.*; the run goes back to its newest whole checkpoint"
    expect_said "goes on from step $2, which was saved"
}
in_memory() { ! grep -q "goes back to its newest\|other workers supplied" "$scratch/err" || fail "the state was not taken as it was"; }

# Copies are no burden where memory is sound, wherever the worker dies.
kept plain given:1:3:0 '' --dp 2 --zero 1
in_memory
kept plain update:1:3:0:40 '' --dp 2 --zero 1
in_memory
kept plain update:0:3:0:3,adopt:1:-1:1:5,finish:0:-1:2:2 '' --dp 2 --zero 3
in_memory
kept bf16 update:1:3:0:9 '' --dp 2 --zero 2 --precision bf16
in_memory
kept plain publish:2:3:0 '' --tp 2 --pp 2
in_memory
kept rounded update:1:3:0:12 '' --tp 2 --precision bf16 --no-master-weights

# What worker 1 left is damaged: its copy is taken, or a replica's. When gradients were reduced, all have recorded what the step before came to.
spoil='rank=0 step=4 place=left tensor=mlp.in.weight block=1 index=5 flip=0x100000'
kept plain reduced:0:4:0 "$spoil" --dp 2 --zero 1
from_others 1
kept plain reduced:1:4:0 "$spoil" --dp 2 --zero 3
from_others 1
kept plain reduced:0:4:0 "$spoil" --tp 2
from_others 1
kept plain reduced:1:4:0 'rank=0 step=4 place=left tensor=blocks.2 block=1 index=5 flip=0x100000' --pp 2
from_others 1
kept plain reduced:0:4:0 "$spoil" --dp 2 --zero 0
from_others 1
kept bf16 reduced:0:4:0 "$spoil" --dp 3 --zero 2 --precision bf16
from_others 1
kept rounded reduced:0:4:0 "$spoil" --dp 2 --zero 1 --precision bf16 --no-master-weights
from_others 1
kept sgd reduced:1:4:0 "$spoil" --dp 2 --zero 3 --optimizer sgd --momentum 0.9
from_others 1
# Restored by others: the worker died in its update, before its checksum was recorded, but copies have one.
kept plain update:1:3:0:9 "$spoil" --dp 2 --zero 1
from_checkpoint "the state that workers saved after step 4 differs from its copies" 2

# Without copies no worker has it.
kept plain reduced:0:4:0 "$spoil" --dp 2 --zero 1 --state-copies 0
from_checkpoint "the memory of worker 1 is damaged, and no other worker has its part" 4
# What is put together wrongly is refused, whatever it was put together from.
kept plain reduced:0:3:0 'rank=1 step=3 place=taken tensor=mlp.in.weight index=5 flip=0x100000 times=0' --dp 2 --zero 1
from_checkpoint "the state that workers saved after step 3 does not match the hash recorded in that step" 2
kept plain reduced:0:3:0 'rank=0 step=3 place=taken tensor=weight index=5 flip=0x100000 times=0' --dp 2 --state-copies 0
from_checkpoint "the state that workers saved after step 3 does not match the hash recorded in that step" 2
# There is no checkpoint to go back to: nothing of what was refused stays.
kept plain reduced:0:3:0 'rank=0 step=3 place=taken tensor=weight index=5 flip=0x100000 times=0' --dp 2 --save-every 0
expect_said "does not match the hash recorded in that step; the run goes back to its newest whole checkpoint"
expect_said "has no checkpoint yet: it starts again at step 0"

case_begin "one worker has no buddy, and says so"
train "${experiment[@]}" --out "$scratch/alone" --state-copies 1
expect_weights "$final_plain"
grep -q "one worker has no other worker to keep a copy, so a lost state is read from the newest checkpoint" "$scratch/out" || fail "the header does not say it"

case_begin "a worker has no memory for a copy: there is none, and the header says so"
LS_FAULT_SNAPSHOT=1:1000 train "${experiment[@]}" --out "$scratch/full" --save-mode stream --dp 2 --zero 1 --state-copies 1
expect_weights "$final_plain"
grep -q "there is too little memory for copies, so a lost state is read from the newest checkpoint" "$scratch/out" || fail "the header does not say it"

case_begin "what is copied, and what it costs"
# copied BYTES OPTIONS…: what all workers keep for others, as --dry-run counts it.
copied() {
    local want=$1 got
    shift
    got=$("$LOCKSTEP" train --dry-run --json "${experiment[@]}" --out "$scratch/dry" "$@" | sed -n 's/.*"copies_bytes": *\([0-9]*\).*/\1/p' | tail -n 1)
    [ "$got" = "$want" ] || fail "$* copies $got bytes, not $want"
}
copied 0 --dp 2 --zero 1
copied 0 --dp 2 --zero 0 --state-copies 1
rm -rf "$scratch/lost"
train "${experiment[@]}" --out "$scratch/lost" --steps 1 --dp 2 --zero 1 --state-copies 1
grep -q "another worker also keeps shards of optimizer state (.* MiB on worker 0); every replica has all weights" "$scratch/out" || fail "the header does not say it"
finished
