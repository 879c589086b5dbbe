#!/usr/bin/env bash
# build.sh: checks for which GPUs `make` compiles kernels if nvcc is installed (tools/cuda-sms), with a fake nvcc and nvidia-smi and the
# libcuda that emulates a GPU; its messages about that; and that its lines are counted.
set -u
cd "$(dirname "$0")/../.." || exit 1
[ -z "${SANITIZE:-}" ] || { echo "it runs nothing that a sanitizer sees"; exit 77; }
unset CUDA CUDA_SMS BUILD MAKEFLAGS MFLAGS MAKELEVEL LD_LIBRARY_PATH
export CUDA_VISIBLE_DEVICES= # a real driver reports no GPU of this machine; the played one has those of LS_CUDA_GPUS
played=$PWD/build/tests/cuda
scratch=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-build-test.XXXXXX") || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM HUP
failures=0
fail() {
    failures=$((failures + 1))
    echo "FAIL $*"
}

# A toolkit that knows three architectures; an nvidia-smi that does what the file smi says.
mkdir -p "$scratch/toolkit/bin" "$scratch/bin" "$scratch/without"
printf '#!/bin/sh\n[ "$*" != --list-gpu-code ] || printf "sm_80\\nsm_86\\nsm_90\\n"\n' >"$scratch/toolkit/bin/nvcc"
printf '#!/bin/sh\n. "%s/smi"\n' "$scratch" >"$scratch/bin/nvidia-smi"
chmod +x "$scratch/toolkit/bin/nvcc" "$scratch/bin/nvidia-smi"
nvcc=$scratch/toolkit/bin/nvcc

# sms EXPECTED WHAT VARIABLES…: what tools/cuda-sms prints.
sms() {
    local expected=$1 what=$2 got
    shift 2
    got=$(env PATH="$scratch/bin:$PATH" CUDA_SMS_LIMIT_S=60 "$@" tools/cuda-sms "$nvcc" 2>&1)
    [ "$got" = "$expected" ] || fail "$what: '$got', not '$expected'"
}
echo 'printf "9.0\n8.6\n9.0\n"' >"$scratch/smi"
sms '86 90' 'two kinds of GPUs' CUDA_SMS=
echo 'printf "7.5\n12.0\n8.0\n"' >"$scratch/smi"
sms 80 'GPUs that are too old, or unknown to the compiler' CUDA_SMS=
echo 'sleep 600' >"$scratch/smi"
sms '' 'a driver that hangs' CUDA_SMS_LIMIT_S=0.2
echo 'echo "Field \"compute_cap\" is not a valid field to query."; exit 2' >"$scratch/smi"
sms '' 'a driver that fails' CUDA_SMS=
if [ -e "$played/libcuda.so.1" ]; then
    sms 86 'an nvidia-smi that cannot tell, and libcuda' LD_LIBRARY_PATH="$played" LS_CUDA_CAPABILITY=86 LS_CUDA_GPUS=2
    sms '' 'a libcuda that hangs' LD_LIBRARY_PATH="$played" LS_CUDA_FAULT=cuInit:-1 CUDA_SMS_LIMIT_S=0.2
    sms '' 'a libcuda without GPUs' LD_LIBRARY_PATH="$played" LS_CUDA_GPUS=0
fi

# plan_build NAME VARIABLES…: what `make` would do in a new build folder.
plan_build() {
    local name=$1
    shift
    env PATH="$scratch/bin:$PATH" make -n V=1 BUILD="$scratch/$name" "$@" all >"$scratch/out" 2>&1 || fail "$name: make ended with status $?"
}
says() { grep -qE -- "$1" "$scratch/out" || fail "make does not say: $1"; }
count_cubins() { grep -c -- '-cubin' "$scratch/out"; }
families=$(find src/device/cuda/kernels -name '*.cu' | wc -l)

echo 'printf "9.0\n"' >"$scratch/smi"
plan_build with CUDA="$scratch/toolkit"
says '^  GPU kernels: nvcc compiles those of sm_90; other GPUs compile theirs on first use'
[ "$(count_cubins)" -eq "$families" ] || fail "$(count_cubins) cubins for one GPU"
grep -q 'code=sm_90a' "$scratch/out" || fail "not for sm_90a"
plan_build with CUDA="$scratch/toolkit"
! grep -q '^  GPU kernels:' "$scratch/out" || fail "it says twice what it compiles"
echo 'exit 9' >"$scratch/smi"
plan_build without CUDA="$scratch/toolkit"
says '^  GPU kernels: .* the driver reports no GPU: none are compiled now, .* \(CUDA_SMS=90 '
[ "$(count_cubins)" -eq 0 ] || fail "$(count_cubins) cubins without a GPU"
plan_build asked CUDA="$scratch/toolkit" CUDA_SMS='80 90'
says '^  GPU kernels: nvcc compiles those of sm_80 sm_90;'
[ "$(count_cubins)" -eq $((2 * families)) ] || fail "$(count_cubins) cubins for CUDA_SMS='80 90'"
echo 'touch "'"$scratch"'/asked-for-nothing"' >"$scratch/smi"
plan_build no CUDA=no
! grep -q 'GPU kernels' "$scratch/out" || fail "CUDA=no speaks of GPUs"
[ ! -e "$scratch/asked-for-nothing" ] || fail "CUDA=no asks the driver"

# A make that is asked for two files counts its two lines.
make BUILD="$scratch/count" CUDA=no V= "$scratch/count/src/base/clock.o" "$scratch/count/src/base/hash.o" >"$scratch/out" 2>&1 || fail "make: $(cat "$scratch/out")"
says '^  \[1/2\]  CC  src/base/'
says '^  \[2/2\]  CC  src/base/'

[ "$failures" -eq 0 ] || exit 1
echo "all as it says"
