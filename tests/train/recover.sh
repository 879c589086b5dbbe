#!/usr/bin/env bash
# recover.sh: a worker is lost and the run goes on by itself, to the weights and losses of an undisturbed run, whatever
# the worker was doing. Deaths come from failpoints (src/base/fault.h), POINT:RANK:STEP:ATTEMPT[:COUNT], so that each is where it
# is meant to be.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

model=$deep
experiment=(--model "$model" --data "$text" --seq 11 --global-batch 8 --lr 0.01 --dropout 0.1 --warmup 5 --lr-schedule constant
            --threads 1 --steps 6 --eval-every 2 --sample-every 0 --save-every 3)

case_begin "the undisturbed runs"
for kind in plain bf16 numerics; do
    case $kind in plain) more=() ;; bf16) more=(--precision bf16) ;; numerics) more=(--numerics 2) ;; esac
    train "${experiment[@]}" --out "$scratch/whole-$kind" --restarts 0 "${more[@]}"
    expect_status 0
    eval "final_$kind=$(weights)"
    losses "$scratch/whole-$kind" >"$scratch/$kind.losses"
done

# lose KIND RESTARTS DEATHS OPTIONS…
lose() {
    local kind=$1 restarts=$2 deaths=$3 final=final_$1 out=$scratch/lost
    shift 3
    case_begin "$deaths with $*"
    rm -rf "$out"
    LS_FAULT_POINT=$deaths train "${experiment[@]}" --out "$out" --restarts 9 "$@"
    expect_weights "${!final}"
    [ "$(grep -c 'the run goes on\|the run starts again' "$scratch/err")" -eq "$restarts" ] || fail "not $restarts restarts"
    expect_losses "$out" "$scratch/$kind.losses"
    [ "$(grep -c '"val_loss"' "$out/metrics.jsonl")" -eq 3 ] || fail "not three evaluations in the metrics"
    [ -e "$out/checkpoints/step-000000006/complete.json" ] || fail "no checkpoint at the end"
}

await_said() {
    local end=$(($(now_ms) + 30000))
    while ! grep -q "$1" "$scratch/err"; do
        if [ "$(now_ms)" -gt $end ] || ! is_alive "$child"; then
            fail "it did not say '$1'"
            return 1
        fi
        sleep 0.01
    done
}

# Every place of a step, of what follows it, and of recovery.
lose plain 1 start:1:-1:0 --dp 2
lose plain 1 forward:1:2:0 --dp 2 --tp 2
lose plain 1 reduced:0:2:0 --dp 2 --zero 2
lose plain 1 commit:1:2:0 --dp 2
lose plain 1 update:0:3:0:7
lose plain 1 update:2:3:0:4 --dp 2 --pp 2 --zero 3
lose plain 1 publish:1:4:0 --dp 3
lose plain 1 stepped:0:3:0 --tp 2
lose plain 1 evaluate:1:3:0:2 --dp 2 --zero 3
lose plain 1 save:0:2:0 --dp 2
lose plain 1 saved:1:2:0 --dp 2
lose bf16 1 update:1:3:0:9 --dp 2 --precision bf16
lose numerics 1 update:0:3:0:9 --dp 2 --numerics 2
# Rank 0, which writes the metrics, is behind: the others have done all that followed the step, and go on to the next one.
lose plain 1 stepped:0:0:0:1:stop,forward:1:1:0 --dp 2 --zero 0 --check off
lose plain 1 commit:0:0:0:1:stop,forward:2:1:0 --dp 3 --zero 0 --check off
# Deaths while the run is put together again.
lose plain 4 update:1:3:0:3,finish:0:-1:1:2,adopt:1:-1:2:5,ready:0:-1:3 --dp 2 --zero 1

case_begin "a place that fails twice is left out, and the run goes on with fewer workers"
rm -rf "$scratch/lost"
LS_FAULT_POINT=forward:3:1:0,update:3:2:1:2,publish:2:4:2 train "${experiment[@]}" --out "$scratch/lost" --restarts 9 --dp 2 --tp 2
expect_weights "$final_plain"
expect_losses "$scratch/lost" "$scratch/plain.losses"
expect_said "with 2 workers, dp 1 × tp 2"

