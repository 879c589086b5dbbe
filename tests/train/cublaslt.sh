#!/usr/bin/env bash
# cublaslt.sh: products by a libcublasLt of the tests, on a GPU that a CPU plays (tests/cuda): taken where it has our bits, and not else; without it, or
# with one that lacks a call, our own kernels make all products, which --version says.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"
played=$(cd "$BUILD" && pwd)/tests/cuda
[ -e "$played/libcublasLt.so.13" ] || { echo "skipped: $played/libcublasLt.so.13 is not built"; exit 77; }
# The sanitizers' own library would have to come first.
if ldd "$LOCKSTEP" | grep -q libasan; then echo "skipped: not with sanitizers"; exit 77; fi

# products HOW FOLDERS: the test of products with the library that is found there.
products() {
    case_begin "products: $1, libraries of $2"
    LS_TEST_CUDA=1 LS_TEST_LT=$1 LD_LIBRARY_PATH=$2 "$BUILD/tests/unit/test_library" >"$scratch/out" 2>&1 || fail "$(grep -E 'ERROR|LINE' "$scratch/out" | head -n 3)"
}
products plays "$played"
products none "$played/without:$played"

# version TEXT FOLDERS
version() {
    case_begin "--version: $1"
    LD_LIBRARY_PATH=$2 "$LOCKSTEP" --version >"$scratch/out" 2>"$scratch/err" </dev/null || fail "exit status $?"
    grep -Eq -- "^cuBLASLt   $1" "$scratch/out" || fail "not so: $(grep cuBLASLt "$scratch/out")"
}
version '13\.0\.1$' "$played"
version 'no \(all products by our own kernels: libcublasLt has no cublasLtMatmulAlgoGetHeuristic' "$played/without:$played"

# A run with it has the weights that the CPU has, and audits compare it with our own kernels.
tiny=(--model "$gpt2" --data "$text" --steps 1 --seq 4 --global-batch 1 --groups 1 --precision bf16 --matrix-unit hgmma --audit 1)
case_begin "a run with products of the library"
train "${tiny[@]}" --device cpu --out "$scratch/cpu"
right=$(weights)
XDG_CACHE_HOME=$scratch/cache LS_CUBLASLT=always LS_LT_PLAYS=equal LD_LIBRARY_PATH=$played train "${tiny[@]}" --device cuda --out "$scratch/gpu"
expect_weights "$right"
ls "$scratch/cache/lockstep/cuda/"products-* >/dev/null 2>&1 || fail "no file of choices"
finished
