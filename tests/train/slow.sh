#!/usr/bin/env bash
# slow.sh: a worker that stays slow (LS_FAULT_SLOW) loses groups while the run goes on, and the weights are those of an undisturbed
# run; given shares do not change. In the long tier: also with ZeRO 3, and a sound
# run on loaded cores keeps its shares.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

experiment=(--model "$gpt2" --data "$text" --seq 11 --global-batch 16 --groups 8 --lr 0.01 --eval-every 0 --save-every 0 --threads 1 --steps 160)
case_begin "undisturbed"
train "${experiment[@]}" --out "$scratch/whole"
expect_status 0
final=$(weights)
losses "$scratch/whole" >"$scratch/whole.losses"

shares() { sed -n 's/.*"restart":1,.*"shares":\[\([0-9,]*\)\].*/\1/p' "$1/metrics.jsonl"; }

layouts=('--dp 2')
[ "$TIER" != long ] || layouts+=('--dp 2 --zero 3')
for layout in "${layouts[@]}"; do
    case_begin "the second of two replicas is slow, $layout"
    rm -rf "$scratch/slow"
    # shellcheck disable=SC2086 # flags are words
    LS_FAULT_SLOW=1:600 LS_FAULT_SHARES=0.01 train "${experiment[@]}" --out "$scratch/slow" $layout
    expect_weights "$final"
    expect_losses "$scratch/slow" "$scratch/whole.losses"
    expect_said 'replica 1 is the slowest, with .* per gradient group.*; the run goes on from step [0-9]+ with dp 2'
    found=$(shares "$scratch/slow")
    [ "${found#*,}" -lt 4 ] || fail "the shares are ${found:-as before}"
done

case_begin "shares that were given"
LS_FAULT_SLOW=1:600 LS_FAULT_SHARES=0.01 train "${experiment[@]}" --out "$scratch/given" --dp 2 --shares 4,4
expect_weights "$final"
! grep -q 'sets the pace' "$scratch/err" || fail "they were changed"

if [ "$TIER" = long ]; then
    case_begin "a sound run on loaded cores"
    loops=()
    for ((i = 0; i < 2 * $(nproc); i++)); do
        (while :; do :; done) &
        loops+=($!)
    done
    start "${experiment[@]}" --steps 1000000 --dp 2 --out "$scratch/loaded"
    sleep 60
    kill -TERM "$child"
    reap
    kill "${loops[@]}"
    wait "${loops[@]}" 2>/dev/null
    expect_status 143
    [ "$(grep -c 'sets the pace' "$scratch/err")" -le 1 ] || fail "$(grep -c 'sets the pace' "$scratch/err") new layouts in a minute"
fi
finished
