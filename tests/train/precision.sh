#!/usr/bin/env bash
# precision.sh: 16-bit training has the same bits under every layout, and those of the constants below on every machine; fp16 steps
# that overflow are skipped alike and after any stop; a hardware unit has bits of its own, whatever the layout. Short: a part of the
# pairs of choices. Long: all of them.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

# Weights after 8 steps of the runs below: docs/reference/arithmetic.md fixes them, but for those of units, which the hardware does.
declare -A golden=(
    [gpt2-bf16]=46b2a972a5be0c2edc16b5c375e6a9b9
    [llama-bf16]=33ab166464e8675b6e212dcdbe4e7855
    [gpt2-bf16-reduce]=a2b1ed2f3f271486eee93eb28958a17b
    [llama-fp16]=372a6a7ac6d5101fbc2dcb67c091934e
    [gpt2-fp16-overflow]=948cd966e1d341acdf11ca3fe048c20c
    [gpt2-bfmmla]=fc87d7c002f5643acfa657688eea93e9
    [llama-bfmmla]=e22574c047622d8e66398d5a6ba552a3
)

# ---- every pair of choices ---------------------------------------------------------------------------------------------

# A policy has a twelfth of the layouts in the short tier, each another one; in a sample a forty-eighth.
# pairs PART FLAGS…: all layouts equal.
pairs() {
    local some=(--part "$1/$(sample 48 12)")
    shift
    [ "$TIER" = short ] || some=()
    case_begin "verify --quick ${some[*]} $*"
    "$LOCKSTEP" verify --quick "${some[@]}" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
    status=$?
    expect_status 0
    grep -q '^[0-9]* layouts in .*: every loss, gradient and weight is bit-identical to one worker' "$scratch/out" ||
        fail "no summary that all are equal"
    tail -n 1 "$scratch/out"
}

# The units of this CPU: the message that refuses one names them.
units() {
    local unit
    for unit in bfmmla avx512-bf16 amx; do
        "$LOCKSTEP" train --model "$gpt2" --data "$text" --precision bf16 --matrix-unit "$unit" --dry-run >/dev/null 2>&1 && echo "$unit"
    done
}

overflow=(--precision fp16 --loss-scale-initial 16777216 --loss-scale-window 2 --loss-scale-hysteresis 1)
pairs 1 --precision bf16
pairs 2 "${overflow[@]}" --steps 6
pairs 3 --precision bf16 --reduce-dtype bf16
for unit in $(units); do pairs 4 --precision bf16 --matrix-unit "$unit" --reduce-dtype bf16; done
[ "$TIER" = short ] || pairs 1 --reduce-dtype bf16 --on-outlier warn
[ "$TIER" = short ] || pairs 1 --precision bf16 --accumulate-dtype bf16 --no-master-weights
[ "$TIER" = short ] || pairs 1 --precision fp16 --on-outlier skip-group --outlier-threshold 1 --steps 14

# ---- constants ---------------------------------------------------------------------------------------------------------

n=0
# same NAME FLAGS…: a run of the experiment NAME with flags that must not matter. A unit without a constant has that of its first run.
same() {
    local name=$1
    shift
    n=$((n + 1))
    case_begin "$name $*"
    train "${experiment[@]}" --out "$scratch/run-$n" "$@"
    if [ -z "${golden[$name]:-}" ]; then golden[$name]=$(weights); fi
    expect_weights "${golden[$name]}"
    rm -rf "$scratch/run-$n"
}

base=(--data "$text" --steps 8 --seq 13 --global-batch 7 --lr 0.01)

experiment=(--model "$gpt2" "${base[@]}" --precision bf16)
more same gpt2-bf16 --threads 1
LS_ISA=portable same gpt2-bf16 --micro-batch 2
same gpt2-bf16 --dp 2 --tp 2 --pp 2 --micro-batch 1
# Observers do not change the result.
same gpt2-bf16 --dp 3 --zero 2 --numerics 2 --on-outlier warn
experiment+=(--reduce-dtype bf16)
more same gpt2-bf16-reduce --micro-batch 3
LS_ISA=portable same gpt2-bf16-reduce --dp 4 --zero 3

experiment=(--model "$llama" "${base[@]}" --groups 5)
same llama-bf16 --precision bf16 --tp 2 --sequence-parallel
more same llama-bf16 --precision bf16 --micro-batch 2 --recompute full
more same llama-fp16 --precision fp16 --threads 2
same llama-fp16 --precision fp16 --pp 2 --schedule zero-bubble --micro-batch 1
LS_ISA=portable more same llama-fp16 --precision fp16 --dp 2 --numerics 1

