#!/usr/bin/env bash
# hgmma.sh: training with the matrix unit of Hopper GPUs, by its formula on a CPU: the weights are those of the constants below in every layout, and a
# GPU has the same (TEST_DEVICE=cuda). What users are told of the unit.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

# Weights after the runs below: docs/reference/arithmetic.md fixes them.
declare -A golden=(
    [gpt2-bf16]=f84389415efa34646c07b71d7ed749fb
    [gpt2-fp16]=240bf9c30ce6acb5c30a7e7e7e6b4c7e
    [plain-bf16]=832d0face0a9ba32e51121ec88c49f53
    [llama-bf16]=0c0e526cb8874a7e6dfc55329e5b3fdd
    [llama-fp16]=28fad81ff8c99032eed11857bcf8ce51
    [dropped-bf16]=12525deee3bc1a4a4fd641519c6457c5
    [dropped-fp16]=16d49f98584af543c2921d27f13518a5
)

# Vocabularies that are no multiple of 64, rows of 16-bit numbers that are no multiple of 16 bytes; tied and not, grouped heads; sequences longer than a
# block of keys and than a block of tokens.
echo '{"arch": "gpt2", "vocab": 333, "width": 36, "layers": 2, "heads": 3, "hidden": 50, "positions": 24}' >"$gpt2"
echo '{"arch": "llama", "vocab": 300, "width": 24, "layers": 1, "heads": 4, "kv-heads": 2, "head-size": 8, "hidden": 28, "positions": 160}' >"$llama"

# A model with another vocabulary than bytes has no tokenizer of its own.
mkdir "$scratch/tokens"
"$LOCKSTEP" tokenize --tokenizer bytes --data "$text" --out "$scratch/tokens/t" >"$scratch/out" 2>"$scratch/err" || fail "tokenize failed"

n=0
# same NAME FLAGS…: a run of the experiment NAME with flags that must not matter.
same() {
    local name=$1
    shift
    n=$((n + 1))
    case_begin "$name $*"
    [ "${name#*-}" = bf16 ] || set -- "$@" --loss-scale-initial 1024
    train "${experiment[@]}" --precision "${name#*-}" --matrix-unit hgmma --data "$scratch/tokens" --lr 0.01 --out "$scratch/run-$n" "$@"
    expect_weights "${golden[$name]}"
}

for type in bf16 fp16; do
    experiment=(--model "$gpt2" --steps 2 --seq 13 --global-batch 7 --dropout 0.1)
    more same gpt2-$type
    same gpt2-$type --dp 2 --zero 3 --micro-batch 1
    same gpt2-$type --tp 2 --sequence-parallel --micro-batch 3 --loss-chunk 2
    more same gpt2-$type --loss-chunk 3
    more same gpt2-$type --pp 2 --recompute full
    same gpt2-$type --pp 2 --keep-activations --micro-batch 2
    if [ $type = bf16 ]; then # without dropout blocks do some of the work of their neighbours
        experiment=(--model "$gpt2" --steps 2 --seq 24 --global-batch 5)
        more same plain-$type
        more same plain-$type --pp 2 --micro-batch 2
        more same plain-$type --keep-activations --dp 2 --zero 3
        same plain-$type --keep-activations --pp 2 --schedule zero-bubble --micro-batch 1
        same plain-$type --recompute full --zero 3 --dp 2
    fi
    experiment=(--model "$llama" --steps 1 --seq 150 --global-batch 2)
    more same llama-$type --micro-batch 1
    same llama-$type --dp 2 --tp 2
    same llama-$type --tp 2 --keep-activations --loss-chunk 1
    experiment+=(--dropout 0.2) # a GPU has kernels of its own for it
    more same dropped-$type --micro-batch 1
    same dropped-$type --dp 2 --tp 2
done
finished
