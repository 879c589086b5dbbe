#!/usr/bin/env bash
# workers.sh: workers of different speeds, more of them than cores, and as many as a launcher has started: the same bits, and no hang.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

# Five blocks, four slices, eight groups.
model=$deep
experiment=(--model "$model" --data "$text" --steps 5 --seq 11 --global-batch 8 --lr 0.01 --dropout 0.1)
case_begin "one worker"
train "${experiment[@]}" --out "$scratch/one"
expect_status 0
final=$(weights)
[ -n "$final" ] || { fail "no hash"; finished; }
losses "$scratch/one" >"$scratch/one.losses"

# same FLAGS…: the same bits at every step.
same() {
    case_begin "$*"
    rm -rf "$scratch/run"
    train "${experiment[@]}" --out "$scratch/run" "$@"
    expect_weights "$final"
    expect_losses "$scratch/run" "$scratch/one.losses"
}

expect_line() { grep -Eq -- "$1" "$scratch/out" || fail "it did not print '$1'"; }

# ---- different speeds --------------------------------------------------------------------------------------------------

export LS_FAULT_SLOW=1:300
same --dp 2
same --dp 2 --zero 3 --recompute full
same --pp 2
same --tp 2 --pp 2
# Four times slower than its neighbour: two groups of eight would be too many, if nothing else disturbs the machine.
same --dp 2 --shares auto
expect_line '^shares +gradient groups by measured speed: [5-7] \(100 %\), [1-3] \([0-9]+ %\)$'
expect_line '^layout +2 workers: dp 2 × tp 1 × pp 1, shares [5-7],[1-3], '
# Worker 1 is a member of the first row: the slowest member is what its row can do.
LS_FAULT_SLOW=1:900
same --dp 2 --tp 2 --shares auto
expect_line '^shares +gradient groups by measured speed: [1-3] \([0-9]+ %\), [5-7] \(100 %\)$'
unset LS_FAULT_SLOW
same --dp 3 --shares auto
expect_line '^shares +gradient groups by measured speed: [1-6] .*, [1-6] .*, [1-6] .*$'

# ---- more than cores ---------------------------------------------------------------------------------------------------

same --dp 8 --tp 2
same --dp 2 --tp 2 --pp 5 --threads 2

# ---- samples of a padded vocabulary --------------------------------------------------------------------------------------

# The tokenizer has 256 of the model's 1024 ids: a sample never has one of the others, and is the same in every layout.
padded=$scratch/padded.json
sed 's/"vocab": 256/"vocab": 1024/' "$model" >"$padded"
whole=("${experiment[@]}")
experiment=(--model "$padded" --tokenizer bytes --data "$text" --steps 4 --seq 11 --global-batch 8 --lr 0.01 --sample-every 2 --max-tokens 40)
samples() { sed -n 's/^{"step":\([0-9]*\),"sample":\("[^}]*"\),"[a-z].*/\1 \2/p' "$1/metrics.jsonl"; }
for flags in "" "--dp 2 --zero 3" "--tp 2 --sequence-parallel" "--pp 2 --schedule interleaved" "--dp 2 --tp 2 --pp 2 --zero 1"; do
    for temperature in 0 1; do
        case_begin "samples of a padded vocabulary at temperature $temperature: ${flags:-one worker}"
        rm -rf "$scratch/run"
        # shellcheck disable=SC2086 # flags are words
        train "${experiment[@]}" --out "$scratch/run" --temperature $temperature $flags
        expect_status 0
        samples "$scratch/run" >"$scratch/samples"
        [ -n "$flags" ] || cp "$scratch/samples" "$scratch/samples-$temperature"
        [ "$(wc -l <"$scratch/samples")" -eq 2 ] || fail "there are not two samples"
        cmp -s "$scratch/samples" "$scratch/samples-$temperature" || fail "they differ from those of one worker"
    done
done
experiment=("${whole[@]}")

# ---- a launcher --------------------------------------------------------------------------------------------------------

