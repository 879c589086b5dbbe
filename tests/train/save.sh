#!/usr/bin/env bash
# save.sh: checkpoints that are written while training goes on: the same bytes as those that it waits for, whatever the layout; damage is told by
# tensor; a disk that is full does not end a run; memory that is short is said.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

experiment=(--model "$gpt2" --data "$text" --steps 7 --seq 11 --global-batch 6 --lr 0.01 --eval-every 3 --save-every 2 --keep 0)
case_begin "training waits"
train "${experiment[@]}" --save-mode stream --out "$scratch/stream"
expect_status 0
final=$(weights)
grep -q 'training waited' "$scratch/out" && fail "it says that training went on"

shown() { grep -Eq -- "$1" "$scratch/out" || fail "it did not show '$1'"; }

same() { # name, options: the checkpoints have the same bytes as those of the first run
    local name=$1
    shift
    case_begin "$name"
    train "${experiment[@]}" "$@" --save-mode snapshot --out "$scratch/$name"
    expect_status 0
    expect_weights "$final"
    shown 'step 2 \| checkpoint saved in .* training waited'
    diff -r "$scratch/stream/checkpoints" "$scratch/$name/checkpoints" >"$scratch/diff" || fail "the checkpoints differ: $(head -3 "$scratch/diff")"
    expect_no_leftovers "$scratch/$name"
}
same alone
same dp --dp 3 --zero 1
same zero --dp 2 --zero 3
same grid --dp 2 --tp 2 --pp 2 --zero 2
LOCKSTEP=$BUILD/tests/spoil/lockstep same device --device fake --dp 2
for precision in bf16 fp16; do
    case_begin "$precision"
    train "${experiment[@]}" --precision $precision --matrix-unit chain --save-mode stream --out "$scratch/$precision-stream"
    train "${experiment[@]}" --precision $precision --matrix-unit chain --save-mode snapshot --dp 2 --zero 2 --out "$scratch/$precision"
    expect_status 0
    diff -r "$scratch/$precision-stream/checkpoints" "$scratch/$precision/checkpoints" >/dev/null || fail "the checkpoints differ"
done

if command -v mpirun >/dev/null; then
    case_begin "under MPI"
    mpirun --oversubscribe -n 2 "$LOCKSTEP" train "${experiment[@]}" --dp 2 --save-mode snapshot --out "$scratch/mpi" >"$scratch/out" 2>"$scratch/err" </dev/null
    status=$?
    expect_status 0
    shown 'step 2 \| checkpoint saved in .* training waited'
    diff -r "$scratch/stream/checkpoints" "$scratch/mpi/checkpoints" >/dev/null || fail "the checkpoints differ"
fi

case_begin "damage is told by tensor"
cp -r "$scratch/alone" "$scratch/damaged"
file=$scratch/damaged/checkpoints/step-000000007/optimizer.safetensors
printf '\377' | dd of="$file" bs=1 seek=$(($(stat -c %s "$file") - 3)) conv=notrunc 2>/dev/null
train "${experiment[@]}" --resume --out "$scratch/damaged"
expect_status 0
expect_said "step 7 was skipped: .*optimizer.safetensors is damaged in tensor '[^']*\.v': .*continuing from step 6"

case_begin "a file that cannot grow: the run goes on, says so each time, and ends with an error"
(
    trap '' XFSZ
    ulimit -f 200
    exec "$LOCKSTEP" train "${experiment[@]}" --save-mode snapshot --out "$scratch/full" </dev/null 2>&1
) | cat >"$scratch/out"
status=${PIPESTATUS[0]}
cp "$scratch/out" "$scratch/err"
expect_status 5
for step in 2 4 6; do
    expect_said "warning: the checkpoint of step $step could NOT be saved: .*File too large; training continues"
done
expect_said 'error: .*step-000000007.partial/.*File too large'
[ "$(grep -c '"loss"' "$scratch/full/metrics.jsonl")" -eq 7 ] || fail "not all steps were done"
expect_no_leftovers "$scratch/full"

case_begin "killed while checkpoints are written: an older one is there, and the run goes on to the same bits"
for try in 1 2 3; do
    rm -rf "$scratch/killed"
    start "${experiment[@]}" --save-every 1 --steps 200 --save-mode snapshot --dp 2 --out "$scratch/killed"
    await_steps "$scratch/killed" $((3 + 2 * try))
    kill -KILL "$child"
    reap
