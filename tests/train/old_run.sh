#!/usr/bin/env bash
# old_run.sh: runs that an older version began are resumed to the weights that that version reached.
#
# tests/data/old_run holds run directories that end after step 3 of 6: of version 0.1.0 (fp32, bf16 with two workers, an image model) and of
# 0.2.0 (a Llama with biases, fp16 whose loss scale falls, an MLP). weights.txt has the hash of the weights that the same program had after
# step 6. They are never regenerated: option
# names, members of the JSON files, identity fields and file formats that they hold stay readable.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

cp -r tests/data/old_run "$scratch/old"
cd "$scratch/old" || exit 1

while read -r name hash; do
    case_begin "$name, as it was"
    train --out "$name" --resume
    expect_weights "$hash"
done <weights.txt

for layout in '--dp 2 --zero 3' '--tp 2 --micro-batch 1' '--pp 2'; do
    case_begin "fp32 under another layout: $layout"
    rm -rf again
    cp -r fp32 again
    rm -rf again/checkpoints/step-000000006
    # shellcheck disable=SC2086 # the options are words
    train --out again --resume $layout
    expect_weights "$(sed -n 's/^fp32 //p' weights.txt)"
done

case_begin "a run that is over gives its weights again"
train --out fp32 --resume
expect_weights "$(sed -n 's/^fp32 //p' weights.txt)"

finished
