#!/usr/bin/env bash
# device.sh: checks which device --device auto chooses, with a libcuda that emulates GPUs (tests/cuda): GPUs that work, or the CPU, with the reason, if
# none does; that the workers of a machine take GPUs in turn; and what --version reports about them.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"
played=$(cd "$BUILD" && pwd)/tests/cuda
[ -e "$played/libcuda.so.1" ] || { echo "skipped: $played/libcuda.so.1 is not built"; exit 77; }
# The sanitizers' own library would have to come first.
if ldd "$LOCKSTEP" | grep -q libasan; then echo "skipped: not with sanitizers"; exit 77; fi

# Threads of a block are fibers there: small runs alone.
tiny=(--model "$gpt2" --data "$text" --steps 1 --seq 4 --global-batch 2 --groups 2)
train "${tiny[@]}" --device cpu --out "$scratch/cpu"
right=$(weights)

# auto TEXT VARIABLES… [-- FLAGS…]: a run that is told nothing of devices has the CPU's bits and this line of the device; "": none.
auto() {
    local line=$1 variables=()
    shift
    while [ $# -gt 0 ] && [ "$1" != -- ]; do variables+=("$1") && shift; done
    [ $# -eq 0 ] || shift
    case_begin "auto: ${line:-nothing to say} (${variables[*]-})"
    env -u LS_DEVICE LD_LIBRARY_PATH="$played" ${variables[@]+"${variables[@]}"} \
        "$LOCKSTEP" train "${tiny[@]}" "$@" --out "$scratch/auto" >"$scratch/out" 2>"$scratch/err"
    status=$?
    expect_weights "$right"
    if [ -n "$line" ]; then
        grep -Eq -- "^device    $line" "$scratch/out" || fail "no line of the device: $line"
    elif grep -q '^device' "$scratch/out"; then
        fail "it speaks of devices"
    fi
    rm -rf "$scratch/auto"
}

auto '1 × a CPU that plays a GPU, 1 GiB, compute capability 9.0 \(--device auto; kernels (built in|compiled by NVRTC)\)$' XDG_CACHE_HOME="$scratch/cache"
auto '2 × a CPU that plays a GPU' LS_CUDA_GPUS=3 -- --dp 2
auto '' LS_CUDA_GPUS=0
auto 'CPU, not a GPU: GPU 0 .*has compute capability 7.5, and 8.0 is needed' LS_CUDA_CAPABILITY=75
auto 'CPU, not a GPU: the NVIDIA driver is for CUDA 11.8' LS_CUDA_VERSION=11080
auto 'CPU, not a GPU: .*has not answered for 0.5 seconds' LS_CUDA_FAULT=cuInit:-1 LS_CUDA_WAIT_S=0.5
auto 'CPU, not a GPU: .*killed by signal 6' LS_CUDA_FAULT=cuInit:-2
auto 'CPU, not a GPU: GPU 0 failed: cuDevicePrimaryCtxRetain' LS_CUDA_FAULT=cuDevicePrimaryCtxRetain:101
auto 'CPU, not a GPU: .*(has not finished its work|has not answered) for 0.5 seconds' LS_CUDA_HANG=1 LS_CUDA_WAIT_S=0.5

for unit in bfmmla avx512-bf16 amx; do
    flags=("${tiny[@]}" --precision bf16 --matrix-unit "$unit")
    train "${flags[@]}" --device cpu --out "$scratch/unit"
    rm -rf "$scratch/unit"
    [ $status -eq 0 ] || continue # this CPU has not got it
    case_begin "a GPU without $unit"
    env -u LS_DEVICE LD_LIBRARY_PATH="$played" "$LOCKSTEP" train "${flags[@]}" --out "$scratch/unit" >"$scratch/out" 2>"$scratch/err"
    status=$?
    expect_status 0
    grep -q "^device    CPU, not a GPU: GPUs have no matrix unit $unit" "$scratch/out" || fail "it does not say why"
    rm -rf "$scratch/unit"
done

# unit STATUS TEXT VARIABLES… -- FLAGS…: a run in 16 bits ends with this status, and says this.
unit() {
    local code=$1 line=$2 variables=()
    shift 2
    while [ "$1" != -- ]; do variables+=("$1") && shift; done
    shift
    case_begin "unit: $line"
    env -u LS_DEVICE LD_LIBRARY_PATH="$played" ${variables[@]+"${variables[@]}"} "$BUILD/tests/spoil/lockstep" train "${tiny[@]}" --out "$scratch/unit" "$@" \
        >"$scratch/out" 2>"$scratch/err"
    status=$?
    expect_status "$code"
    grep -Eq -- "$line" "$scratch/out" "$scratch/err" || fail "it does not say: $line"
}
unit 0 'bf16, matrix unit hgmma,' -- --precision bf16 --lr-schedule constant --device cuda
grep -q "^          matrix unit hgmma: the GPU's tensor cores" "$scratch/out" || fail "no line about the unit"
grep -q "^          to get the same bits on another machine, use --matrix-unit hgmma there: " "$scratch/out" || fail "no line about other machines"
# A run that goes on keeps its unit, on whatever device.
unit 0 'bf16, matrix unit hgmma, .*resumed' -- --resume --steps 2 --device cpu
rm -rf "$scratch/unit"
unit 0 'bf16, matrix unit chain,' -- --precision bf16 --lr-schedule constant --device cpu
unit 0 'bf16, matrix unit chain, .*resumed' -- --resume --steps 2 --device cuda
rm -rf "$scratch/unit"
unit 0 'bf16, matrix unit chain,' -- --precision bf16 --matrix-unit chain --device cuda
grep -q '^          matrix unit chain: does not use tensor cores' "$scratch/out" || fail "no line about chains"
rm -rf "$scratch/unit"
unit 0 'fp16, matrix unit ampere,' LS_CUDA_CAPABILITY=80 -- --precision fp16
rm -rf "$scratch/unit"
unit 2 'GPU 0, .*, has compute capability 8.0, whose tensor cores do not compute by the formula of hgmma: use --matrix-unit ampere' LS_CUDA_CAPABILITY=80 -- \
    --precision bf16 --matrix-unit hgmma --device cuda
unit 2 'the tensor cores of GPU 0, .*, do not compute by the formula of hgmma: element 0, 0 of a product' \
    LS_SPOIL='rank=0 step=0 place=product tensor=hgmma flip=1' -- --precision bf16

# Kernels that were not built in are compiled before the workers start, each once, however many runs ask for them at the same time: the runs wait and say
# why. Neither the unit nor the bits depend on it.
train "${tiny[@]}" --precision bf16 --matrix-unit ada --device cpu --out "$scratch/ada"
ada=$(weights)
kernels=(LD_LIBRARY_PATH="$played" LS_CUDA_CAPABILITY=89 XDG_CACHE_HOME="$scratch/kernels" LS_NVRTC_GATE="$scratch/gate" LS_NVRTC_COUNT="$scratch/compiled")
case_begin "two runs whose kernels have to be compiled"
for run in first second; do
    env "${kernels[@]}" "$LOCKSTEP" train "${tiny[@]}" --device cuda --precision bf16 --out "$scratch/$run" >"$scratch/$run.out" 2>"$scratch/$run.err" &
    eval "$run=$!"
    case $run in first) what='NVRTC compiles' ;; *) what='another process compiles' ;; esac
    until grep -Eq "^(lockstep: warning: )?$what GPU kernels for sm_89, once for this machine; the run waits: 0 of [0-9]+ families, 0 s$" "$scratch/$run.err"; do
        kill -0 "${!run}" || { fail "no line '$what': $(cat "$scratch/$run.err")"; break; }
        sleep 0.02
    done
    [ ! -e "$scratch/$run" ] || fail "the run did not wait"
