#!/usr/bin/env bash
# dry_run.sh: checks that `train --dry-run` predicts the memory of every worker of a layout to the byte, and creates no folder.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

tied=$scratch/tied.json
untied=$scratch/untied.json
echo '{"arch": "gpt2", "vocab": 259, "width": 40, "layers": 5, "heads": 5, "hidden": 71, "positions": 24}' >"$tied"
echo '{"arch": "llama", "vocab": 263, "width": 40, "layers": 5, "heads": 10, "kv-heads": 5, "head-size": 8, "hidden": 44,
       "positions": 24, "tied": false}' >"$untied"

# One number a line, by worker.
dry_bytes() { grep -o '"bytes":[0-9]*,"kinds"' "$1" | grep -o '[0-9]*'; }
run_bytes() { sed -n 's/.*"arena_bytes":\[\([0-9,]*\)\].*/\1/p' "$1" | tr ',' '\n'; }

# same MODEL FLAGS…: the dry run's bytes are the run's.
same() {
    local model=$1 workers
    shift
    case_begin "$(basename "$model" .json) $*"
    local run=(--model "$model" --data "$text" --tokenizer bytes --steps 1 --seq 13 --global-batch 11 --eval-every 0 --threads 1)
    train "${run[@]}" --json --out "$scratch/run" "$@" --dry-run
    expect_status 0
    [ -e "$scratch/run" ] && fail "the dry run made a folder"
    dry_bytes "$scratch/out" >"$scratch/dry"
    train "${run[@]}" --json --out "$scratch/run" "$@"
    expect_status 0
    run_bytes "$scratch/out" >"$scratch/used"
    workers=$(wc -l <"$scratch/used")
    [ "$workers" -ge 1 ] || fail "the run tells no bytes"
    cmp -s "$scratch/dry" "$scratch/used" || fail "the dry run says $(tr '\n' ' ' <"$scratch/dry"), the run $(tr '\n' ' ' <"$scratch/used")"
    rm -rf "$scratch/run"
}

same "$tied" --micro-batch 3
same "$untied" --recompute full --micro-batch 11
same "$tied" --dp 2 --zero 0 --micro-batch 2
same "$tied" --dp 3 --zero 1 --micro-batch 2
same "$untied" --dp 3 --zero 2 --micro-batch 1
same "$tied" --dp 2 --zero 3 --micro-batch 1
same "$untied" --dp 4 --zero 3 --micro-batch 2 --recompute full
same "$untied" --dp 2 --shares 1,7 --zero 1 --micro-batch 3
same "$tied" --tp 2 --micro-batch 4
same "$untied" --tp 4 --micro-batch 4 --sequence-parallel
same "$untied" --tp 2 --pp 2 --micro-batch 2 --keep-activations
same "$tied" --tp 4 --sequence-parallel --recompute selective --micro-batch 11 --loss-chunk 3
same "$tied" --pp 2 --micro-batch 2
same "$untied" --pp 3 --micro-batch 2 --schedule gpipe
same "$tied" --pp 3 --micro-batch 3 --schedule naive
same "$untied" --pp 2 --schedule interleaved --virtual-stages 3 --micro-batch 2
same "$tied" --pp 4 --schedule zero-bubble --micro-batch 1
same "$tied" --dp 2 --tp 2 --pp 2 --micro-batch 2 --sequence-parallel
same "$untied" --dp 2 --pp 2 --zero 3 --schedule zero-bubble --micro-batch 1 --recompute full
same "$tied" --dp 3 --tp 2 --zero 2 --micro-batch 1 --recompute selective
same "$untied" --dp 2 --pp 3 --zero 1 --shares 5,3 --schedule interleaved --micro-batch 1

# In other types, too.
same "$tied" --dp 3 --zero 1 --micro-batch 2 --precision bf16 --reduce-dtype bf16
same "$untied" --dp 2 --zero 3 --micro-batch 1 --precision fp16 --numerics 1
same "$tied" --tp 2 --pp 2 --micro-batch 2 --precision bf16 --recompute selective
same "$untied" --tp 4 --micro-batch 4 --sequence-parallel --precision fp16
same "$tied" --dp 2 --zero 2 --micro-batch 1 --precision bf16 --no-master-weights --accumulate-dtype bf16

