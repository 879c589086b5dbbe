#!/usr/bin/env bash
# launchers.sh: what a launcher leaves in the environment must not mislead the program, and a launcher that cannot work is
# refused in words, soon.
# Runs alone: each launcher has ten seconds.
set -u
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build}
program=$BUILD/tests/comm/conformance
[ -x "$program" ] || { echo "$program is missing: run \`make programs\`"; exit 1; }
scratch=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-launchers.XXXXXX") || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM HUP
failures=0
cases=0

fail() {
    failures=$((failures + 1))
    echo "FAIL $what: $*"
    sed 's/^/    /' "$scratch/out" "$scratch/err"
}

# run NAME COMMAND…: at most ten seconds; sets `status`.
run() {
    what=$1
    shift
    cases=$((cases + 1))
    timeout --kill-after=2 10 "$@" >"$scratch/out" 2>"$scratch/err"
    status=$?
}

says() {
    local pattern
    for pattern in "$@"; do grep -Eqi -- "$pattern" "$scratch/err" || fail "does not say '$pattern'"; done
}

built_with=$("$BUILD/lockstep" --version 2>/dev/null | sed -n 's/^MPI *//p')
mpirun=
mpirun --version 2>/dev/null | grep -q 'Open MPI' && mpirun=yes
openmpi=
[[ -z $mpirun || $built_with != *"Open MPI"* ]] || openmpi=yes

# ---- variables of a launcher that is not there ---------------------------------------------------------------------------

# One worker with a warning, or a refusal.
leftovers() {
    run "$1" env "${@:2}" "$program" --only 1300
    case $status in
    0)
        grep -q 'workers=1 ' "$scratch/out" || fail "ran, but not as one worker"
        says 'warning'
        ;;
    2) says '^error: ' ;;
    124 | 137) fail "still running after ten seconds" ;;
    *) fail "exit status $status, not 0 with a warning and not 2" ;;
    esac
}
leftovers "variables of Open MPI left over" OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=0 PMIX_RANK=0
leftovers "variables of MPICH left over" PMI_SIZE=4 PMI_RANK=0
leftovers "variables of Slurm left over" SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0 SLURM_STEP_ID=0 SLURM_NTASKS=4

# ---- launchers that cannot work ------------------------------------------------------------------------------------------

for rank in 0 1; do
    run "started by torchrun as rank $rank" env RANK=$rank WORLD_SIZE=4 LOCAL_RANK=$rank MASTER_ADDR=127.0.0.1 \
        MASTER_PORT=29500 TORCHELASTIC_RUN_ID=7 "$program" --only 1300
    [ $status -eq 2 ] || fail "exit status $status, not 2"
    [ $rank -ne 0 ] || says 'torchrun' 'mpirun|--workers'
done

# srun --mpi=none, which is Slurm's default: a shell of that name stands in for the process that starts a task.
if [[ $built_with == *[0-9]* ]] && cp "$(command -v bash)" "$scratch/slurmstepd" 2>/dev/null; then
    # shellcheck disable=SC2016 # for the inner shell
    run "srun without a PMI" env SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0 SLURM_NTASKS=4 \
        "$scratch/slurmstepd" -c '"$1" --only 1300; exit $?' slurmstepd "$program"
    [ $status -eq 2 ] || fail "exit status $status, not 2"
    says 'srun started 4 processes without a PMI' 'SLURM_MPI_TYPE'
    [ "$(wc -l <"$scratch/err")" -eq 1 ] || fail "not one line"
fi

if [ -n "$openmpi" ] && command -v mpiexec.mpich >/dev/null; then
    # Each process keeps its own status: the launcher's says little about them.
    # shellcheck disable=SC2016 # for the inner shell
    run "Open MPI build under MPICH's mpiexec" mpiexec.mpich -n 3 sh -c \
        '"$1" --only 1300; echo $? >"$2/status.$PMI_RANK"' sh "$program" "$scratch"
    [ "$(cat "$scratch"/status.* 2>/dev/null | tr '\n' ' ')" = '2 2 2 ' ] ||
        fail "exit statuses are $(cat "$scratch"/status.* 2>/dev/null | tr '\n' ' '), not 2 2 2"
    [ "$(grep '^error: ' "$scratch/err" | sort -u | wc -l)" -eq 1 ] || fail "not one message"
    says 'MPI'
else
    echo "skipped: a foreign mpiexec needs MPICH's mpiexec and a build with Open MPI"
fi

if [ -n "$openmpi" ]; then
    launch=(mpirun --oversubscribe --allow-run-as-root)
    run "mpirun -n 2 with --workers 3" "${launch[@]}" -n 2 "$program" --workers 3 --only 1300
    [ $status -eq 2 ] || fail "exit status $status, not 2"
    grep '^error: ' "$scratch/err" | grep -E '\b3\b' | grep -Eq '\b2\b' || fail "does not name both numbers"
    run "mpirun -n 2 with --workers 2" "${launch[@]}" -n 2 "$program" --workers 2 --only 1300
    [ $status -eq 0 ] || fail "exit status $status, not 0"
    run "mpirun -n 1" "${launch[@]}" -n 1 "$program" --only 1300
    [ $status -eq 0 ] || fail "exit status $status, not 0"
elif [[ -n $mpirun && $built_with == no* ]]; then
    run "a build without MPI under mpirun" mpirun --oversubscribe --allow-run-as-root -n 2 "$program" --only 1300
    [ $status -eq 2 ] || fail "exit status $status, not 2"
    says 'without MPI'
else
    echo "skipped: mpirun needs Open MPI, and a build with it or without any MPI"
fi

if [ "$failures" -gt 0 ]; then
    echo "$failures failures in $cases cases"
    exit 1
fi
echo "$cases cases"