done
touch "$scratch/gate"
for run in first second; do
    wait "${!run}" || fail "the $run run ended with status $?"
    cp "$scratch/$run.out" "$scratch/out"
    status=0
    expect_weights "$ada"
    grep -Eq '^(lockstep: warning: )?GPU kernels for sm_89 are ready: [0-9]+ families, [0-9]+ s$' "$scratch/$run.err" || fail "the $run run does not say that kernels are ready"
    grep -q 'bf16, matrix unit ada,' "$scratch/$run.out" || fail "the $run run has another matrix unit"
done
families=$(find "$scratch/kernels/lockstep/cuda" -name '*.cubin' | wc -l)
[ "$families" -gt 10 ] && [ "$(wc -l <"$scratch/compiled")" -eq "$families" ] || fail "$(wc -l <"$scratch/compiled") compilations, $families families in the cache"

case_begin "kernels that were compiled before"
env "${kernels[@]}" "$LOCKSTEP" train "${tiny[@]}" --device cuda --precision bf16 --out "$scratch/third" >"$scratch/out" 2>"$scratch/err"
status=$?
expect_weights "$ada"
! grep -q 'GPU kernels' "$scratch/err" || fail "it speaks of kernels"
[ "$(wc -l <"$scratch/compiled")" -eq "$families" ] || fail "something was compiled again"

for fault in '1 NVRTC cannot compile the kernels of ' '2 a process that compiles GPU kernels was killed by signal 6'; do
    case_begin "kernels that cannot be compiled: ${fault#* }"
    env "${kernels[@]}" LS_NVRTC_FAIL="${fault%% *}" XDG_CACHE_HOME="$scratch/no-kernels" \
        "$LOCKSTEP" train "${tiny[@]}" --device cuda --out "$scratch/fault" >"$scratch/out" 2>"$scratch/err"
    status=$?
    [ $status -ne 0 ] || fail "exit status 0"
    expect_said "${fault#* }"
    rm -rf "$scratch/fault"
