#!/usr/bin/env bash
# spoil.sh: numbers of one worker are corrupted (tests/spoil): the step detects it, the report names the right worker, and the weights are never
# affected; a transient fault changes no bit of the result.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"
LOCKSTEP=$BUILD/tests/spoil/lockstep

model=$deep
experiment=(--model "$model" --data "$text" --seq 11 --global-batch 16 --groups 8 --lr 0.01 --eval-every 0)

# train_spoiled WHAT FLAGS…: trains with LS_SPOIL=WHAT.
train_spoiled() {
    case_begin "$*"
    local how=$1
    shift
    rm -rf "$scratch/run"
    LS_SPOIL=$how train "${experiment[@]}" --steps "$steps" --out "$scratch/run" --restarts 0 "$@"
}
expect_event() { grep -Eq -- "$1" "$scratch/run/metrics.jsonl" || fail "no event '$1': $(grep event "$scratch/run/metrics.jsonl")"; }
expect_no_event() { ! grep -q '"event"' "$scratch/run/metrics.jsonl" || fail "an event: $(grep event "$scratch/run/metrics.jsonl")"; }
steps_done() { grep -c '"loss"' "$scratch/run/metrics.jsonl"; }
# The run ended in step 4: three steps are recorded.
expect_stopped() {
    expect_status 1
    [ "$(steps_done)" -eq 3 ] || fail "$(steps_done) steps, not 3"
}
# saved STEPS: the run has these checkpoints and no others.
expect_saved() { [ "$(steps_of "$scratch/run" | tr '\n' ' ')" = "$1" ] || fail "it has the checkpoints $(steps_of "$scratch/run" | tr '\n' ' ')"; }

steps=6
case_begin "clean"
train "${experiment[@]}" --steps $steps --out "$scratch/one" --audit 1 --check state --on-outlier warn
expect_status 0
final=$(weights)

# ---- not finite --------------------------------------------------------------------------------------------------------

train_spoiled 'rank=1 step=3 place=forward block=2 index=7 set=nan times=0' --dp 2
expect_stopped
expect_event '"event":"non-finite","recurs":true,"worker":1,"phase":"forward",.*"index":7,"value":"nan","tensor":"output","block":"blocks.1"'
# The step before it is sound: it is saved, and older checkpoints are kept for a user who wants to go back further.
expect_saved 'step-000000003 '
expect_said '^ *use a lower --lr or --clip, from the start \(no earlier checkpoint exists\), '
train --resume --out "$scratch/run"
expect_weights "$final"
train_spoiled 'rank=1 step=3 place=forward block=2 index=7 set=nan times=0' --dp 2 --save-every 1 --keep 1
expect_saved 'step-000000003 '
train_spoiled 'rank=1 step=3 place=forward block=2 index=7 set=nan times=0' --save-every 2 --keep 1 --dp 2
expect_saved 'step-000000002 step-000000003 '
# Step 3 gives the same value again: the advice goes back to a step before it.
expect_said '^ *use a lower --lr or --clip, from step 2 \(--fork RUN/checkpoints/step-000000002\), '
# A weight that is no number is no state to go on from.
train_spoiled 'rank=0 step=2 place=weight tensor=mlp.in.weight index=3 set=nan times=0' --save-every 2
expect_status 1
expect_saved 'step-000000002 '
train_spoiled 'rank=2 step=3 place=backward block=3 index=5 set=inf times=0' --dp 2 --pp 2
expect_stopped
expect_event '"worker":2,"phase":"backward",.*"index":5,"value":"inf","tensor":"input gradient","block":"blocks.2"'
train_spoiled 'rank=0 step=3 place=leaf tensor=blocks.2.mlp.in.weight index=3 set=-inf times=0' --dp 2 --on-outlier warn
expect_stopped
expect_event '"phase":"gradient",.*"tensor":"blocks.2.mlp.in.weight"'
train_spoiled 'rank=1 step=3 place=backward block=1 set=inf' --dp 2
expect_weights "$final"
expect_event '"event":"non-finite","recurs":false'

