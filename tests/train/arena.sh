#!/usr/bin/env bash
# arena.sh: checks that the memory of blocks has not changed: compares `--dry-run` of models of every family under twenty layouts
# with the table in tests/data/arena.txt. A row: the flags, and for all workers together the bytes of arenas, of activations, of scratch
# and of logits. A change that means to take other memory writes its table with `tests/train/arena.sh --write`.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

table=$(dirname "$0")/../data/arena.txt

# Sums over the workers.
total() { grep -o "$1\":[0-9]*" "$scratch/out" | awk -F: '{sum += $NF} END {print sum + 0}'; }

row() {
    local data=()
    [[ $1 =~ (tiny|llama) ]] && data=(--data "$text")
    # shellcheck disable=SC2086 # flags are words
    train --json --dry-run --threads 1 --steps 1 --eval-every 0 "${data[@]}" $1
    expect_status 0
    echo "$1: $(total '"worker":[^}]*"bytes') $(total '"activations') $(total '"scratch') $(total '"logits')"
}

if [ "${1:-}" = --write ]; then
    sed 's/:.*//' "$table" >"$scratch/flags"
    while read -r flags; do row "$flags"; done <"$scratch/flags" >"$table"
    exit 0
fi

count=0
while read -r line; do
    flags=${line%%:*}
    case_begin "$flags"
    found=$(row "$flags")
    [ "$found" = "$line" ] || fail "arenas, activations, scratch and logits take${found#*:} bytes, not${line#*:}"
    count=$((count + 1))
done <"$table"
[ "$count" -ge 20 ] || fail "the table has $count rows"
