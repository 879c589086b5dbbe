#!/usr/bin/env bash
# resume.sh: a run that was stopped in any way goes on to the very same bits, from any of its checkpoints, under any layout. What is
# another experiment is refused by the name of the field, and can be forked. KILLS=n sets the number of kills, SEED=n the draws.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

case "$TIER" in
long) at_steps=$(seq 1 50) kills=${KILLS:-100} ;;
*) at_steps='1 2 9 25 37 49' kills=${KILLS:-5} ;;
esac
RANDOM=${SEED:=$((${EPOCHREALTIME/[.,]/} % 30000))}
echo "$kills kills, seed $SEED"

# ---- an undisturbed run, with a checkpoint at every step ----------------------------------------------------------------

experiment=(--model "$gpt2" --data "$text" --steps 50 --seq 11 --global-batch 5 --lr 0.01 --dropout 0.1 --warmup 5 --eval-every 20)
whole=$scratch/whole
case_begin "the undisturbed run"
begin_ms=$(now_ms)
train "${experiment[@]}" --save-every 1 --keep 0 --out "$whole"
whole_ms=$(($(now_ms) - begin_ms))
expect_status 0
final=$(weights)
[ -n "$final" ] || { fail "no hash"; finished; }
losses "$whole" >"$scratch/whole.losses"
[ "$(cut -d' ' -f1 "$scratch/whole.losses" | tr '\n' ' ')" = "$(seq 1 50 | tr '\n' ' ')" ] || fail "not every step is in the metrics"
[ "$(steps_of "$whole" | wc -l)" -eq 50 ] || fail "there are not 50 checkpoints"

folder_of() { printf '%s/checkpoints/step-%09d' "$1" "$2"; }

# cut_back DIR STEP…: a copy of the run as it was with these checkpoints. Its metrics still tell of later steps, as after a kill.
cut_back() {
    local dir=$1 step
    shift
    rm -rf "$dir"
    mkdir -p "$dir/checkpoints"
    cp "$whole/identity.json" "$whole/config.json" "$whole/metrics.jsonl" "$dir"
    for step in "$@"; do cp -r "$(folder_of "$whole" "$step")" "$dir/checkpoints"; done
}