# launched N FLAGS…: as `train`, with N processes of mpirun.
launched() {
    local count=$1
    shift
    rm -rf "$scratch/run"
    timeout --kill-after=2 60 mpirun --oversubscribe -n "$count" "$LOCKSTEP" train "${experiment[@]}" --out "$scratch/run" "$@" \
        >"$scratch/out" 2>"$scratch/err" </dev/null
    status=$?
}
# refused MESSAGE N FLAGS…: all processes end with one message, and there is no folder.
refused() {
    local message=$1
    shift
    case_begin "mpirun -n $*"
    launched "$@"
    expect_status 2
    expect_said "^lockstep: error: $message$"
    [ "$(grep -c '^lockstep: error' "$scratch/err")" -eq 1 ] || fail "it is said more than once"
    [ ! -e "$scratch/run" ] || fail "it left a folder"
}
if mpirun --version 2>/dev/null | grep -q 'Open MPI' && "$LOCKSTEP" --version | grep -q '^MPI  *Open MPI'; then
    by="Open MPI's mpirun"
    refused "$by started 3 workers, but --dp 2 × tp 1 × pp 1 is 2: start 2, or use --dp 3" 3 --dp 2
    refused "$by started 3 workers: --tp 2 × --pp 1 needs 2 workers per data-parallel replica: start 2 or 4" 3 --tp 2
    refused "$by started 9 workers: dp 9 exceeds the batch of 8 sequences; start 8 workers or fewer, or .*" 9
    refused "--workers 3: $by started 2: use --workers 2, or leave it out" 2 --workers 3
    refused '--transport shm: mpirun or srun started this process: leave --transport out, or start lockstep without a launcher' 2 --transport shm
    refused '--pp 6 exceeds the blocks of model: it has 5 .*; use --pp 5 or less' 2 --pp 6
    case_begin "mpirun -n 4, then two forked workers, then mpirun -n 2"
    launched 4 --tp 2 --workers 4 --transport mpi --save-every 2 --keep 3
    expect_weights "$final"
    for step in 5 4; do rm -rf "$scratch/run/checkpoints/step-00000000$step"; done
    train --resume --out "$scratch/run" --dp 2 --save-every 2
    expect_weights "$final"
    rm -rf "$scratch/run/checkpoints/step-000000005"
    timeout --kill-after=2 60 mpirun --oversubscribe -n 3 "$LOCKSTEP" train --resume --out "$scratch/run" --dp 3 >"$scratch/out" 2>"$scratch/err" </dev/null
    status=$?
    expect_weights "$final"
    expect_losses "$scratch/run" "$scratch/one.losses"

    # Weights are verified by the first worker alone: what is wrong with them is said once.
    parent=$scratch/parent
    from=$parent/checkpoints
    mv "$scratch/run" "$parent"
    newest=$from/$(cat "$from/latest")
    experiment=(--data "$text" --steps 5 --seq 11 --global-batch 8 --lr 0.01)
    case_begin "mpirun -n 2, from the checkpoint before a damaged one"
    train "${experiment[@]}" --model "$from/step-000000004" --out "$scratch/alone"
    after=$(weights)
    damage=$(($(stat -c %s "$newest/weights.safetensors") - 3))
    printf '\001' | dd of="$newest/weights.safetensors" bs=1 seek="$damage" conv=notrunc status=none
    launched 2 --dp 2 --model "$parent"
    expect_weights "$after"
    [ "$(grep -c 'using an older checkpoint' "$scratch/err")" -eq 1 ] || fail "it is not said once"
    case_begin "mpirun -n 2, from a damaged checkpoint"
    launched 2 --dp 2 --model "$newest"
    expect_status 2
    [ "$(grep -c 'weights.safetensors.* is damaged' "$scratch/err")" -eq 1 ] || fail "it is not said once"
    [ ! -e "$scratch/run" ] || fail "it left a folder"

    for command in "eval --data $text" generate; do
        case_begin "$command under mpirun"
        # shellcheck disable=SC2086 # a command and its flags are words
        mpirun --oversubscribe -n 2 "$LOCKSTEP" $command --model "$parent" >"$scratch/out" 2>"$scratch/err" </dev/null
        status=$?
        expect_status 2
        expect_said 'error: this command runs as one process on all cores: start it without mpirun or srun$'
    done
else
    echo "no mpirun of Open MPI: launchers were left out"
fi
finished