for unit in $(units); do
    experiment=(--model "$gpt2" "${base[@]}" --precision bf16 --matrix-unit "$unit")
    same "gpt2-$unit" --threads 2
    LS_ISA=portable same "gpt2-$unit" --tp 2 --micro-batch 1
    experiment=(--model "$llama" "${base[@]}" --precision bf16 --matrix-unit "$unit")
    more same "llama-$unit" --micro-batch 3
    same "llama-$unit" --dp 2 --pp 2 --zero 3 --micro-batch 1
    if [ "${golden[gpt2-$unit]}" = "${golden[gpt2-bf16]}" ]; then fail "$unit has the bits of chain: it did not run"; fi
done

# ---- overflow and resuming ---------------------------------------------------------------------------------------------

experiment=(--model "$gpt2" "${base[@]}" "${overflow[@]}")
whole=$scratch/whole
case_begin "fp16 from 2^24 on"
train "${experiment[@]}" --save-every 1 --keep 0 --out "$whole"
expect_weights "${golden[gpt2-fp16-overflow]}"
losses "$whole" >"$scratch/whole.losses"
# Steps that were skipped, as the metrics have them: some, not all, and each with its event.
skipped=$(grep -c '"skipped":true' "$whole/metrics.jsonl")
if [ "$skipped" -lt 2 ] || [ "$skipped" -gt 6 ]; then fail "$skipped steps were skipped"; fi
[ "$skipped" -eq "$(grep -c '"event":"overflow"' "$whole/metrics.jsonl")" ] || fail "not every skipped step has its event"
grep -q '^{"step":1,"event":"overflow","scale":24,"next_scale":23,"tensor":"[a-z0-9.]*","block":"[a-z0-9.]*","checksum":"[0-9a-f]*"}$' "$whole/metrics.jsonl" ||
    fail "the event of the first step is another"
grep -Eq '^step 1: .* overflowed at loss scale 2\^24: update skipped; the loss scale is 2\^23 now' "$scratch/out" || fail "it was not told"
same gpt2-fp16-overflow --dp 2 --tp 2 --zero 1 --micro-batch 1
LS_ISA=portable more same gpt2-fp16-overflow --pp 2 --micro-batch 2

layouts=('--dp 2 --zero 2' '--tp 2 --micro-batch 1' '--pp 2 --micro-batch 2' '--dp 2 --tp 2 --pp 2 --micro-batch 1')
turn=0
for step in $(sample '2 6' '1 2 4 6'); do
    layout=${layouts[turn++]}
    case_begin "resume at step $step $layout"
    part=$scratch/part-$step
    mkdir -p "$part/checkpoints"
    cp "$whole/identity.json" "$whole/config.json" "$whole/metrics.jsonl" "$part"
    cp -r "$whole/checkpoints/step-00000000$step" "$part/checkpoints"
    # shellcheck disable=SC2086 # flags are words
    train --resume --out "$part" --save-every 0 $layout
    expect_weights "${golden[gpt2-fp16-overflow]}"
    expect_losses "$part" "$scratch/whole.losses"
    [ "$(grep -c '"skipped":true' "$part/metrics.jsonl")" -eq "$skipped" ] || fail "other steps were skipped"
done

# ---- other experiments -------------------------------------------------------------------------------------------------

refused() { # field, flags…
    local field=$1
    shift
    case_begin "resume with $*"
    train --resume --out "$part" "$@"
    expect_status 2
    expect_said "error: (worker 0: )?not the same experiment: (.*; )?$field is .* here and .* in the checkpoint"
}
refused precision --precision bf16
refused loss-scale-window --loss-scale-window 3
refused reduce-dtype --reduce-dtype bf16
refused loss-scale --loss-scale 1024

# A fork may have them, and state that does not fit its own loss scale is reset.
fork() {
    case_begin "fork with $*"
    rm -rf "$scratch/fork"
    train --fork "$whole" --out "$scratch/fork" --steps 10 "$@"
    expect_status 0
    [ -n "$(weights)" ] || fail "no hash"
}
fork --loss-scale 1024
grep -q '"step":9,.*"scale":10' "$scratch/fork/metrics.jsonl" || fail "the constant scale is not used"
fork --precision bf16
fork --precision fp32

# The file that a run writes goes back in, whatever its types.
case_begin "config.json of a bf16 run"
train --model "$gpt2" "${base[@]}" --precision bf16 --out "$scratch/first"
train --config "$scratch/first/config.json" --out "$scratch/second"
expect_weights "${golden[gpt2-bf16]}"

# ---- eval and generate: as the run was made, unless told otherwise -----------------------------------------------------

