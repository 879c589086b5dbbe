#!/usr/bin/env bash
# wrong.sh: a worker computes or keeps wrong numbers (tests/spoil) in a run that is supervised: if it is wrong
# repeatedly, its place is left out and the step retried; the run ends on the weights of an undisturbed one. It continues from memory if the
# state there is verified, else from the newest verified checkpoint.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"
LOCKSTEP=$BUILD/tests/spoil/lockstep

model=$deep
experiment=(--model "$model" --data "$text" --seq 11 --global-batch 16 --groups 8 --lr 0.01 --lr-schedule constant --eval-every 0 --threads 1 --steps 12)

case_begin "clean"
train "${experiment[@]}" --out "$scratch/whole"
expect_status 0
final=$(weights)
losses "$scratch/whole" >"$scratch/whole.losses"

# wrong WHAT FLAGS…: it ends as if nothing had been.
wrong() {
    case_begin "$*"
    local how=$1
    shift
    rm -rf "$scratch/run"
    LS_SPOIL=$how train "${experiment[@]}" --out "$scratch/run" "$@"
    expect_weights "$final"
    expect_losses "$scratch/run" "$scratch/whole.losses"
    [ ! -e "$scratch/run/metrics.jsonl.damaged-1" ] || fail "lines of the metrics were taken for damaged"
}
expect_event() { grep -Eq -- "$1" "$scratch/run/metrics.jsonl" || fail "no event '$1': $(grep event "$scratch/run/metrics.jsonl")"; }
expect_restarts() { [ "$(grep -c '(restart [0-9]* of [0-9]*)' "$scratch/err")" -eq "$1" ] || fail "not $1 restarts"; }

# ---- audits ------------------------------------------------------------------------------------------------------------

# Every step is audited: the state is verified, and the step is retried without the place.
wrong 'rank=2 step=3+1 place=product tensor=mlp.in.weight add=0.001 times=0' --dp 4 --audit 1 --save-every 0
expect_restarts 1
expect_said 'step 4: audit: .*worker 2 was wrong, and again .* left out.*; the run goes on from step 3 with 3 workers, dp 3'
expect_event '"step":3,"event":"audit",.*"wrong":2,"persistent":true,.*"found_step":4,"left_out":true'
! grep -q suspect_from "$scratch/run/metrics.jsonl" || fail "steps were suspected"
"$LOCKSTEP" doctor "$scratch/run" >"$scratch/out" || true
grep -q 'the run continued by itself from step 3, without the cores' "$scratch/out" || fail "the doctor does not tell"
# With a spare place there are as many workers as before.
wrong 'rank=1 step=3+1 place=product tensor=mlp.in.weight add=0.001 times=0' --dp 2 --audit 1 --spares 1
expect_restarts 1
! grep -q 'with 1 worker' "$scratch/err" || fail "the spare place was not used"
# The place is wrong in all its ranks, whatever they are later.
wrong 'rank=0 step=3+1 place=product tensor=mlp.in.weight add=0.001 times=0' --dp 2 --tp 2 --audit 1
expect_restarts 1

# Audits in step 4, 8 and 12, and the fault from step 6 on: steps 5 to 7 are unverified, and so are their checkpoints. Three are kept, and
# the one of step 4.
wrong 'rank=1 step=5+1 place=product tensor=mlp.in.weight add=0.001 times=0' --dp 2 --audit 0.0625 --save-every 1 --keep 3
expect_restarts 1
expect_said 'step 8: audit: .*; steps 5 to 7, made since the last clean audit, are suspect; .*goes back to its newest checkpoint up to step 4'
expect_said 'the run goes on from step 4, which was saved'
expect_event '"step":4,"event":"audit",.*"persistent":true,.*"suspect_from":5,"suspect_to":7,"found_step":8,"left_out":true'
# Without a verified checkpoint it starts again.
wrong 'rank=1 step=1+1 place=product tensor=mlp.in.weight add=0.001 times=0' --dp 2 --audit 0.0625 --save-every 2
expect_said 'up to step 0'
expect_said 'starts again at step 0'
# Steps that a stopped run had not audited are still unverified when it is resumed.
case_begin "suspects of a run that was resumed"
rm -rf "$scratch/run"
how='rank=1 step=5+1 place=product tensor=mlp.in.weight add=0.001 times=0'
LS_SPOIL=$how train "${experiment[@]}" --out "$scratch/run" --dp 2 --audit 0.0625 --save-every 2 --keep 0 --steps 7
expect_status 0
LS_SPOIL=$how train --resume --out "$scratch/run" --steps 12 --dp 2 --audit 0.0625
expect_weights "$final"
expect_said 'steps 5 to 7, made since the last clean audit, are suspect'
expect_said 'the run goes on from step 4, which was saved'

case_begin "restarts that are used up, and no worker to blame"
rm -rf "$scratch/run"
LS_SPOIL='rank=1 step=3+1 place=product tensor=mlp.in.weight add=0.001 times=0' train "${experiment[@]}" --out "$scratch/run" --dp 2 --audit 1 --restarts 0
expect_status 1
expect_said 'worker 1 was wrong'
expect_event '"persistent":true'

# ---- state and replicas ------------------------------------------------------------------------------------------------