done

# Workers 0 and 2 are on GPU 0, worker 1 is on GPU 1, whose memory fails.
case_begin "GPUs in turn"
LD_LIBRARY_PATH=$played LS_CUDA_GPUS=2 LS_CUDA_GPU=1 LS_CUDA_FAULT=cuMemHostAlloc:214 \
    train "${tiny[@]}" --global-batch 3 --groups 3 --dp 3 --device cuda --out "$scratch/turn"
expect_status 1
expect_said 'worker 1: GPU 1 failed: cuMemHostAlloc: uncorrectable ECC error'

# Of a launcher's workers each looks for itself.
if mpirun --version 2>/dev/null | grep -q 'Open MPI' && "$LOCKSTEP" --version | grep -q 'Open MPI'; then
    mpi=(mpirun --oversubscribe --allow-run-as-root --bind-to none)
    with=(-n 1 -x LD_LIBRARY_PATH="$played" "$LOCKSTEP" train "${tiny[@]}" --dp 2 --device auto --out "$scratch/mpi")
    without=(-n 1 -x CUDA_VISIBLE_DEVICES= "$LOCKSTEP" train "${tiny[@]}" --dp 2 --device auto --out "$scratch/mpi")
    for how in '1 × a CPU that plays a GPU' 'CPU, not a GPU: worker 1 has none'; do
        case_begin "mpirun: $how"
        case $how in C*) other=("${without[@]}") ;; *) other=("${with[@]}") ;; esac
        "${mpi[@]}" "${with[@]}" : "${other[@]}" >"$scratch/out" 2>"$scratch/err" </dev/null
        status=$?
        expect_weights "$right"
        grep -q "^device    $how" "$scratch/out" || fail "no line of the device: $how"
        rm -rf "$scratch/mpi"
    done
    # Of two replicas one may be on the CPU: they agree on every gradient of every group, with tensor cores too.
    case_begin "a CPU audits a GPU"
    flags=("$LOCKSTEP" train "${tiny[@]}" --dp 2 --audit 1 --precision bf16 --matrix-unit hgmma --out "$scratch/mpi")
    "${mpi[@]}" -n 1 -x LD_LIBRARY_PATH="$played" "${flags[@]}" --device cuda : -n 1 "${flags[@]}" --device cpu >"$scratch/out" 2>"$scratch/err" </dev/null
    status=$?
    expect_status 0
    grep -q '"audited":2' "$scratch/mpi/metrics.jsonl" || fail "nothing was audited"
    rm -rf "$scratch/mpi"
fi

# Times of queues change no bit, and tell what ran where; a wait of the sums of gradients is behind them.
case_begin "a traced run"
LD_LIBRARY_PATH="$played" train "${tiny[@]}" --device cuda --dp 2 --trace run --eval-every 0 --out "$scratch/traced"
expect_weights "$right"
"$LOCKSTEP" timeline "$scratch/traced" --kernels >"$scratch/out" 2>"$scratch/err" || fail "exit status $?"
for line in '^ +0: compute +[1-9]' '^ +1: dp +[1-9]' '^products ' '^attention ' '^norms ' '^loss ' '^optimizer ' '^communication ' '  products +gemm[a-z_]* +N[NT] ' \
    '  optimizer +adamw +update$'; do
    grep -Eq -- "$line" "$scratch/out" || fail "no line $line"
done
[ ! -e "$scratch/traced/timeline.svg" ] || fail "it was drawn"
rm -rf "$scratch/traced"

# version LINE VARIABLES…
version() {
    local line=$1
    shift
    case_begin "version: $line"
    env "$@" "$LOCKSTEP" --version >"$scratch/out" 2>"$scratch/err" || fail "exit status $?"
    grep -Eq -- "$line" "$scratch/out" || fail "no such line"
}
version '^driver     NVIDIA, for CUDA 13.0$' LD_LIBRARY_PATH="$played"
version '^GPU 1      a CPU that plays a GPU, compute capability 9.0, matrix unit hgmma, 1.0 GiB; kernels (built in|compiled by NVRTC on first use) for sm_90$' \
    LD_LIBRARY_PATH="$played" LS_CUDA_GPUS=2
version '^GPU        none \(GPU 0 .* compute capability 7.5, and 8.0 is needed' LD_LIBRARY_PATH="$played" LS_CUDA_CAPABILITY=75
if ! ldconfig -p 2>/dev/null | grep -q libcuda.so.1; then version '^GPU        none \(no NVIDIA driver\)$' A=b; fi
finished
