#!/usr/bin/env bash
# bisect.sh: states have the same hash under every layout; bits that flip in live memory are noticed before they are trained on, or found
# afterwards by lockstep bisect.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"
program=$LOCKSTEP
LOCKSTEP=$BUILD/tests/spoil/lockstep

model=$deep
experiment=(--model "$model" --data "$text" --seq 11 --global-batch 16 --groups 8 --lr 0.01 --eval-every 0 --steps 8 --save-every 3 --keep 0 --restarts 0)
hashes() { grep -o '"state_before":"[0-9a-f]*"' "$1/metrics.jsonl"; }
bisect() {
    "$program" bisect "$@" >"$scratch/out" 2>"$scratch/err"
    status=$?
}
expect_out() { grep -Eq -- "$1" "$scratch/out" || fail "no line '$1'"; }

case_begin "clean"
train "${experiment[@]}" --out "$scratch/one"
expect_status 0
[ "$(hashes "$scratch/one" | sort -u | wc -l)" -eq 8 ] || fail "not 8 hashes"
for layout in "--dp 2 --zero 0" "--dp 2 --zero 1" "--dp 2 --zero 3" "--tp 2" "--pp 2" "--dp 2 --tp 2 --zero 2"; do
    case_begin "clean $layout"
    rm -rf "$scratch/other"
    # shellcheck disable=SC2086
    train "${experiment[@]}" --out "$scratch/other" $layout
    [ "$(hashes "$scratch/other")" = "$(hashes "$scratch/one")" ] || fail "other hashes"
    bisect "$scratch/one" "$scratch/other"
    [ "$status" -eq 0 ] || fail "bisect: exit status $status"
done
case_begin "a replay"
bisect "$scratch/one"
[ "$status" -eq 0 ] || fail "bisect: exit status $status"
expect_out '^compared: steps 4 to 8'
bisect "$scratch/one" --from 0
expect_out '^compared: steps 1 to 8'
[ -z "$(find "$scratch/one" -name 'bisect-*')" ] || fail "the replay is still there"

case_begin "a run whose only checkpoint is that of its last step is replayed from its beginning"
train "${experiment[@]}" --out "$scratch/short" --save-every 0
bisect "$scratch/short"
[ "$status" -eq 0 ] || fail "bisect: exit status $status"
expect_out '^compared: steps 1 to 8, by state hashes in 8 of them$'
expect_out '^no difference$'
bisect "$scratch/short" --json
expect_out '"from": 0'
expect_out '"compared": 8'

case_begin "where nothing was compared, there is no verdict"
bisect "$scratch/short" --from 8
[ "$status" -eq 2 ] || fail "bisect: exit status $status"
grep -q 'nothing was compared: no recorded step follows step 8, .*--from 0 replays' "$scratch/err" || fail "no reason"
! grep -q 'no difference' "$scratch/out" || fail "an all-clear"
mkdir "$scratch/empty"
sed '/"loss"/d' "$scratch/short/metrics.jsonl" >"$scratch/empty/metrics.jsonl"
cp "$scratch/short/config.json" "$scratch/empty"
bisect "$scratch/short" "$scratch/empty"
[ "$status" -eq 2 ] || fail "bisect: exit status $status"
! grep -q 'no difference' "$scratch/out" || fail "an all-clear"

case_begin "without hashes it says what it cannot tell"
train "${experiment[@]}" --out "$scratch/unhashed" --check off
bisect "$scratch/unhashed" --from 0
[ "$status" -eq 0 ] || fail "bisect: exit status $status"
expect_out '^no hashes were recorded \(--check off, or an older version\), so only losses were compared: they do not show damaged optimizer state'
train "${experiment[@]}" --out "$scratch/another" --check off --lr 0.011
bisect "$scratch/unhashed" "$scratch/another"
[ "$status" -eq 1 ] || fail "bisect: exit status $status"
expect_out '^first difference: the loss of step [0-9]+; without hashes the tensor is unknown'

# flip WHAT FLAGS…
flip() {
    case_begin "$*"
    local how=$1
    shift
    rm -rf "$scratch/run"
    LS_SPOIL=$how train "${experiment[@]}" --out "$scratch/run" "$@"
}
# A wrong gradient is in no sum: the states that follow from it differ.
flip 'rank=1 step=4 place=gradient tensor=blocks.1.mlp.in.weight index=3 flip=0x10000' --dp 2 --zero 1 --check replicas
expect_status 0
bisect "$scratch/run"
[ "$status" -eq 1 ] || fail "bisect: exit status $status"
expect_out '^first difference: the state after step 5$'
expect_out '^tensors that differ:'

# Every kind of tensor, bits from the lowest to the sign, in every precision: none gets into a step.
bits=(0x1 0x80 0x4000 0x400000 0x20000000 0x80000000)
n=0
for precision in fp32 bf16; do
    for place in weight moment copy; do
        [ "$precision $place" = "fp32 copy" ] && continue
        for layout in "" "--dp 2 --zero 0" "--dp 2 --zero 3"; do
            [ "$place $layout" = "copy --dp 2 --zero 3" ] && continue
            bit=${bits[n++ % ${#bits[@]}]}
            [ "$place" = copy ] && bit=$((1 << (n % 15)))
            rank=0
            [ "$layout" = "--dp 2 --zero 3" ] && rank=1 # which has the MLP's part of a block
            # shellcheck disable=SC2086
            flip "rank=$rank step=3 place=$place tensor=mlp.in.weight index=$((n * 7)) flip=$bit" $layout --precision $precision --check state
            expect_status 1
            [ "$(grep -c '"loss"' "$scratch/run/metrics.jsonl")" -eq 4 ] || fail "$(grep -c '"loss"' "$scratch/run/metrics.jsonl") steps, not 4"
            grep -q '"event":"state"' "$scratch/run/metrics.jsonl" || fail "no event"
        done
    done
done
finished
