#!/usr/bin/env bash
# learning.sh: checks that image models learn the built-in drawings as docs/log/image-models.md says: LeNet with default options, ResNet-18 in few steps.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

if [ "$TIER" != long ]; then
    echo "in the long tier only"
    exit 77
fi

# learns PERCENT MODEL FLAGS…: more than so many of the 10,000 drawings to test with are right.
learns() {
    local least=$1 model=$2 right
    shift 2
    case_begin "$model $*"
    train --model "$model" "$@" --eval-every 0 --out "$scratch/$model"
    expect_status 0
    "$LOCKSTEP" eval --model "$scratch/$model" --json >"$scratch/out" 2>"$scratch/err" </dev/null
    status=$?
    expect_status 0
    right=$(sed -n 's/.*"accuracy":\([0-9.]*\).*/\1/p' "$scratch/out")
    echo "$model: ${right:-nothing} right"
    awk -v right="${right:-0}" -v least="$least" 'BEGIN { exit !(100 * right > least) }' || fail "accuracy $right, not above $least %"
}

learns 97 lenet
learns 98 resnet18 --steps 150 --global-batch 64 --lr 0.001
finished
