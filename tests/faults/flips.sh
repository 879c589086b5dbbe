#!/usr/bin/env bash
# flips.sh: one bit flips in the memory of a running worker, at a random time: of weights, of optimizer state, of the copies that matmuls read, and
# of gathered weights; with zero 0 to 3, in fp32, bf16, and fp16 whose loss scale overflows so that updates are skipped, and between stages. Each
# run ends with the bits of one in which nothing flipped, or with a named error; one that ends with other bits and reports nothing fails the test.
#
#     FLIPS=1000 SEED=1 tests/faults/flips.sh          the short tier flips 24 bits
#     TEST_DEVICE=cuda FLIPS=100 tests/faults/flips.sh         one worker on a GPU
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/../train/common.bash"
LOCKSTEP=$BUILD/tests/spoil/lockstep

flips=${FLIPS:-24} seed=${SEED:-1}
[ "$TIER" = short ] || flips=${FLIPS:-1000}
layouts=('' '--dp 2 --zero 0' '--dp 2 --zero 1' '--dp 2 --zero 2' '--dp 2 --zero 3' '--pp 2' '--tp 2')
experiment=(--model "$deep" --data "$text" --seq 11 --global-batch 16 --groups 8 --lr 0.01 --lr-schedule constant --eval-every 0 --threads 1
            --steps 24 --save-every 4 --check state)
precisions=(fp32 bf16 fp16)
flags_of() { # precision
    echo "--precision $1"
    # A scale that overflows again and again: about a third of the updates are skipped.
    [ "$1" != fp16 ] || echo "--loss-scale-initial 16777216 --loss-scale-window 2 --loss-scale-hysteresis 1"
}
if [ "$LS_DEVICE" != cpu ]; then layouts=(''); fi

declare -A hash
for precision in "${precisions[@]}"; do
    case_begin "nothing flips, $precision"
    # shellcheck disable=SC2046 # flags are words
    train "${experiment[@]}" $(flags_of "$precision") --out "$scratch/whole-$precision"
    expect_status 0
    hash[$precision]=$(weights)
    losses "$scratch/whole-$precision" >"$scratch/whole-$precision.losses"
done

declare -A count
for ((i = 0; i < flips; i++)); do
    n=$((seed * 1000003 + i))
    layout=${layouts[$((i / 3 % ${#layouts[@]}))]}
    precision=${precisions[$(((i / 3 + i / 3 / ${#layouts[@]}) % 3))]}
    places=(weight moment copy)
    [ "$layout" != '--dp 2 --zero 3' ] || places=(weight moment gathered)
    place=${places[$((i % 3))]}
    rank=0
    [ -z "$layout" ] || rank=$((n % 2))
    case_begin "flip $n of $place, rank $rank, $precision $layout"
    rm -rf "$scratch/run" "$scratch/log"
    # shellcheck disable=SC2046,SC2086 # flags are words
    LS_SPOIL="rank=$rank step=1 span=20 place=$place random=$n" LS_SPOIL_LOG=$scratch/log \
        train "${experiment[@]}" $(flags_of "$precision") --out "$scratch/run" $layout
    status=$?
    said=$(grep -c '"event"' "$scratch/run/metrics.jsonl")
    losses "$scratch/run" >"$scratch/run.losses"
    if [ ! -e "$scratch/log" ]; then
        how=none
    elif [ "$(weights)" = "${hash[$precision]}" ] && cmp -s "$scratch/run.losses" "$scratch/whole-$precision.losses"; then
        how=harmless
        [ "$said" -eq 0 ] || how=recovered
    elif grep -q 'memory corruption\|copies of .* differ\|is not the one\|damaged\|were not what' "$scratch/out" "$scratch/err" && ! weights | grep -q .; then
        how=ended
    else
        how=silent
        fail "another result: $(cat "$scratch/log"); $(weights) with status $status; $(grep event "$scratch/run/metrics.jsonl")"
        diff "$scratch/run.losses" "$scratch/whole-$precision.losses" | head -n 4
    fi
    count[$how]=$((${count[$how]:-0} + 1))
    count[$place-$how]=$((${count[$place-$how]:-0} + 1))
done
echo "$flips flips: ${count[recovered]:-0} found and recovered from, ${count[ended]:-0} found and the run ended, ${count[harmless]:-0} changed nothing," \
    "${count[none]:-0} came after the end, ${count[silent]:-0} silent"
for place in weight moment copy gathered; do
    echo "  $place: ${count[$place-recovered]:-0} recovered, ${count[$place-ended]:-0} ended, ${count[$place-harmless]:-0} without effect, ${count[$place-silent]:-0} silent"
done
finished