done
[ -n "$(steps_of "$scratch/killed")" ] || fail "there is no checkpoint"
last=$(steps_of "$scratch/killed" | tail -1)
train "${experiment[@]}" --steps 200 --save-every 0 --resume --out "$scratch/killed"
expect_status 0
killed=$(weights)
train "${experiment[@]}" --steps 200 --save-every 0 --out "$scratch/whole"
expect_weights "$killed"
[ "$last" != step-000000200 ] || fail "it was not killed"

case_begin "metrics in many files are one series, also to a run that goes on and to the doctor"
losses_of() { cat "$1"/metrics*.jsonl | sed -n 's/.*"step":\([0-9]*\),.*"loss_hex":"\([^"]*\)".*/\1 \2/p'; }
LS_FAULT_METRICS_BYTES=700 train "${experiment[@]}" --steps 40 --save-every 5 --out "$scratch/series"
expect_status 0
train "${experiment[@]}" --steps 40 --save-every 5 --out "$scratch/single"
losses_of "$scratch/single" >"$scratch/single.losses"
losses_of "$scratch/series" | cmp -s - "$scratch/single.losses" || fail "the series differs"
[ "$(find "$scratch/series" -name 'metrics-*.jsonl' | wc -l)" -gt 5 ] || fail "no file was set aside"
rm -rf "$scratch"/series/checkpoints/step-0000000[234]* "$scratch"/single/checkpoints/step-0000000[234]*
LS_FAULT_METRICS_BYTES=700 train "${experiment[@]}" --steps 40 --save-every 5 --resume --out "$scratch/series"
expect_status 0
losses_of "$scratch/series" | cmp -s - "$scratch/single.losses" || fail "the series differs after a resume"
"$LOCKSTEP" doctor "$scratch/series" >"$scratch/out" 2>&1 </dev/null || fail "the doctor failed: $(head -3 "$scratch/out")"
grep -q '40' "$scratch/out" || fail "the doctor does not see 40 steps"

case_begin "a dry run counts the copy: all of weights and moments, once"
train --model "$gpt2" --dry-run --json --steps 7 --seq 11 --global-batch 6
one=$(grep -o '"snapshot_bytes": *[0-9]*' "$scratch/out" | tail -1)
train --model "$gpt2" --dry-run --json --steps 7 --seq 11 --global-batch 6 --dp 2 --tp 2 --pp 2 --zero 1
[ -n "$one" ] && [ "$one" = "$(grep -o '"snapshot_bytes": *[0-9]*' "$scratch/out" | tail -1)" ] || fail "one worker $one, eight $(grep -o '"snapshot_bytes": *[0-9]*' "$scratch/out" | tail -1)"

# short WHAT FLAGS…: with LS_FAULT_SNAPSHOT=WHAT; training waits for every save, which has the same bytes.
short() {
    case_begin "no memory for a copy: $*"
    local what=$1
    shift
    rm -rf "$scratch/short"
    LS_FAULT_SNAPSHOT=$what train "${experiment[@]}" --out "$scratch/short" "$@"
}
streams() {
    expect_weights "$final"
    [ "$(grep -c "$1" "$scratch/err")" -eq 1 ] || fail "it did not say '$1' once"
    grep -q 'training waited' "$scratch/out" && fail "it says that training went on"
    shown 'step 2 \| checkpoint saved in [0-9.]* s$'
    diff -r "$scratch/stream/checkpoints" "$scratch/short/checkpoints" >/dev/null || fail "the checkpoints differ"
}
short 0:1000
streams 'a copy of what is saved does not fit into memory (.* of worker 0, .*): training waits while checkpoints are written'
short 1:1000 --dp 2 --tp 2 --zero 1
streams 'a copy of what is saved does not fit into memory (.*): training waits while checkpoints are written'
short 0:-1 --dp 2
streams 'out of memory for a copy of what is saved.*training waits'
short 1:-1 --dp 2 --zero 3
streams 'another worker has no memory for a copy of what is saved.*training waits'
short 0:1000 --dp 2 --save-mode snapshot
expect_status 5
expect_said '--save-mode snapshot: .*use --save-mode auto'

case_begin "a time between saves by what they cost"
train "${experiment[@]}" --save-every auto --mtbf 1 --out "$scratch/by-cost"
expect_status 0
grep -q '"every_s"' "$scratch/by-cost/metrics.jsonl" || fail "the metrics do not have it"

finished