case_begin "where no whole set of tp and pp is left, the largest layout that is legal; with a spare place, the same one"
rm -rf "$scratch/lost"
LS_FAULT_POINT=forward:1:1:0,forward:1:2:1 train "${experiment[@]}" --out "$scratch/lost" --restarts 9 --tp 2
expect_weights "$final_plain"
expect_said "goes on from step 2 with 1 worker, dp 1 × tp 1 × pp 1"
rm -rf "$scratch/lost"
LS_FAULT_POINT=forward:1:1:0,forward:1:2:1 train "${experiment[@]}" --out "$scratch/lost" --restarts 9 --tp 2 --spares 1
expect_weights "$final_plain"
[ "$(grep -c 'the run goes on from step [12] (restart' "$scratch/err")" -eq 2 ] || fail "the spare place was not used"

case_begin "fewer workers"
rm -rf "$scratch/lost"
LS_FAULT_POINT=forward:1:1:0,update:1:2:1:2 train "${experiment[@]}" --out "$scratch/lost" --restarts 9 --dp 2
expect_weights "$final_plain"
LS_FAULT_POINT=forward:2:1:0,update:2:2:1:2,publish:2:3:2 train "${experiment[@]}" --out "$scratch/fewer" --restarts 9 --dp 3
expect_weights "$final_plain"
expect_said "goes on from step [0-9]+ with 2 workers, dp 2"
expect_losses "$scratch/fewer" "$scratch/plain.losses"

case_begin "more workers, then fewer, on purpose; one of them is stopped when it has left"
LS_FAULT_POINT=leave:1:-1:0:1:stop LS_FAULT_INPUT=100 start "${experiment[@]}" --out "$scratch/resized" --dp 2
if await_steps "$scratch/resized" 1; then
    "$LOCKSTEP" resize "$scratch/resized" --workers 4 >/dev/null || fail "resize ended with $?"
    await_said "with 4 workers, dp 4"
    "$LOCKSTEP" resize "$scratch/resized" --workers 1 >/dev/null || fail "resize ended with $?"
fi
reap
expect_weights "$final_plain"
expect_said "goes on from step [1-5] with 1 worker"
expect_losses "$scratch/resized" "$scratch/plain.losses"
"$LOCKSTEP" resize "$scratch/resized" --workers 2 >/dev/null 2>"$scratch/err" && fail "a run that is over was resized"
expect_said "no run is active"

case_begin "a worker that is stopped after the end delays no other"
LS_FAULT_POINT=end:1:-1:-1:1:stop train "${experiment[@]}" --out "$scratch/over" --dp 2
expect_weights "$final_plain"
[ "$(grep -c 'restart' "$scratch/err")" -eq 0 ] || fail "something was done again"

case_begin "the same step fails twice, on different workers"
LS_FAULT_POINT=forward:1:2:0,forward:0:2:1 train "${experiment[@]}" --out "$scratch/twice" --restarts 9 --dp 2
expect_status 3
expect_said "another worker was lost in the same step, 3"

case_begin "a place may fail any number of times; what recoveries took tells the goodput"
# A worker that has reduced a gradient has heard from the other, which has then recorded the step before.
LS_FAULT_POINT=reduced:1:1:0,reduced:1:2:1,reduced:1:4:2 train "${experiment[@]}" --out "$scratch/often" --restarts 9 --place-losses 0 --dp 2
expect_weights "$final_plain"
[ "$(grep -c 'the run goes on' "$scratch/err")" -eq 3 ] || fail "not three restarts"
grep -q 'with 1 worker' "$scratch/err" && fail "a place was left out"
"$LOCKSTEP" plan --recovery "$scratch/often" --mtbf 3 >"$scratch/out" || fail "plan ended with $?"
grep -q '^recovery .*(mean of 3) ' "$scratch/out" || fail "not three recoveries: $(cat "$scratch/out")"
grep -q '^goodput   [1-9][0-9.]* % with a failure every 3 h; [1-9][0-9.]* % if the half step that 100 % of the failures lose is included' "$scratch/out" || fail "no goodput: $(cat "$scratch/out")"
"$LOCKSTEP" plan --recovery "$scratch/whole-plain" --mtbf 3 >"$scratch/out" 2>"$scratch/err" && fail "a run without losses has a recovery"
expect_said "lost no worker"

case_begin "restarts that are used up"
LS_FAULT_POINT=forward:1:3:0,forward:0:4:1,forward:1:5:2 train "${experiment[@]}" --out "$scratch/used" --restarts 2 --dp 4
expect_status 3
expect_said "the run has gone on 2 times, as often as --restarts allows"
train --resume --out "$scratch/used"
expect_weights "$final_plain"
finished
