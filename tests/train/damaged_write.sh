#!/usr/bin/env bash
# damaged_write.sh: a bit of a checkpoint is flipped on its way to the disk (tests/spoil), under one worker and under several: the
# checksum is that of the bytes in memory, so the damage is found when the run is resumed, and the checkpoint before it is used.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

experiment=(--model "$gpt2" --data "$text" --seq 11 --global-batch 4 --steps 2 --lr 0.01 --eval-every 0)

case_begin "clean"
train "${experiment[@]}" --save-every 1 --out "$scratch/clean"
expect_status 0
final=$(weights)
bytes() { stat -c %s "$scratch/clean/checkpoints/step-000000002/$1"; }

# damaged FILE BYTE FLAGS…: in the last checkpoint.
damaged() {
    local file=$1 byte=$2 out=$scratch/run
    shift 2
    case_begin "byte $byte of $file $*"
    rm -rf "$out"
    LS_SPOIL_WRITE="step-000000002.partial/$file:$byte" train_spoiled "${experiment[@]}" --save-every 1 --out "$out" "$@"
    expect_weights "$final"
    cmp -s "$scratch/clean/checkpoints/step-000000002/$file" "$out/checkpoints/step-000000002/$file" && fail "nothing was damaged"
    train --resume --out "$out"
    expect_weights "$final"
    expect_said "step 2 was skipped: .*/$file is damaged.*continuing from step 1"
}
train_spoiled() {
    "$BUILD/tests/spoil/lockstep" train "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
    status=$?
}

damaged weights.safetensors $(($(bytes weights.safetensors) * 2 / 3))
damaged optimizer.safetensors $(($(bytes optimizer.safetensors) / 2)) --dp 2
damaged weights.safetensors $(($(bytes weights.safetensors) / 2)) --dp 2 --tp 2
if [ "$TIER" = long ]; then
    damaged optimizer.safetensors $(($(bytes optimizer.safetensors) - 1))
    damaged weights.safetensors $(($(bytes weights.safetensors) - 1)) --dp 2 --zero 0
    damaged weights.safetensors $(($(bytes weights.safetensors) / 3)) --tp 2 --sequence-parallel
    damaged optimizer.safetensors $(($(bytes optimizer.safetensors) / 3)) --dp 2 --tp 2
    damaged weights.safetensors $(($(bytes weights.safetensors) / 4)) --dp 2 --pp 2 --zero 3
fi
finished
