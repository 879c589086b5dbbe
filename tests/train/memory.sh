#!/usr/bin/env bash
# memory.sh: runs a small training, its resume, an evaluation, a generation, and several workers under valgrind: no uninitialized read, no write
# beyond a block, no leak. Long tier.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

if [ "$TIER" != long ]; then
    echo "valgrind is for the long tier"
    exit 77
fi
command -v valgrind >/dev/null || { echo "valgrind is not installed"; exit 77; }
if nm "$LOCKSTEP" 2>/dev/null | grep -q __asan_init; then
    echo "the address sanitizer is in the program: valgrind cannot run it"
    exit 77
fi

# checked ARGS…: one command under valgrind.
checked() {
    case_begin "valgrind lockstep $1 …"
    rm -f "$scratch"/valgrind.*
    valgrind -q --error-exitcode=97 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite --log-file="$scratch/valgrind.%p" \
        "$LOCKSTEP" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
    status=$?
    expect_status 0
    # Of this process, and of each worker.
    for log in "$scratch"/valgrind.*; do
        [ -s "$log" ] || continue
        fail "valgrind tells of errors"
        head -n 40 "$log"
    done
}

for model in "$gpt2" "$llama"; do
    for threads in 1 2; do
        out=$scratch/$(basename "$model" .json)-$threads
        checked train --model "$model" --data "$text" --steps 3 --seq 11 --global-batch 5 --micro-batch 2 --dropout 0.1 --eval-every 2 \
            --sample-every 3 --max-tokens 15 --save-every 1 --keep 2 --threads $threads --out "$out" --lr-schedule constant
        checked train --resume --out "$out" --steps 4
    done
    checked eval --model "$out" --data "$text" --seq 20
    checked generate --model "$out" --prompt 'line 1' --max-tokens 30
done
checked train --fork "$out" --out "$scratch/fork" --steps 5 --lr 0.1

# Layouts: every kind of sharding, both kinds of tensor parallelism, stages whose weight gradients come later. The search for leaks reads
# all that is mapped, and so would bring every page of the shared heaps into being: they must be small.
layout() {
    local model=$1
    shift
    n=$((${n:-0} + 1))
    checked train --model "$model" --data "$text" --steps 2 --seq 11 --global-batch 5 --micro-batch 1 --dropout 0.1 --eval-every 2 \
        --threads 1 --lr-schedule constant --shm-heap 16MiB --timeout 20min --out "$scratch/layout-$n" "$@"
}
layout "$gpt2" --dp 2 --zero 1 --pp 2
layout "$llama" --dp 2 --zero 3 --recompute full
layout "$gpt2" --tp 2 --sequence-parallel --recompute selective
layout "$llama" --dp 2 --zero 2 --pp 2 --schedule zero-bubble
checked train --resume --out "$scratch/layout-1" --steps 3 --shm-heap 16MiB --dp 1 --pp 1 --tp 2
finished
