#!/usr/bin/env bash
# units.sh: the matrix units of NVIDIA's tensor cores: a GPU of each compute capability, played (tests/cuda), has the weights of its unit's formula on a
# CPU; one that computes otherwise is found, says what differs and takes chains. What `verify --unit` and `--version` tell.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"
played=$(cd "$BUILD" && pwd)/tests/cuda
[ -e "$played/libcuda.so.1" ] || { echo "skipped: $played/libcuda.so.1 is not built"; exit 77; }
if ldd "$LOCKSTEP" | grep -q libasan; then echo "skipped: not with sanitizers"; exit 77; fi

# Sums of 34 products, which are four granules of 8 and two of 16, none of them full.
echo '{"arch": "gpt2", "vocab": 300, "width": 34, "layers": 1, "heads": 2, "hidden": 42, "positions": 8}' >"$gpt2"
mkdir "$scratch/tokens"
"$LOCKSTEP" tokenize --tokenizer bytes --data "$text" --out "$scratch/tokens/t" >"$scratch/out" 2>"$scratch/err" || fail "tokenize failed"
experiment=(--model "$gpt2" --data "$scratch/tokens" --steps 1 --seq 5 --global-batch 2 --groups 2 --lr-schedule constant)

declare -A of_unit
for unit in hgmma ampere ada blackwell; do
    for type in bf16 fp16; do
        train "${experiment[@]}" --precision $type --matrix-unit $unit --out "$scratch/$unit-$type"
        of_unit[$unit-$type]=$(weights)
    done
done
case_begin "formulas"
[ "${of_unit[ampere-bf16]}" = "${of_unit[ada-bf16]}" ] && [ "${of_unit[ampere-fp16]}" = "${of_unit[ada-fp16]}" ] || fail "ada has other bits than ampere"
[ "${of_unit[hgmma-bf16]}" = "${of_unit[blackwell-bf16]}" ] && [ "${of_unit[hgmma-fp16]}" = "${of_unit[blackwell-fp16]}" ] || fail "blackwell has other bits than hgmma"
[ "${of_unit[hgmma-bf16]}" != "${of_unit[ampere-bf16]}" ] || fail "ampere has the bits of hgmma"

for gpu in '80 ampere' '86 ampere' '89 ada' '120 blackwell'; do
    unit=${gpu#* }
    on_gpu=(LD_LIBRARY_PATH="$played" LS_CUDA_CAPABILITY="${gpu% *}")
    for type in bf16 fp16; do
        [ $type = bf16 ] || [ "${gpu% *}" = 80 ] || continue
        case_begin "a GPU of compute capability ${gpu% *}, $type"
        env "${on_gpu[@]}" "$LOCKSTEP" train "${experiment[@]}" --precision $type --device cuda --out "$scratch/gpu" >"$scratch/out" 2>"$scratch/err"
        status=$?
        expect_weights "${of_unit[$unit-$type]}"
        grep -q "$type, matrix unit $unit," "$scratch/out" || fail "another matrix unit"
        rm -rf "$scratch/gpu"
    done
    case_begin "verify --unit, compute capability ${gpu% *}"
    env "${on_gpu[@]}" "$LOCKSTEP" verify --unit >"$scratch/out" 2>"$scratch/err"
    status=$?
    expect_status 0
    grep -q "^GPU 0: a CPU that plays a GPU, compute capability .*, matrix unit $unit, whose formula is a published one$" "$scratch/out" || fail "no line of the GPU"
    grep -Eq '^  fp16: [0-9]{4,} numbers compared, 0 differ$' "$scratch/out" || fail "no line of fp16"
done

spoiled=(LD_LIBRARY_PATH="$played" LS_CUDA_CAPABILITY=80 LS_SPOIL='rank=0 step=0 place=product tensor=ampere flip=1 times=0' "$BUILD/tests/spoil/lockstep")
case_begin "a GPU that computes otherwise takes chains"
env "${spoiled[@]}" train "${experiment[@]}" --precision bf16 --device cuda --out "$scratch/other" >"$scratch/out" 2>"$scratch/err"
status=$?
expect_status 0
grep -q 'bf16, matrix unit chain,' "$scratch/out" || fail "it does not take chains"
grep -q 'matrix unit chain, without tensor cores: those of GPU 0 do not compute by the formula of ampere: bf16: element 0, 0 of a product' "$scratch/err" || fail "it does not say why"
case_begin "verify --unit of a GPU that computes otherwise"
env "${spoiled[@]}" verify --unit --json >"$scratch/out" 2>"$scratch/err"
status=$?
expect_status 1
grep -q '"first": *"element 0, 0 of a product of 40' "$scratch/out" || fail "no first difference"
case_begin "verify --unit of measured tensor cores, and without a GPU"
env LD_LIBRARY_PATH="$played" "$LOCKSTEP" verify --unit --device cuda:0 >"$scratch/out" 2>"$scratch/err"
status=$?
expect_status 0
grep -q 'matrix unit hgmma, whose formula was measured$' "$scratch/out" || fail "no line of the GPU"
env LD_LIBRARY_PATH="$played" LS_CUDA_GPUS=0 "$LOCKSTEP" verify --unit >"$scratch/out" 2>"$scratch/err"
status=$?
expect_status 2
finished
