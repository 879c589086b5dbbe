#!/usr/bin/env bash
# early_stop.sh: checks which checkpoints are saved and kept, and when evaluations end a run: --save-every, --keep, --early-stop.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

# So high a rate that the validation loss soon falls no more.
experiment=(--model "$gpt2" --data "$text" --seq 11 --global-batch 4 --steps 40 --lr 0.3 --lr-schedule constant --warmup 0 --eval-every 1 --eval-batches 1)
validation() { sed -n 's/^{"step":\([0-9]*\),"val_loss":\([0-9.]*\),.*/\1 \2/p' "$1/metrics.jsonl"; }
best_of() { validation "$1" | sort -g -k 2 -k 1,1 | head -n 1 | cut -d' ' -f1; }
expect_best() { [ "$(cat "$1/checkpoints/best" 2>/dev/null)" = "$(printf 'step-%09d' "$2")" ] || fail "the best is not step $2: $(cat "$1/checkpoints/best")"; }
expect_steps() { # dir, steps…
    local dir=$1
    shift
    [ "$(steps_of "$dir" | tr '\n' ' ')" = "$(printf 'step-%09d ' "$@")" ] || fail "checkpoints: $(steps_of "$dir" | tr '\n' ' '), not $*"
}

case_begin "three evaluations in a row without a lower loss end the run"
whole=$scratch/whole
train "${experiment[@]}" --early-stop 3 --save-every 1 --keep 0 --out "$whole"
expect_status 0
final=$(weights)
stop=$(validation "$whole" | tail -n 1 | cut -d' ' -f1)
best=$(best_of "$whole")
[ "$stop" -lt 40 ] && [ "$best" -eq $((stop - 3)) ] || fail "it stopped at step $stop, the best is $best"
grep -q "^step $stop | stopped early: 3 evaluations in a row without a lower validation loss than [0-9.]* at step $best (--early-stop 3)" "$scratch/out" ||
    fail "it does not say so"
[ "$(steps_of "$whole" | wc -l)" -eq "$stop" ] || fail "it did not save every step"
expect_best "$whole" "$best"

case_begin "the same where it is killed between the best evaluation and the end, and resumed with other workers"
part=$scratch/part
mkdir -p "$part/checkpoints"
cp "$whole"/*.json* "$part"
cp -r "$(printf '%s/checkpoints/step-%09d' "$whole" $((stop - 1)))" "$(printf '%s/checkpoints/step-%09d' "$whole" "$best")" "$part/checkpoints"
train --resume --out "$part" --keep 1 --dp 2
expect_weights "$final"
expect_steps "$part" "$best" "$stop"
expect_best "$part" "$best"

case_begin "a run that stopped early stays so, and goes on when asked to"
train --resume --out "$part"
expect_weights "$final"
grep -q "^step $stop | stopped early" "$scratch/out" || fail "it does not say so"
train --resume --out "$part" --early-stop 0 --steps $((stop + 1))
expect_status 0
[ "$(losses "$part" | tail -n 1 | cut -d' ' -f1)" -eq $((stop + 1)) ] || fail "it did not go on"

case_begin "checkpoints by time, two kept and the best, with the same weights"
train "${experiment[@]}" --early-stop 3 --save-every 0.000001ms --save-mode stream --dp 2 --out "$scratch/time"
expect_weights "$final"
[ "$(grep -c '| checkpoint saved in' "$scratch/out")" -eq "$stop" ] || fail "it did not save every step"
expect_steps "$scratch/time" "$best" $((stop - 1)) "$stop"
expect_best "$scratch/time" "$best"

case_begin "long before ten minutes have passed, only the end and what early stopping needs is saved"
train "${experiment[@]}" --out "$scratch/plain"
expect_status 0
expect_steps "$scratch/plain" 40
train "${experiment[@]}" --early-stop 3 --out "$scratch/default"
expect_weights "$final"
expect_steps "$scratch/default" "$best" "$stop"
expect_best "$scratch/default" "$best"
train "${experiment[@]}" --early-stop 3 --save-every 0 --out "$scratch/end"
expect_weights "$final"
expect_steps "$scratch/end" "$stop"

case_begin "lower losses between checkpoints are saved at most ten times as often"
train "${experiment[@]}" --steps 11 --save-every 25 --keep 0 --out "$scratch/tenth"
expect_status 0
for step in $(steps_of "$scratch/tenth" | sed 's/step-0*//'); do
    [ $((step - ${before:-0})) -ge 2 ] || [ "$step" -eq 11 ] || fail "step $step was saved $((step - ${before:-0})) steps after another"
    before=$step
done
[ "$(steps_of "$scratch/tenth" | wc -l)" -ge 2 ] || fail "none was saved"
finished
