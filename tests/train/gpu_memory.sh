#!/usr/bin/env bash
# gpu_memory.sh: checks that a worker on a GPU (emulated by the libcuda of the tests) has one block of memory, with the kernels' scratch inside, of the
# size that --dry-run predicts, and that a run that does not fit is refused before the first step, with the option to change.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"
played=$(cd "$BUILD" && pwd)/tests/cuda
[ -e "$played/libcuda.so.1" ] || { echo "skipped: $played/libcuda.so.1 is not built"; exit 77; }
# The sanitizers' own library would have to come first.
if ldd "$LOCKSTEP" | grep -q libasan; then echo "skipped: not with sanitizers"; exit 77; fi

tiny=(--steps 1 --seq 19 --global-batch 4 --groups 4 --device cuda --json)

# The numbers of a member, one for each worker, in their order.
numbers() { grep -o "\"$1\":[0-9]*" | sed 's/.*://'; }

# same MODEL FLAGS…
same() {
    case_begin "as the dry run says: ${*:2}"
    local model=$1 all lists counters=
    shift
    # No GPU is needed to know.
    "$LOCKSTEP" train --model "$model" --data "$text" "${tiny[@]}" "$@" --dry-run >"$scratch/out" 2>"$scratch/err" || fail "exit status $?"
    sed 's/{"worker"/\n&/g' "$scratch/out" | grep '^{"worker"' | sed 's/"kinds".*//' | numbers bytes >"$scratch/said"
    rm -f "$scratch/count"
    LS_CUDA_COUNT=$scratch/count LD_LIBRARY_PATH=$played train --model "$model" --data "$text" "${tiny[@]}" "$@" --out "$scratch/gpu"
    expect_status 0
    rm -rf "$scratch/gpu"
    sed 's/.*"arena_bytes":\[\([0-9,]*\)\].*/\1/; s/,/\n/g' "$scratch/out" >"$scratch/took"
    [ -s "$scratch/said" ] || fail "the dry run says nothing"
    cmp -s "$scratch/said" "$scratch/took" || fail "said $(tr '\n' ' ' <"$scratch/said"), took $(tr '\n' ' ' <"$scratch/took")"
    [ "$(numbers scratch_outside_arena_bytes <"$scratch/out" | sort -u)" = 0 ] || fail "scratch beside the arena: $(numbers scratch_outside_arena_bytes <"$scratch/out")"
    # Beside it: lists, and for each of several workers 1 KiB of counters.
    [ "$(wc -l <"$scratch/took")" = 1 ] || counters=1024
    [ "$(numbers collectives_bytes <"$scratch/out" | sort -u)" = "${counters:=0}" ] || fail "not $counters bytes: $(numbers collectives_bytes <"$scratch/out")"
    lists=$(numbers lists_bytes <"$scratch/out" | head -n 1)
    while read -r all; do echo $((all + lists + counters)); done <"$scratch/took" | sort >"$scratch/all"
    sort "$scratch/count" | cmp -s - "$scratch/all" || fail "the driver was asked for $(tr '\n' ' ' <"$scratch/count")bytes, not $(tr '\n' ' ' <"$scratch/all")"
}

same "$gpt2"
same "$gpt2" --micro-batch 1 --recompute full
same "$gpt2" --dp 2 --zero 3 --precision bf16
same "$gpt2" --pp 2 --keep-activations --precision bf16
same "$gpt2" --dp 3 --precision bf16 --reduce-dtype bf16 # sums of two types need scratch
same "$gpt2" --dp 3 --zero 2
same "$llama" --tp 2 --pp 2 --dropout 0.1
same "$llama" --micro-batch 2 --audit 0.5 --numerics 1
same "$llama" --loss-chunk 1

# once COMMAND FLAGS…: two pieces of memory are asked for, the block and that for lists: a third would fail. The same is printed as on the CPU.
once() {
    case_begin "one block of memory: $1"
    "$LOCKSTEP" "$@" --device cpu >"$scratch/right" 2>"$scratch/err" </dev/null || fail "exit status $?"
    LS_CUDA_FAULT=cuMemAlloc:2:3 LD_LIBRARY_PATH=$played "$LOCKSTEP" "$@" --device cuda >"$scratch/out" 2>"$scratch/err" </dev/null || fail "exit status $?"
    diff <(sed "s/ scored in.*//" "$scratch/right") <(sed "s/ scored in.*//" "$scratch/out") >/dev/null || fail "it is not that of the CPU"
}
train --model "$gpt2" --data "$text" --steps 1 --seq 19 --global-batch 1 --groups 1 --out "$scratch/small"
head -n 3 "$text" >"$scratch/few.txt"
once eval --model "$scratch/small" --data "$scratch/few.txt" --seq 19
once generate --model "$scratch/small" --prompt 'line' --max-tokens 4 --temperature 0

# refused TEXT MEMORY FLAGS…
refused() {
    case_begin "refused: $1"
    LS_CUDA_MEMORY=$2 LD_LIBRARY_PATH=$played train --model "$gpt2" --data "$text" "${tiny[@]}" "${@:3}" --out "$scratch/gpu"
    expect_status 5
    expect_said "$1"
    expect_said 'use a smaller --micro-batch, --recompute full, a higher --zero'
    [ ! -e "$scratch/gpu/metrics.jsonl" ] || fail "it had begun"
    rm -rf "$scratch/gpu"
}
refused 'cuda:0 has 2[0-9]\.[0-9] MiB of memory free, and 1 worker on it needs 32\.' 30000000
refused 'cuda:0 has 5[0-9]\.[0-9] MiB of memory free, and 2 workers on it need 6' 60000000 --dp 2
case_begin "two GPUs have room for both"
LS_CUDA_GPUS=2 LS_CUDA_MEMORY=60000000 LD_LIBRARY_PATH=$played train --model "$gpt2" --data "$text" "${tiny[@]}" --dp 2 --out "$scratch/gpu"
expect_status 0

# Scratch for the slices of the head would be more than products may have: they are made half by half.
case_begin "a large micro-batch of a large model has a dry run"
"$LOCKSTEP" train --model gpt2-1558m --data "$text" --tokenizer bytes --steps 1 --seq 1024 --global-batch 512 --micro-batch 512 --device cuda \
    --dry-run >"$scratch/out" 2>"$scratch/err" || fail "exit status $?"
finished
