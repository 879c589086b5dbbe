#!/usr/bin/env bash
# rescue.sh: a worker is lost whose tensors are in device memory (tests/fake emulates it): the surviving workers copy their state to shared
# memory, and the state of the lost one comes from replicas and copies; without these the run restarts from its newest checkpoint, and says so.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

model=$deep
experiment=(--model "$model" --data "$text" --seq 11 --global-batch 8 --lr 0.01 --dropout 0.1 --warmup 5 --lr-schedule constant
            --threads 1 --steps 6 --eval-every 0 --sample-every 0 --save-every 2 --save-mode stream)
LOCKSTEP=$BUILD/tests/spoil/lockstep

case_begin "the undisturbed runs"
for kind in plain bf16; do
    case $kind in plain) more=() ;; bf16) more=(--precision bf16) ;; esac
    train "${experiment[@]}" --out "$scratch/whole-$kind" --restarts 0 "${more[@]}"
    expect_status 0
    eval "final_$kind=$(weights)"
    losses "$scratch/whole-$kind" >"$scratch/$kind.losses"
done

# lost KIND DEATHS OPTIONS…
lost() {
    local kind=$1 deaths=$2 final=final_$1 out=$scratch/lost
    shift 2
    case_begin "$deaths with $*"
    rm -rf "$out"
    LS_FAULT_POINT=$deaths train "${experiment[@]}" --device fake --out "$out" --restarts 9 "$@"
    expect_weights "${!final}"
    expect_losses "$out" "$scratch/$kind.losses"
}
from_others() {
    expect_said "the memory of worker $1 is lost; other workers supplied its part of the state"
    expect_said "the run goes on from step $2 "
    ! grep -q "goes back to its newest" "$scratch/err" || fail "it went back to a checkpoint"
}
from_checkpoint() {
    expect_said "the memory of worker $1 is lost, and no other worker has its part.*; the run goes back to its newest whole checkpoint"
    expect_said "goes on from step $2, which was saved"
}

# Replicas have all.
lost plain forward:1:3:0 --dp 2 --zero 0
from_others 1 3
lost plain commit:0:3:0 --dp 2 --zero 0
lost plain publish:1:3:0 --dp 2 --zero 0
from_others 1 4
lost bf16 stepped:2:3:0 --dp 3 --zero 0 --precision bf16
from_others 2 4
# Copies have what replicas have not.
lost plain forward:0:3:0 --dp 2 --zero 1 --state-copies 1
from_others 0 3
lost plain given:1:3:0 --dp 2 --zero 1 --state-copies 1
from_others 1 3
lost plain publish:1:3:0 --dp 2 --zero 2 --state-copies 1
from_others 1 4
lost plain publish:0:3:0 --dp 2 --zero 3 --state-copies 1
from_others 0 4
lost bf16 forward:1:3:0 --dp 2 --zero 2 --precision bf16 --state-copies 1
from_others 1 3
lost plain publish:1:3:0 --tp 2 --state-copies 1
from_others 1 4
lost plain forward:2:3:0 --tp 2 --pp 2 --state-copies 1
from_others 2 3
lost plain forward:3:3:0,publish:0:4:1 --dp 2 --pp 2 --zero 1 --state-copies 1
from_others 0 5
# A death while the state is put together again changes nothing.
lost plain publish:1:3:0,adopt:0:-1:1:5,ready:1:-1:2 --dp 2 --zero 1 --state-copies 1
from_others 1 4
# No worker has it.
lost plain forward:1:3:0 --dp 2 --zero 1
from_checkpoint 1 2
lost plain forward:0:3:0 --pp 2
from_checkpoint 0 2
lost plain forward:0:3:0
expect_said "saved no tensors: these were in device memory; the run goes back to its newest whole checkpoint"

case_begin "what is put together wrongly is refused"
rm -rf "$scratch/lost"
LS_FAULT_POINT=reduced:1:3:0 LS_SPOIL='rank=0 step=3 place=left tensor=weight block=0 index=5 flip=0x100000' train "${experiment[@]}" --device fake \
    --out "$scratch/lost" --dp 2 --zero 1 --state-copies 1
expect_weights "$final_plain"
expect_said "the state that workers saved after step 3 does not match the hash recorded in that step; the run goes back to its newest whole checkpoint"

case_begin "more workers, then fewer, on purpose"
LS_FAULT_INPUT=100 start "${experiment[@]}" --device fake --out "$scratch/resized" --dp 2 --zero 1
if await_steps "$scratch/resized" 1; then "$LOCKSTEP" resize "$scratch/resized" --workers 3 >/dev/null || fail "resize ended with $?"; fi
reap
expect_weights "$final_plain"
expect_said "with 3 workers, dp 3"
expect_losses "$scratch/resized" "$scratch/plain.losses"
! grep -q "goes back to its newest" "$scratch/err" || fail "it went back to a checkpoint"

# Running statistics are part of the state, and moments of theirs are not.
if [ "$TIER" = long ]; then
    echo '{"arch": "resnet18", "channels": 1, "image-height": 16, "image-width": 16, "small": true}' >"$scratch/images.json"
    experiment=(--model "$scratch/images.json" --steps 2 --global-batch 24 --groups 8 --lr 0.002 --eval-every 0 --threads 1 --save-every 0)
    train "${experiment[@]}" --out "$scratch/whole-images" --restarts 0
    final_images=$(weights)
    losses "$scratch/whole-images" >"$scratch/images.losses"
    lost images forward:1:1:0 --pp 2 --state-copies 1
    from_others 1 1
    lost images publish:0:1:0 --dp 2 --zero 1 --state-copies 1
    from_others 0 2
fi
finished