# The loss scale of fp16 is not to blame for a loss that is not finite: it does not move, and the run ends in that step.
case_begin "clean, fp16"
train "${experiment[@]}" --steps $steps --out "$scratch/half" --precision fp16
expect_status 0
half=$(weights)
for where in 'forward block=2 index=7' 'forward block=0 index=3'; do
    train_spoiled "rank=1 step=3 place=$where set=nan times=0" --dp 2 --precision fp16
    expect_stopped
    expect_event "\"event\":\"non-finite\",\"recurs\":true,\"worker\":1,\"phase\":\"forward\",.*\"index\":${where##*=},\"value\":\"nan\",\"tensor\":\"output\""
    ! grep -q '"event":"overflow"\|"event":"floor"' "$scratch/run/metrics.jsonl" || fail "it was taken for an overflow"
    expect_said 'step 4: first nan in the forward pass: .*; the weights were not changed$'
    expect_said '^ *use --precision bf16: '
done
train_spoiled 'rank=1 step=3 place=forward block=2 index=7 set=inf' --dp 2 --precision fp16
expect_weights "$half"
expect_event '"event":"non-finite","recurs":false'
train_spoiled 'rank=1 step=3 place=backward block=2 index=7 set=inf' --dp 2 --precision fp16
expect_status 0
expect_event '"event":"overflow","scale":16,"next_scale":16'
expect_event '"step":4,"loss":[0-9].*"skipped":true'
! grep -q '"event":"non-finite"' "$scratch/run/metrics.jsonl" || fail "an overflow was taken for something else"

# On the second of two that both have the whole gradient, of which the first stands for both; before a sum over both.
train_spoiled 'rank=1 step=3 place=backward block=1 index=5 set=nan times=0' --tp 2
expect_stopped
expect_event '"event":"non-finite","recurs":true,"worker":1,"phase":"backward"'
train_spoiled 'rank=1 step=3 place=product tensor=blocks.1.mlp.out.weight index=5 set=nan times=0' --tp 2 --sequence-parallel
expect_stopped
expect_event '"event":"non-finite","recurs":true,"worker":1,"phase":"forward"'
# In a row of a vector's gradient that the second worker computes; the first has gathered it in the step that failed.
train_spoiled 'rank=1 step=3 place=leaf tensor=blocks.1.mlp.norm.weight index=77 set=nan times=0' --tp 2 --sequence-parallel --on-outlier warn
expect_stopped
expect_event '"event":"non-finite","recurs":true,"worker":1,"phase":"gradient".*"tensor":"blocks.1.mlp.norm.weight"'

# Gradients of groups that are finite, and overflow when they are added up; and losses that are finite, but too large to be added up.
train_spoiled 'rank=* step=3 place=leaf tensor=blocks.1.mlp.in.weight index=3 set=3e38 times=0' --dp 8 --on-outlier warn
expect_stopped
expect_event '"event":"non-finite","recurs":true,"phase":"sum","index":3,"value":"inf","tensor":"blocks.1.mlp.in.weight","block":"blocks.1"'
expect_said 'step 4: first inf in the sum of gradients over groups: blocks.1, blocks.1.mlp.in.weight, element 3; each addend is finite'
for layout in '--dp 1' '--tp 2 --pp 2'; do
    case_begin "a run that diverges, $layout"
    rm -rf "$scratch/run"
    # shellcheck disable=SC2086 # flags are words
    train "${experiment[@]}" --optimizer sgd --lr 100 --warmup 0 --steps 30 --out "$scratch/run" --restarts 0 $layout
    expect_status 1
    expect_event '"event":"non-finite","recurs":true,"worker":[0-9]*,"phase":"loss",.*"value":"overflow","tensor":"loss","block":"head"'
    expect_said 'first overflow in the loss pass: head, loss, element [0-9]*, micro-batch [0-9]*, worker [0-9]*; '
    ! grep -q null "$scratch/out" "$scratch/err" || fail 'it prints "null"'
done

# ---- replicas and state ------------------------------------------------------------------------------------------------