part=$scratch/part
layouts=('' '--micro-batch 1' '--micro-batch 2 --threads 1' '--threads 3' '--micro-batch 3 --isa portable')
turn=0
for step in $at_steps; do
    layout=${layouts[turn++ % ${#layouts[@]}]}
    case_begin "resume at step $step $layout"
    cut_back "$part" "$step"
    # shellcheck disable=SC2086 # flags are words
    train --resume --out "$part" --save-every 0 $layout
    expect_weights "$final"
    expect_losses "$part" "$scratch/whole.losses"
    expect_no_leftovers "$part"
done

case_begin "resume of a finished run"
train --resume --out "$part"
expect_weights "$final"
expect_losses "$part" "$scratch/whole.losses"

# ---- another experiment ------------------------------------------------------------------------------------------------

make_text 151 >"$scratch/other.txt"
refused() { # field, what is said of it, flags…
    local field=$1
    shift
    case_begin "resume with $*"
    train --resume --out "$part" "$@"
    expect_status 2
    expect_said "error: not the same experiment: (.*; )?$field is .* here and .* in the checkpoint"
    expect_said '\-\-fork'
}
cut_back "$part" 7
refused lr --lr 0.02
refused steps --steps 60
refused seed --seed 1
refused global-batch --global-batch 6
refused seq --seq 10
refused data --data "$scratch/other.txt"
refused dropout --dropout 0.2
refused groups --groups 2
refused optimizer --optimizer sgd
refused lr-schedule --lr-schedule linear
refused clip --clip 2
refused weight-decay --weight-decay 0.2
refused model.arch --model "$llama"
refused model.width --model tiny
case_begin "a refusal leaves the run as it was"
train --resume --out "$part"
expect_weights "$final"

constant=(--model "$gpt2" --data "$text" --seq 11 --global-batch 5 --lr-schedule constant --lr 0.01 --warmup 3)
case_begin "more steps with a constant schedule"
train "${constant[@]}" --steps 12 --out "$scratch/twelve"
expect_status 0
twelve=$(weights)
train "${constant[@]}" --steps 5 --out "$scratch/five"
train --resume --out "$scratch/five" --steps 12
expect_weights "$twelve"
case_begin "fewer steps than were done"
train --resume --out "$scratch/five" --steps 11
expect_status 2
expect_said 'the run is at step 12 already, and --steps 11 is the total, not the number of steps to add: use e.g. --steps 24$'

# ---- forks -------------------------------------------------------------------------------------------------------------

case_begin "a fork with nothing changed but its length goes on with the same bits"
train --fork "$(folder_of "$whole" 50)" "${experiment[@]:2}" --out "$scratch/no-fork"
expect_status 2
expect_said 'is at step 50 already'
train "${constant[@]}" --steps 7 --save-every 1 --out "$scratch/seven"
train --fork "$scratch/seven" --steps 12 --out "$scratch/fork"
expect_weights "$twelve"
grep -q '"step": 7' "$scratch/fork/parent.json" || fail "parent.json does not tell the step"
grep -q "\"path\": \"$scratch/seven\"" "$scratch/fork/parent.json" || fail "parent.json does not tell the path"

case_begin "a fork with another rate, batch and data"
train --fork "$scratch/seven" --steps 20 --lr 0.001 --global-batch 4 --data "$scratch/other.txt" --save-every 1 --keep 0 --out "$scratch/fork2"
expect_status 0
fork2=$(weights)
for field in lr global-batch data; do
    grep -q "\"field\": \"$field\"" "$scratch/fork2/parent.json" || fail "parent.json does not tell that $field changed"
done
[ "$(losses "$scratch/fork2" | head -n 1 | cut -d' ' -f1)" = 8 ] || fail "its first step is not 8"
case_begin "resume of a fork, at its beginning too"
for step in 7 15; do
    rm -rf "$part"
    mkdir -p "$part/checkpoints"
    cp "$scratch"/fork2/*.json* "$part"
    cp -r "$(folder_of "$scratch/fork2" $step)" "$part/checkpoints"
    train --resume --out "$part"
    expect_weights "$fork2"
done

case_begin "weights of another run to begin with, killed before the first checkpoint"
train --model "$scratch/seven" --data "$text" --seq 11 --global-batch 5 --steps 4 --out "$scratch/finetune"
expect_status 0
finetune=$(weights)
rm -rf "$scratch/finetune/checkpoints" "$scratch/finetune/metrics.jsonl"
train --resume --out "$scratch/finetune"
expect_weights "$finetune"
expect_said 'no checkpoint yet'

case_begin "what a kill inside a write leaves is removed"
: >"$scratch/finetune/identity.json.tmp-123-0"
train --resume --out "$scratch/finetune"
expect_weights "$finetune"
expect_no_leftovers "$scratch/finetune"

# ---- damage ------------------------------------------------------------------------------------------------------------

flip() { # file, byte
    local byte
    byte=$(od -An -tu1 -j "$2" -N 1 "$1")
    # shellcheck disable=SC2059 # the format is the byte
    printf "\\x$(printf %02x $((byte ^ 4)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}
damaged() { # what
    case_begin "newest checkpoint damaged: $1"
    train --resume --out "$part" --save-every 0
    expect_weights "$final"
    expect_said 'step 20 was skipped: .*continuing from step 19'
    [ -d "$(folder_of "$part" 20).aside" ] || fail "the damaged one was not put aside"
    expect_losses "$part" "$scratch/whole.losses"
}
newest=$(folder_of "$part" 20)
for name in weights.safetensors optimizer.safetensors state.json complete.json; do
    cut_back "$part" 18 19 20
    flip "$newest/$name" $(($(stat -c %s "$newest/$name") * 2 / 3))
    damaged "a bit of $name"
done
for name in weights.safetensors complete.json; do
    cut_back "$part" 18 19 20
    truncate -s -1 "$newest/$name"
    damaged "$name is short of a byte"
done
cut_back "$part" 19 20
rm "$newest/optimizer.safetensors"
damaged "optimizer.safetensors is gone"
cut_back "$part" 19 20
rm "$newest/complete.json"
damaged "no marker"

case_begin "no checkpoint is sound"
cut_back "$part" 19 20
for step in 19 20; do flip "$(folder_of "$part" $step)/weights.safetensors" 5000; done
train --resume --out "$part"
expect_status 2
expect_said 'none of the 2 checkpoints'

case_begin "a step that the folder's name does not tell"
cut_back "$part" 19
mv "$(folder_of "$part" 19)" "$(folder_of "$part" 21)"
cp -r "$(folder_of "$whole" 18)" "$part/checkpoints"
train --resume --out "$part"
expect_weights "$final"
expect_said 'step 21 was skipped'

# ---- signals -----------------------------------------------------------------------------------------------------------

for signal in TERM INT; do
    case_begin "SIG$signal"
    part=$scratch/signal-$signal
    start "${constant[@]}" --steps 1000000 --out "$part"
    await_steps "$part" 3 && kill -"$signal" "$child"
    reap
    case $signal in TERM) expect_status 143 ;; INT) expect_status 130 ;; esac
    done_steps=$(losses "$part" | wc -l)
    expect_said "^lockstep: stopped at step $done_steps, checkpoint saved; continue with: .*lockstep train --out $part --resume\$"
    grep -q "^step *$done_steps/1000000 " "$scratch/out" || fail "its last step, $done_steps, was not shown"
    [ "$(steps_of "$part")" = "$(printf 'step-%09d' "$done_steps")" ] || fail "the checkpoint is not that of its last step, $done_steps"
    grep -q '^done:' "$scratch/out" && fail "it says that it is done"
    train "${constant[@]}" --steps $((done_steps + 4)) --out "$part-whole"
    straight=$(weights)
    train --resume --out "$part" --steps $((done_steps + 4))
    expect_weights "$straight"
    losses "$part-whole" >"$scratch/straight.losses"
    expect_losses "$part" "$scratch/straight.losses"
done

case_begin "two runs in one folder"
part=$scratch/shared
start "${constant[@]}" --steps 1000000 --out "$part"
first=$child
if await_steps "$part" 1; then
    cp "$scratch/out" "$scratch/first.out"
    for flags in '--resume' ''; do
        # shellcheck disable=SC2086 # flags are words
        "$LOCKSTEP" train "${constant[@]}" --steps 1000000 --out "$part" $flags >"$scratch/second.out" 2>"$scratch/second.err"
        code=$?
        [ $code -eq 2 ] || fail "exit status $code, not 2"
        grep -q "is in use by process $first on " "$scratch/second.err" || fail "it does not name the process: $(cat "$scratch/second.err")"
    done
    is_alive "$first" || fail "the first has ended"
fi
kill -TERM "$child"
reap
expect_status 143

# ---- kill -9 -----------------------------------------------------------------------------------------------------------

# Each run is killed at a random moment of its life and taken up again, until it has ended; then the next begins.
killed=0
runs=0
while [ $killed -lt "$kills" ] && [ $runs -lt $((2 * kills)) ]; do
    part=$scratch/killed
    rm -rf "$part"
    runs=$((runs + 1))
    case_begin "kill -9, run $runs"
    status=1
    while [ $status -ne 0 ]; do
        flags=
        [ -e "$part/identity.json" ] && flags=--resume
        # shellcheck disable=SC2086 # flags are words
        start "${experiment[@]}" --save-every 1 --keep $((RANDOM % 4)) --out "$part" $flags
        if [ $killed -lt "$kills" ]; then
            delay_ms=$((RANDOM % (whole_ms + 1)))
            sleep "$(printf '%d.%03d' $((delay_ms / 1000)) $((delay_ms % 1000)))"
            if is_alive "$child"; then
                kill -KILL "$child"
                killed=$((killed + 1))
            fi
        fi
        reap
        if [ $status -ne 0 ] && [ $status -ne 137 ]; then
            fail "exit status $status after $killed kills"
            break
        fi
    done
    expect_weights "$final"
    expect_losses "$part" "$scratch/whole.losses"
    expect_no_leftovers "$part"
done
echo "$killed kills in $runs runs"
[ "$killed" -gt 0 ] || fail "no run lived long enough to be killed"
finished
