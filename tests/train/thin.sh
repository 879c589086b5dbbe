#!/usr/bin/env bash
# thin.sh: --keep-metrics: earlier files of metrics are thinned while a run goes on, or when it is resumed; weights, evaluations and events
# are as without it, what reads a run reads these, and --resume goes back into them.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

export LS_FAULT_METRICS_BYTES=12000
experiment=(--model "$gpt2" --data "$text" --seq 11 --global-batch 8 --lr 0.01 --lr-schedule constant --threads 1 --no-pin --eval-every 30
            --eval-batches 1 --save-every 150 --keep 0 --numerics 50)
evaluations() { cat "$1"/metrics*.jsonl | sed -n 's/^{"step":\([0-9]*\),"val_loss":.*"val_loss_hex":"\([^"]*\)".*/\1 \2/p'; }
all_losses() { cat "$1"/metrics*.jsonl | sed -n 's/^{"step":\([0-9]*\),"loss":.*"loss_hex":"\([^"]*\)".*/\1 \2/p'; }
# Whether every step of the first is in the second, and that one has more.
is_part() { [ -z "$(comm -23 <(sort "$1") <(sort "$2"))" ] && [ "$(wc -l <"$1")" -lt "$(wc -l <"$2")" ]; }

case_begin "without it"
train "${experiment[@]}" --steps 330 --out "$scratch/whole"
expect_status 0
final=$(weights)
[ -n "$final" ] || { fail "no hash"; finished; }
all_losses "$scratch/whole" >"$scratch/whole.losses"
[ "$(wc -l <"$scratch/whole.losses")" -eq 330 ] || fail "not all steps"
evaluations "$scratch/whole" >"$scratch/whole.evaluations"

case_begin "while the run goes on"
train "${experiment[@]}" --steps 330 --keep-metrics 1 --out "$scratch/thin"
expect_weights "$final"
all_losses "$scratch/thin" >"$scratch/thin.losses"
is_part "$scratch/thin.losses" "$scratch/whole.losses" || fail "other steps: $(wc -l <"$scratch/thin.losses")"
for step in 100 200 300 330; do grep -q "^$step " "$scratch/thin.losses" || fail "step $step is gone"; done
evaluations "$scratch/thin" | cmp -s - "$scratch/whole.evaluations" || fail "other evaluations"
files=("$scratch"/thin/metrics-*.jsonl)
[ "$(grep -l '"thinned":100' "${files[@]}" | wc -l)" -eq $((${#files[@]} - 1)) ] || fail "not all but one of ${#files[@]} files were thinned"
expect_no_leftovers "$scratch/thin"

case_begin "what reads a run reads it"
"$LOCKSTEP" bisect "$scratch/thin" "$scratch/whole" >"$scratch/out" 2>"$scratch/err"
status=$?
expect_status 0
grep -q '^no difference$' "$scratch/out" || fail "a difference"
"$LOCKSTEP" doctor "$scratch/thin" --json >"$scratch/out" 2>"$scratch/err"
status=$?
expect_status 0
grep -q '"last_step":330,"damaged_lines":0' "$scratch/out" || fail "the doctor reads: $(cut -c1-200 "$scratch/out")"

case_begin "of a run that is resumed, from a step in a thinned file"
cp -r "$scratch/whole" "$scratch/later"
rm -r "$scratch"/later/checkpoints/step-000000300 "$scratch"/later/checkpoints/step-000000330
train --resume --keep-metrics 1 --out "$scratch/later"
expect_weights "$final"
grep -q '"thinned":100' "$scratch"/later/metrics-*.jsonl || fail "nothing was thinned"
train --resume --keep-metrics 1 --out "$scratch/later"
expect_weights "$final"
cp -r "$scratch/thin" "$scratch/back"
rm -r "$scratch"/back/checkpoints/step-000000300 "$scratch"/back/checkpoints/step-000000330
train --resume --keep-metrics 1 --out "$scratch/back"
expect_weights "$final"
all_losses "$scratch/back" >"$scratch/back.losses"
is_part "$scratch/back.losses" "$scratch/whole.losses" || fail "other steps"
[ "$(cut -d' ' -f1 "$scratch/back.losses" | sort -n | uniq -d | wc -l)" -eq 0 ] || fail "a step is there twice"
evaluations "$scratch/back" | cmp -s - "$scratch/whole.evaluations" || fail "other evaluations"
finished
