#!/usr/bin/env bash
# flips.sh: a bit of metrics.jsonl or config.json flips on disk: `bisect` accuses no step that was computed rightly, --resume goes on to the
# undisturbed hash and keeps what was damaged, and both say so. Files without checksums are read as they are.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

experiment=(--model "$gpt2" --data "$text" --seq 11 --global-batch 8 --lr 0.01 --lr-schedule constant --threads 1 --no-pin --eval-every 0 --save-every 3 --keep 0)
whole=$scratch/whole
case_begin "the undisturbed runs"
train "${experiment[@]}" --steps 8 --out "$whole"
expect_status 0
final=$(weights)
[ -n "$final" ] || { fail "no hash"; finished; }
losses "$whole" >"$scratch/whole.losses"
# The same one up to step 6, as a signal or a crash would leave it.
part=$scratch/part
cp -r "$whole" "$part"
rm -r "$part/checkpoints/step-000000008"
sed -i '/^{"step":[78],/d' "$part/metrics.jsonl"

# flip FILE TEXT BYTE BIT: in the first place of TEXT, the BYTE-th from its begin.
flip() {
    local found at old
    found=$(grep -obaF -m 1 -- "$2" "$1" | head -n 1)
    at=$((${found%%:*} + $3))
    old=$(od -An -tu1 -j "$at" -N 1 "$1")
    # shellcheck disable=SC2059 # the byte is the format
    printf "\\x$(printf %02x $((old ^ (1 << $4))))" | dd of="$1" bs=1 seek="$at" conv=notrunc status=none
}

bisect() {
    "$LOCKSTEP" bisect "$@" >"$scratch/out" 2>"$scratch/err"
    status=$?
}

# Of step 4: a digit of the hash of the state before, a digit of the loss, the step itself.
for place in '"state_before":" 16 0' '"loss_hex":"0x1. 16 0' '{"step":4 8 1'; do
    read -r at byte bit <<<"$place"
    line=$(grep -m 1 '^{"step":4,"loss"' "$whole/metrics.jsonl")
    flipped=$scratch/flipped
    rm -rf "$flipped"
    cp -r "$whole" "$flipped"
    sed -n '1,/^{"step":3,"loss"/p' "$flipped/metrics.jsonl" >"$scratch/head"
    echo "$line" >"$scratch/line"
    flip "$scratch/line" "$at" "$byte" "$bit"
    { cat "$scratch/head" "$scratch/line"; sed '1,/^{"step":4,"loss"/d' "$whole/metrics.jsonl"; } >"$flipped/metrics.jsonl"
    cmp -s "$flipped/metrics.jsonl" "$whole/metrics.jsonl" && fail "nothing was flipped"
    case_begin "a bit of $at flips: bisect"
    bisect "$flipped" "$whole"
    expect_status 0
    expect_said 'warning: .*flipped: metrics.jsonl has 1 damaged line, not compared here; --resume sets damaged lines aside$'
    bisect "$flipped" --from 0
    expect_status 0
    grep -q '^no difference$' "$scratch/out" || fail "it accuses a step"
    case_begin "a bit of $at flips: --resume auto"
    rm -rf "$scratch/run"
    cp -r "$part" "$scratch/run"
    { cat "$scratch/head" "$scratch/line"; sed '1,/^{"step":4,"loss"/d' "$part/metrics.jsonl"; } >"$scratch/run/metrics.jsonl"
    train "${experiment[@]}" --steps 8 --resume auto --out "$scratch/run"
    expect_weights "$final"
    expect_said 'metrics.jsonl: 1 line could not be read and was set aside in .*/metrics.jsonl.damaged-1'
    cmp -s "$scratch/line" "$scratch/run/metrics.jsonl.damaged-1" || fail "the line was not kept"
    losses "$scratch/run" | cmp -s - <(sed 4d "$scratch/whole.losses") || fail "other losses: $(losses "$scratch/run")"
done

# The value of an option, its name, the syntax, the name of the checksum.
for place in '"lr": 7 0' '"seed" 2 1' '"lr" 4 5' '"checksum" 2 0'; do
    read -r at byte bit <<<"$place"
    case_begin "a bit of $at in config.json flips"
    rm -rf "$scratch/run"
    cp -r "$part" "$scratch/run"
    flip "$scratch/run/config.json" "$at" "$byte" "$bit"
    cmp -s "$scratch/run/config.json" "$part/config.json" && fail "nothing was flipped"
    cp "$scratch/run/config.json" "$scratch/damaged"
    bisect "$scratch/run"
    expect_status 0
    expect_said 'config.json is damaged or was edited; the replay uses the options of its copy$'
    train --resume --out "$scratch/run"
    expect_weights "$final"
    expect_said 'config.json is damaged or was edited: the options are read from its copy; if you edited it, give the edited file with --config FILE$'
    expect_said 'config.json was set aside as .*/config.json.damaged-1$'
    cmp -s "$scratch/damaged" "$scratch/run/config.json.damaged-1" || fail "it was not kept"
    cmp -s "$scratch/run/config.json" "$scratch/run/config.json.copy" || fail "there are not two of it again"
done

case_begin "both are damaged: --resume auto has the command line, and bisect does not replay"
rm -rf "$scratch/run"
cp -r "$part" "$scratch/run"
flip "$scratch/run/config.json" '"lr":' 7 0
flip "$scratch/run/config.json.copy" '"lr":' 7 1
bisect "$scratch/run"
expect_status 2
expect_said 'cannot be replayed: its config.json is damaged or missing, and it has no sound copy$'
train "${experiment[@]}" --steps 8 --resume auto --out "$scratch/run"
expect_weights "$final"
expect_said 'its copy is damaged or missing too, so only the options of this command apply'

case_begin "files of an older version"
rm -rf "$scratch/run"
cp -r "$part" "$scratch/run"
rm "$scratch/run/config.json.copy"
sed -i 's/,"checksum":"[0-9a-f]*"}$/}/' "$scratch/run/metrics.jsonl"
sed -i -z 's/,\n  "checksum": "[0-9a-f]*"//' "$scratch/run/config.json"
! grep -q checksum "$scratch/run/metrics.jsonl" "$scratch/run/config.json" || fail "there are checksums"
bisect "$scratch/run" "$whole"
expect_status 0
train --resume --out "$scratch/run"
expect_weights "$final"
[ ! -s "$scratch/err" ] || ! grep -q 'damaged\|aside' "$scratch/err" || fail "something was taken for damaged"
expect_losses "$scratch/run" "$scratch/whole.losses"
finished