train_spoiled 'rank=2 step=3 place=gradient tensor=mlp.in.weight flip=0x400000' --dp 4 --zero 0
expect_stopped
expect_event '"event":"replica","workers":\[2\],"tensor":"blocks.0.mlp.in.weight"'
train_spoiled 'rank=1 step=3 place=gradient tensor=mlp.out.bias flip=0x7f0000' --dp 2 --zero 1
expect_event '"event":"replica","workers":\[0,1\],"tensor":"blocks.0.mlp.out.bias"'
# The update of the worker that differs has found it, too, and knows which of the two is wrong.
train_spoiled 'rank=1 step=2 place=weight tensor=mlp.norm.weight flip=0x1' --tp 2
expect_event '"event":"state","worker":1,"what":"weight",.*"tensor":"blocks.0.mlp.norm.weight"'
train_spoiled 'rank=1 step=2 place=moment tensor=mlp.in.weight flip=0x1' --dp 2 --zero 1 --check state
expect_stopped
expect_event '"event":"state","worker":1,"what":"moment1","tensor":"blocks.0.mlp.in.weight"'
expect_saved ''
train_spoiled 'rank=1 step=2 place=weight tensor=attn.out.weight flip=0x80000001' --dp 2 --zero 3 --precision bf16 --check state
expect_stopped
expect_event '"event":"state","worker":1,"what":"weight","tensor":"blocks.0.attn.out.weight"'

# In steps so short that a check would take over 1 % of each, one in so many has it, as the header says.
case_begin "how often memory is checked in short steps"
train "${experiment[@]}" --steps 1 --out "$scratch/short" --restarts 0
every=$(sed -n 's/.*in every update, and after backward once in \([0-9]*\) steps.*/\1/p' "$scratch/out")
[ "${every:-0}" -gt 1 ] || fail "the header does not say it"
steps=$((every + 3))
train_spoiled "rank=0 step=$((every - 1)) place=moment tensor=mlp.in.weight flip=0x1"
expect_status 1
[ "$(steps_done)" -eq "$every" ] || fail "$(steps_done) steps, not $every"
expect_event '"event":"state","worker":0,"what":"moment1","tensor":"blocks.0.mlp.in.weight"'
train_spoiled "rank=0 step=$((every - 1)) place=moment tensor=mlp.in.weight flip=0x1" --check replicas
expect_status 1
expect_event '"event":"state","worker":0,"what":"moment1","first_element":0,"elements":2048,"tensor":"blocks.0.mlp.in.weight"'
steps=6

# Right before the update, when memory was checked: the update finds it. The default looks at memory in one of so many steps; the update of
# each step compares what it overwrites.
late='"event":"state","worker":%s,"what":"%s","first_element":0,"elements":2048,"tensor":"blocks.0.mlp.in.weight"'
for checks in '' '--check replicas' '--check state' '--precision bf16 --tp 2' '--precision fp16' '--numerics 1'; do
    # shellcheck disable=SC2086 # flags are words
    train_spoiled 'rank=0 step=2 place=late-moment tensor=mlp.in.weight flip=0x1' $checks
    expect_stopped
    # shellcheck disable=SC2059 # the pattern is a format
    expect_event "$(printf "$late" 0 moment1)"
    # shellcheck disable=SC2086
    train_spoiled 'rank=0 step=2 place=late-weight tensor=mlp.in.weight flip=0x1' $checks
    # shellcheck disable=SC2059
    expect_event "$(printf "$late" 0 weight)"
done
train_spoiled 'rank=0 step=2 place=late-weight tensor=mlp.in.weight flip=0x1' --check off
expect_status 0
expect_no_event
# At the very end there is no step that would tell it: it is not saved.
train_spoiled "rank=0 step=$((steps - 1)) place=late-weight tensor=mlp.in.weight flip=0x1"
expect_status 1
expect_event '"event":"state","worker":0,"what":"weight"'
# While a checkpoint is written, after memory has been checked for it: it is not published, neither in the background nor at the end of a run.
for flags in '--save-every 3' '--save-every 3 --save-mode stream' '--save-every 3 --dp 2 --zero 2 --precision bf16'; do
    # shellcheck disable=SC2086 # flags are words
    train_spoiled 'rank=0 step=2 place=saving flip=0x1' $flags
    expect_stopped
    expect_event '"event":"state","worker":0,"what":"weight"'
    expect_saved ''