# logits FLAGS…: their bytes, after those of gradients, of a model whose memory is largest in the head.
wide=$scratch/wide.json
echo '{"arch": "gpt2", "vocab": 4000, "width": 8, "layers": 1, "heads": 1, "hidden": 8, "positions": 24}' >"$wide"
logits() {
    train --model "$wide" --data "$text" --tokenizer bytes --steps 1 --seq 13 --global-batch 12 --groups 4 --micro-batch 12 --json --dry-run "$@"
    expect_status 0
    grep -o '"gradients":[0-9]*\|"logits":[0-9]*' "$scratch/out" | tr '\n' ' '
}
case_begin "--loss-chunk: so many sequences have logits, and halves of the groups need no more gradients"
[[ $(logits) =~ gradients\":([0-9]+).*logits\":([0-9]+) ]] || fail "the dry run says nothing of logits"
gradients=${BASH_REMATCH[1]} whole=${BASH_REMATCH[2]}
[[ $(logits --loss-chunk 6) =~ gradients\":([0-9]+).*logits\":([0-9]+) ]] || fail "the dry run says nothing of logits"
[ "${BASH_REMATCH[1]}" = "$gradients" ] || fail "gradients of ${BASH_REMATCH[1]} bytes, not $gradients"
[ "$((2 * BASH_REMATCH[2]))" = "$whole" ] || fail "logits of ${BASH_REMATCH[2]} bytes, not half of $whole"
[[ $(logits --loss-chunk 100) =~ logits\":$whole ]] || fail "more than a micro-batch is not the whole of it"

# What people read: equal workers share a line, and there is a table of what a step sends and a line on the schedule.
case_begin "text"
even=$scratch/even.json
echo '{"arch": "llama", "vocab": 256, "width": 32, "layers": 6, "heads": 4, "kv-heads": 4, "hidden": 64, "positions": 24}' >"$even"
train --model "$even" --data "$text" --seq 16 --global-batch 8 --dp 2 --tp 2 --pp 2 --micro-batch 2 --dry-run
expect_status 0
for part in '^layout +dp 2 × tp 2 × pp 2' '^worker +tensors' '^0-[0-9]' '^all workers: tensors [0-9]+ bytes' '^dp +reduce-scatter +[0-9]+ +[0-9]+' \
    '^tp +all-reduce' '^pp +send' '^world +all-reduce' '^schedule 1f1b: .* predicted bubble [0-9.]+ %' '^1 +[0-9]+ +[0-9.]+ %'; do
    grep -Eq -- "$part" "$scratch/out" || fail "there is no line '$part'"
done

# Which numbers are kept in which type; nothing but one line where all are fp32.
grep -Eq '^types +fp32$' "$scratch/out" || fail "types of fp32 are no line of their own"
grep -q 'master weights' "$scratch/out" && fail "there are master weights in fp32"
case_begin "types of bf16"
train --model "$even" --data "$text" --seq 16 --global-batch 8 --dp 2 --precision bf16 --reduce-dtype bf16 --dry-run
expect_status 0
for part in '^types +bf16; matrix unit chain, same bits on every CPU' '^numbers +type +why' '^weights in products +bf16' '^master weights +fp32' '^activations +bf16' \
    '^residual stream +fp32' '^softmax, norms, loss +fp32' '^weight gradients +fp32' '^leaves on the wire +bf16' '^optimizer state +fp32' \
    '^worker +tensors +parameters +16-bit parameters'; do
    grep -Eq -- "$part" "$scratch/out" || fail "there is no line '$part'"
done
case_begin "types of fp16, as JSON"
train --model "$even" --data "$text" --seq 16 --global-batch 8 --precision fp16 --dry-run --json
expect_status 0
grep -q '"types":{"precision":"fp16","matrix_unit":"chain","kept":\[{"what":"weights in products","type":"fp16","why":"' "$scratch/out" || fail "no types"
finished
