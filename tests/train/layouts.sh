#!/usr/bin/env bash
# layouts.sh: losses, gradients and weights are the same bits under every layout, on shared memory and on MPI; and the weights are
# those of the constants below, on every machine. Short: every pair of choices. Long: every mesh of up to 16 workers, ten steps.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

# Weights of the two models after 3 steps and after 10; docs/reference/arithmetic.md fixes them.
declare -A golden=(
    [gpt2-3]=7e5e4571f6fc87bb4c49900646560220
    [gpt2-10]=ca3b9b5995f407a0bb8b9e7c62339dcc
    [llama-3]=75dd4f415ff5a04eda3770f96d88de95
    [llama-10]=fc1c8e979a3a4cc92325a9a5b9acd97e
)

# Workers on a GPU take long to start: some of the layouts then, and in a sample.
part=()
if [ "$TIER ${TEST_DEVICE:-cpu}" = "short cuda" ]; then part=(--part 1/4); fi
[ -z "${TEST_SAMPLE:-}" ] || part=(--part 1/12)

# verify NAME LEAST COMMAND…: at least that many layouts, all of them equal, with the constants' weights.
verify() {
    local least=$2 steps rows
    case_begin "$1"
    shift 2
    "$@" "${part[@]}" >"$scratch/out" 2>"$scratch/err" </dev/null
    status=$?
    expect_status 0
    steps=$(sed -n 's/^verify-gpt2: .*; \([0-9]*\) steps of .*/\1/p' "$scratch/out")
    # the verdict has a column of its own
    rows=$(grep -cE "^ +[0-9]+  ${golden[gpt2-${steps:-3}]} .*  ok  " "$scratch/out")
    rows=$((rows + $(grep -cE "^ +[0-9]+  ${golden[llama-${steps:-3}]} .*  ok  " "$scratch/out")))
    [ "$rows" -eq "$(grep -cE '^ +[0-9]+  ' "$scratch/out")" ] || fail "some rows have other weights than the constants"
    if [ ${#part[@]} -eq 0 ] && [ "$rows" -lt "$least" ]; then fail "only $rows rows"; fi
    grep -q '^[0-9]* layouts in .*: every loss, gradient and weight is bit-identical to one worker' "$scratch/out" ||
        fail "no summary that all are equal"
    tail -n 1 "$scratch/out"
}

verify "every pair of choices" 60 "$LOCKSTEP" verify --quick
[ "$TIER" = short ] || verify "every mesh of up to 16 workers" 120 "$LOCKSTEP" verify

# Groups that are computed twice, under every schedule: nothing is found, and nothing changes.
experiment=(--model "$deep" --data "$text" --seq 11 --global-batch 16 --groups 8 --lr 0.01 --eval-every 0 --threads 1 --steps 2 --save-every 0)
case_begin "one worker"
train "${experiment[@]}" --out "$scratch/one"
expect_status 0
final=$(weights)
audited() {
    case_begin "--audit 1 $*"
    rm -rf "$scratch/run"
    train "${experiment[@]}" --audit 1 --out "$scratch/run" "$@"
    expect_weights "$final"
    [ "$(grep -c '"audited":8' "$scratch/run/metrics.jsonl")" -eq 2 ] || fail "8 groups were not audited in each step"
    ! grep -q '"event":"audit"' "$scratch/run/metrics.jsonl" || fail "an audit found something: $(grep '"event"' "$scratch/run/metrics.jsonl")"
}
for schedule in naive gpipe 1f1b interleaved zero-bubble; do
    audited --schedule "$schedule" --pp 2 --dp 2 --micro-batch 2
    more audited --schedule "$schedule" --pp 2 --micro-batch 1
    more audited --schedule "$schedule" --pp 2 --dp 2 --zero 3 --shares 5,3 --micro-batch 1
done

# Under sequence parallelism each worker of a TP group computes some rows of a vector's gradient, and an audit compares those alone.
audited --dp 2 --tp 2 --sequence-parallel
more audited --dp 2 --tp 2
experiment[1]=$llama # a model without biases
case_begin "one worker, no biases"
rm -rf "$scratch/one"
train "${experiment[@]}" --out "$scratch/one"
expect_status 0
final=$(weights)
audited --dp 2 --tp 2 --sequence-parallel
more audited --dp 2 --tp 2

# The same over MPI; with --node-size messages cross what counts as machines.
if "$LOCKSTEP" --version | grep -q '^MPI .*Open MPI' && mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
    mpi=(mpirun --oversubscribe --bind-to none)
    half=()
    if [ "$TIER" = short ] && [ ${#part[@]} -eq 0 ]; then half=(--part 2/2); fi
    verify "4 workers of mpirun" 20 "${mpi[@]}" -n 4 "$LOCKSTEP" verify --quick --node-size 1 "${half[@]}"
    [ "$TIER" = short ] || verify "6 workers of mpirun, two to a machine" 40 "${mpi[@]}" -n 6 "$LOCKSTEP" verify --node-size 2
    [ "$TIER" = short ] || verify "8 workers of mpirun" 40 "${mpi[@]}" -n 8 "$LOCKSTEP" verify
fi
finished