done
train_spoiled "rank=0 step=$((steps - 1)) place=saving tensor=mlp.in.weight flip=0x1" --save-every 3
expect_status 1
expect_event '"event":"state","worker":0,"what":"weight"'
expect_saved 'step-000000003 '

# The copy that GEMMs read, which the next update would overwrite; and a weight that makes everything overflow.
train_spoiled 'rank=1 step=2 place=copy tensor=mlp.in.weight flip=0x1' --dp 2 --zero 1 --precision bf16 --check state
expect_stopped
expect_event '"event":"state","worker":1,"what":"copy","tensor":"blocks.0.mlp.in.weight"'
for precision in fp32 bf16; do
    train_spoiled 'rank=1 step=2 place=copy tensor=tied flip=0x1' --pp 2 --precision $precision --check state
    expect_stopped
    expect_event '"event":"state","worker":1,"what":"copy","tensor":"tokens.weight"'
done
train_spoiled 'rank=1 step=2 place=weight tensor=attn.norm.bias flip=0x40000000' --dp 4 --zero 0 --check state
expect_stopped
expect_event '"event":"state","worker":1,"what":"weight","tensor":"blocks.0.attn.norm.bias"'
# Along dp and along tp two disagree; one of them does with both.
train_spoiled 'rank=3 step=3 place=gradient tensor=mlp.norm.weight flip=0x400000' --dp 2 --tp 2 --zero 0
expect_stopped
expect_event '"event":"replica","workers":\[3\],"tensor":"blocks.0.mlp.norm.weight"'

# ---- audits ------------------------------------------------------------------------------------------------------------

train_spoiled 'rank=1 step=3 place=leaf tensor=blocks.1.mlp.in.weight flip=0x1' --dp 4 --audit 1
expect_weights "$final"
expect_event '"event":"audit","group":2,"owner":1,"auditor":0,"wrong":1,"persistent":false,"tensor":"blocks.1.mlp.in.weight"'
train_spoiled 'rank=2 step=3 place=product tensor=mlp.in.weight add=0.001 times=0' --dp 4 --audit 1 --zero 2
expect_stopped
expect_event '"event":"audit".*"wrong":2,"persistent":true'
expect_saved 'step-000000003 '
train_spoiled 'rank=1 step=3 place=product tensor=mlp.in.weight add=0.001 times=0' --dp 2 --audit 1
expect_event '"event":"audit".*"wrong":1,"persistent":true'
train_spoiled 'rank=0 step=3 place=product tensor=mlp.in.weight add=0.001 times=0' --dp 2 --audit 1
expect_event '"event":"audit".*"wrong":0,"persistent":true'
train_spoiled 'rank=0 step=3 place=product tensor=mlp.in.weight add=0.001' --audit 1
expect_weights "$final"
expect_event '"event":"audit".*"wrong":0,"persistent":false'
# A row of several workers: the one that erred, though its result is in the gradients of all.
train_spoiled 'rank=3 step=3 place=product tensor=mlp.in.weight add=0.001 times=0' --dp 2 --tp 2 --audit 1
expect_event '"event":"audit".*"wrong":3,"persistent":true'
train_spoiled 'rank=6 step=3 place=forward block=3 index=5 flip=0x400000' --dp 2 --tp 2 --pp 2 --audit 1 --sequence-parallel
expect_weights "$final"
expect_event '"event":"audit".*"wrong":6,"persistent":false'
train_spoiled 'rank=3 step=3 place=leaf flip=0x1' --dp 2 --pp 2 --schedule interleaved --audit 1
expect_weights "$final"
expect_event '"event":"audit".*"wrong":3,"persistent":false'
train_spoiled 'rank=1 step=3 place=backward block=2 index=5 set=nan' --dp 2 --audit 1
expect_weights "$final"
expect_event '"event":"non-finite","recurs":false,"worker":1'
# Uneven shares: a fault in any group is found, and the line of a step says how many groups were audited. Group g of the row of
# worker `rank` is the one after `skip` others.
uneven() { # group, rank, skip, flags…
    local group=$1 rank=$2 skip=$3
    shift 3
    train_spoiled "rank=$rank step=1 place=leaf tensor=blocks.1.mlp.in.weight skip=$skip flip=0x1" "$@" --audit 1
    expect_weights "$two"
    expect_event "\"event\":\"audit\",\"group\":$group,\"owner\":$rank,.*\"wrong\":$rank,\"persistent\":false"
    [ "$(grep -c '"audited":8' "$scratch/run/metrics.jsonl")" -eq 2 ] || fail "8 groups were not audited in each step"
    grep -q ' | 8 audited | ' "$scratch/out" || fail "the lines of steps do not say it"
}
steps=2
case_begin "clean, two steps"
train "${experiment[@]}" --steps $steps --out "$scratch/two"
expect_status 0
two=$(weights)
planted=(0:0:0 6:0:6 7:1:0)
[ "$TIER" = short ] || planted=(0:0:0 1:0:1 2:0:2 3:0:3 4:0:4 5:0:5 6:0:6 7:1:0)
for at in "${planted[@]}"; do
    IFS=: read -r group rank skip <<<"$at"
    uneven "$group" "$rank" "$skip" --shares 7,1 --dp 2