spoiled=$BUILD/tests/spoil/lockstep
# figures RUN FLAGS…: what eval prints, but for the time.
figures() {
    local run=$1
    shift
    "$program" eval --model "$run" --data "$text" --seq 11 --json "$@" 2>"$scratch/err" | sed 's/,"tokens".*//'
}
program=$LOCKSTEP
train --model "$gpt2" "${base[@]}" --out "$scratch/run-fp32"
train --model "$gpt2" "${base[@]}" --precision fp16 --out "$scratch/run-fp16"
case_begin "eval of a run"
[ "$(figures "$scratch/first")" = "$(figures "$scratch/first" --precision bf16 --matrix-unit chain)" ] || fail "bf16: not as trained"
[ "$(figures "$scratch/run-fp16")" = "$(figures "$scratch/run-fp16" --precision fp16)" ] || fail "fp16: not as trained"
[ "$(figures "$scratch/run-fp32")" = "$(figures "$scratch/run-fp32" --precision fp32)" ] || fail "fp32: not as trained"
figures "$scratch/first" --precision fp32 | grep -q '"precision":"fp32","matrix_unit":"chain"' || fail "the option does not win"
[ "$(figures "$scratch/first")" != "$(figures "$scratch/first" --precision fp32)" ] || fail "bf16 has the loss of fp32"

for unit in $(units); do
    case_begin "eval and generate of a run with $unit"
    train --model "$gpt2" "${base[@]}" --precision bf16 --matrix-unit "$unit" --out "$scratch/run-$unit"
    figures "$scratch/run-$unit" | grep -q "\"precision\":\"bf16\",\"matrix_unit\":\"$unit\"" || fail "not with $unit"
    chain=$(figures "$scratch/run-$unit" --matrix-unit chain)
    figures "$scratch/run-$unit" --precision fp32 | grep -q '"precision":"fp32","matrix_unit":"chain"' || fail "the option does not win"
    # On a machine without it.
    program=$spoiled
    export LS_SPOIL_NO_UNIT=1
    [ "$(figures "$scratch/run-$unit")" = "$chain" ] || fail "without the unit it is not chain"
    expect_said "warning: the run was trained with --matrix-unit $unit, which this CPU lacks; using chain"
    figures "$scratch/run-$unit" --matrix-unit "$unit" >"$scratch/out"
    expect_said "error: this CPU .* has no matrix unit $unit"
    "$spoiled" generate --model "$scratch/run-$unit" --prompt line --max-tokens 3 >"$scratch/out" 2>"$scratch/err"
    expect_said "warning: the run was trained with --matrix-unit $unit"
    unset LS_SPOIL_NO_UNIT
    program=$LOCKSTEP
done

# Machines that do not agree.
if "$LOCKSTEP" --version | grep -q '^MPI .*Open MPI' && mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
    case_begin "one worker in fp32, one in bf16"
    both=(train --model "$gpt2" "${base[@]}" --out "$scratch/mixed")
    mpirun --oversubscribe --bind-to none -n 1 "$LOCKSTEP" "${both[@]}" : -n 1 "$LOCKSTEP" "${both[@]}" --precision bf16 \
        >"$scratch/out" 2>"$scratch/err" </dev/null
    status=$?
    [ $status -ne 0 ] || fail "it ran"
    expect_said 'different experiments: precision is bf16 for worker 1 and absent for worker 0'

    # Two machines, of which one has no matrix unit: refused whichever of them it is, also where each would choose its best.
    for unit in $(units); do
        for lacks in 0 1; do
            env=(env env)
            env[lacks]="env LS_SPOIL_NO_UNIT=1"
            for asked in auto "$unit"; do
                case_begin "--matrix-unit $asked, worker $lacks has no $unit"
                both=("$spoiled" train --model "$gpt2" "${base[@]}" --precision bf16 --matrix-unit "$asked" --out "$scratch/mixed")
                # shellcheck disable=SC2086 # words of their own
                mpirun --oversubscribe --bind-to none -n 1 ${env[0]} "${both[@]}" : -n 1 ${env[1]} "${both[@]}" \
                    >"$scratch/out" 2>"$scratch/err" </dev/null
                status=$?
                [ $status -ne 0 ] || fail "it ran"
                [ ! -e "$scratch/mixed" ] || fail "it left a run"
                if [ "$asked" = auto ]; then
                    expect_said 'different experiments: matrix-unit is .* on machines with the same --matrix-unit'
                else
                    expect_said "this CPU .* has no matrix unit $unit; it has: chain"
                    [ $lacks -eq 0 ] || expect_said '\[worker 1\] error: this CPU'
                fi
            done
        done
    done
fi
finished