# A damaged copy is restored from the other workers; a moment has one owner, so the run restarts from the checkpoint.
wrong 'rank=1 step=4 place=weight tensor=attn.norm.bias flip=0x40000000 times=0' --dp 2 --zero 0 --check state --save-every 2
expect_said 'on worker 1 changed after the last update: memory corruption; the run goes on from step 5'
wrong 'rank=1 step=4 place=moment tensor=mlp.in.weight flip=0x1' --dp 2 --zero 1 --check state --save-every 3
expect_said 'the run goes back to its newest whole checkpoint'
# It happens each time in the same place, which is left out after the second.
expect_event '"event":"state","worker":1,"what":"moment1",.*"left_out":true'
# Between the check and the update: the others have made theirs. Replicas have all of it, or a copy; else it goes back.
for how in '--dp 2 --zero 0' '--dp 2 --zero 3 --state-copies 1' '--pp 2 --state-copies 1'; do
    for what in late-weight late-moment; do
        # shellcheck disable=SC2086 # flags are words
        wrong "rank=1 step=4 place=$what tensor=mlp.in.weight flip=0x1" $how --check state --save-every 2
        expect_said 'elements 0 to 2047 of the [a-z0-9]* of blocks.[0-9]*.mlp.in.weight on worker 1 changed before .*; the run goes on from step 5'
        expect_said 'the memory of worker 1 was damaged; other workers supplied its part of the state'
    done
done
wrong 'rank=1 step=4 place=late-moment tensor=mlp.in.weight flip=0x1' --dp 2 --zero 1 --check state --save-every 2
expect_said 'the run goes back to its newest whole checkpoint'
# Memory was not looked at in that step: the gradient may have been made with damaged weights.
wrong 'rank=1 step=4 place=late-weight tensor=mlp.in.weight flip=0x1' --dp 2 --zero 0 --check replicas --save-every 2
expect_said 'step 5, made since .*suspect.*up to step 4'
wrong 'rank=2 step=4 place=gradient tensor=mlp.in.weight flip=0x400000' --dp 4 --zero 0 --save-every 3
expect_said 'up to step 4'
expect_event '"step":3,"event":"replica","workers":\[2\],.*"found_step":5'
# Before the first save, with nothing to go back to.
wrong 'rank=1 step=1 place=moment tensor=mlp.in.weight flip=0x1' --dp 2 --zero 1 --check state --save-every 0
expect_said 'starts again at step 0'
# At the very end.
wrong 'rank=0 step=11 place=moment tensor=mlp.in.weight flip=0x1' --dp 2 --save-every 4

# ---- one judge ---------------------------------------------------------------------------------------------------------

# Memory that is not what was written is named before an audit, a learning rate or a machine is: with default checks, which look at
# memory in few of such short steps. blamed WORKER WHAT TENSOR HOW FLAGS…
blamed() {
    local worker=$1 tensor=$2 kind=$3
    shift 3
    wrong "$@"
    expect_event "\"event\":\"state\",\"worker\":$worker,\"what\":\"$kind\",\"tensor\":\"blocks.0.$tensor\""
    ! grep -q '"event":"audit"\|"event":"non-finite"' "$scratch/run/metrics.jsonl" || fail "something else was accused: $(grep event "$scratch/run/metrics.jsonl")"
}
in=mlp.in.weight
blamed 1 $in weight "rank=1 step=4 place=weight tensor=$in flip=0x40000000" --dp 2 --audit 1 --save-every 3
blamed 1 $in weight "rank=1 step=4 place=weight tensor=$in flip=0x400000" --dp 2 --zero 0 --audit 1
blamed 1 $in weight "rank=1 step=4 place=weight tensor=$in set=nan" --dp 2 --save-every 3
blamed 1 $in weight "rank=1 step=4 place=weight tensor=$in set=nan" --tp 2 --save-every 3
# What others update and this worker computes with: its owner's record tells which of two is damaged.
blamed 1 mlp.norm.weight weight 'rank=1 step=4 place=weight tensor=mlp.norm.weight set=nan' --tp 2
blamed 1 attn.qkv.weight copy 'rank=1 step=4 place=copy tensor=attn.qkv.weight flip=0x40000000' --dp 2 --audit 1
whole=$final
case_begin "clean, bf16"
train "${experiment[@]}" --out "$scratch/whole16" --precision bf16
expect_status 0
final=$(weights)
losses "$scratch/whole16" >"$scratch/whole.losses"
blamed 1 $in copy "rank=1 step=4 place=copy tensor=$in flip=0x4000" --tp 2 --precision bf16
blamed 1 $in copy "rank=1 step=4 place=copy tensor=$in flip=0x4000" --dp 4 --audit 1 --precision bf16
# 16 bits that the other one of two owns: nothing shows which of the two has wrong ones. Both are named, and both get them again.
wrong 'rank=1 step=4 place=copy tensor=attn.qkv.weight flip=0x4000' --dp 2 --audit 1 --precision bf16
expect_event '"event":"replica","workers":\[0,1\],"tensor":"blocks.0.attn.qkv.weight"'
final=$whole

# One worker without a replacement: memory is the cause, whatever the number was that showed it.
case_begin "a weight that becomes NaN, one worker"
rm -rf "$scratch/run"
LS_SPOIL="rank=0 step=4 place=weight tensor=$in set=nan" train "${experiment[@]}" --out "$scratch/run" --save-every 3 --restarts 0
expect_status 1
expect_said "the weight of blocks.0.$in on worker 0 changed after the last update: memory corruption"
! grep -q -e '--lr' "$scratch/err" || fail "the learning rate was accused"
train --resume --out "$scratch/run"
expect_weights "$final"
# A processor that is wrong again and again, in sound memory, is still one, and the advice names it.
case_begin "the advice names the worker"
rm -rf "$scratch/run"
LS_SPOIL="rank=1 step=3 place=product tensor=$in add=0.001 times=0" train "${experiment[@]}" --out "$scratch/run" --dp 2 --audit 1 --restarts 0
expect_status 1
expect_said 'take the machine of worker 1 out of the run'
finished