done
planted=(1:0:1 4:1:2 7:2:2)
[ "$TIER" = short ] || planted=(0:0:0 1:0:1 2:1:0 3:1:1 4:1:2 5:2:0 6:2:1 7:2:2)
for at in "${planted[@]}"; do
    IFS=: read -r group rank skip <<<"$at"
    uneven "$group" "$rank" "$skip" --dp 3
done
# Worker 0 errs in its last group, then in its first audit: that audit passes in the end, and those after it are still made.
train_spoiled 'rank=0 step=1 place=leaf tensor=blocks.1.mlp.in.weight skip=3 times=2 flip=0x1' --dp 2 --audit 1
expect_weights "$two"
expect_event '"event":"audit","group":4,"owner":1,"auditor":0,"wrong":0,"persistent":false'
expect_event '"event":"audit","group":3,"owner":0,"auditor":1,"wrong":0,"persistent":false'
steps=6

train_spoiled 'rank=9 step=3 place=leaf add=1' --dp 2 --tp 2 --pp 2 --audit 0.25 --check state
expect_weights "$final"
expect_no_event

# ---- outliers ----------------------------------------------------------------------------------------------------------

# The text is so regular that some groups stand out by themselves: the threshold is high.
steps=15
experiment+=(--outlier-threshold 12)
case_begin "clean, longer"
train "${experiment[@]}" --steps $steps --out "$scratch/longer" --on-outlier skip-group
longer=$(weights)
train_spoiled 'rank=1 step=13 place=backward block=1 index=3 add=1e8' --dp 4 --on-outlier skip-group
expect_weights "$longer"
expect_event '"event":"outlier","group":2,"worker":1,"first_sample":212,"samples":2,.*"recurs":false'
train_spoiled 'rank=1 step=13 place=backward block=1 index=3 add=1e8 times=0' --dp 4 --on-outlier skip-group
expect_status 0
expect_event '"event":"outlier","group":2,"worker":1,.*"angle_deg":[1-9].*"recurs":true,"action":"skip-group"'
expect_event '"step":14,.*"dropped":\[2\]'
skipped=$(weights)
train_spoiled 'rank=1 step=13 place=backward block=1 index=3 add=1e8 times=0' --dp 4 --on-outlier stop
expect_status 1
expect_event '"event":"outlier","group":2,"worker":1,.*"action":"stop"'
[ -n "$skipped" ] && [ "$skipped" != "$longer" ] || fail "leaving a group out changed nothing"
# A long gradient in fp16, under a scale that leaves no room for more: it is the same again when the group is computed alone.
train_spoiled 'rank=1 step=13 place=backward block=4 index=0 span=0.4999 times=0 add=30' --dp 4 --micro-batch 4 --precision fp16 --loss-scale 2^19 \
    --outlier-threshold 8 --on-outlier warn
expect_status 0
expect_event '"step":14,"event":"outlier","group":2,"worker":1,.*"recurs":true'
finished
