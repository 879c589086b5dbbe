#!/usr/bin/env bash
# conformance.sh: the collectives on many numbers of workers, in shared memory and through MPI, and the bits of their sums, which
# must be the same everywhere and those of the plain tree in one process. TIER=long adds more numbers of
# workers, all sizes and more seeds; TEST_SAMPLE=1 (tests/run) takes fewer of both.
set -u
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build}
TIER=${TIER:-short}
program=$BUILD/tests/comm/conformance
[ -x "$program" ] || { echo "$program is missing: run \`make programs\`"; exit 1; }
scratch=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-conformance.XXXXXX") || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM HUP
failures=0
layouts=0

fail() {
    failures=$((failures + 1))
    echo "FAIL $*"
}

# check NAME COMMAND…: runs one layout; its bits must be those of the reference with the same seed.
check() {
    local name=$1 begin=${EPOCHREALTIME/[.,]/} wanted found
    shift
    layouts=$((layouts + 1))
    if ! "$@" --seed "$seed" >"$scratch/out" 2>"$scratch/err"; then
        fail "$name: exit status $?"
        sed 's/^/    /' "$scratch/err"
        return
    fi
    printf '%s: %s (%d ms)\n' "$name" "$(grep '^conformance:' "$scratch/out")" $(((${EPOCHREALTIME/[.,]/} - begin) / 1000))
    grep -q "^conformance: transport=$transport workers=$workers " "$scratch/out" || fail "$name: did not run on $transport with $workers workers"
    found=$(grep '^bits ' "$scratch/out")
    case "$*" in *"--only 1300"*) return ;; esac
    wanted=$(if [ "$workers" -le 8 ]; then sed -n 's/^reference G=8/bits G=8/p' "$scratch/reference"; fi
        sed -n 's/^reference G=12/bits G=12/p' "$scratch/reference")
    [ "$found" = "$wanted" ] || fail "$name: bits are '$found', not '$wanted'"
}

shared_memory() {
    for workers in "$@"; do
        transport=shm
        [ "$workers" -ne 1 ] || transport=self
        check "$transport, $workers workers" "$program" --workers "$workers" ${TEST_SAMPLE:+--some}
    done
}

shared_memory_bits() {
    transport=shm
    for workers in "$@"; do check "shm, $workers workers, bits" "$program" --workers "$workers" --only bits; done
}

# mpi NODE_SIZE WORKERS…: workers in parts of NODE_SIZE that share memory; 0: all share memory, 1: all through MPI.
mpi() {
    local node_size=$1
    shift
    transport=mpi
    for workers in "$@"; do
        check "mpi, $workers workers, $node_size a node" mpirun "${mpi_options[@]}" -n "$workers" "$program" --node-size "$node_size" "${some[@]}"
    done
}

have_mpi=
mpi_options=(--oversubscribe --allow-run-as-root)
if ! "$BUILD/lockstep" --version 2>/dev/null | grep -q '^MPI .*Open MPI'; then
    echo "skipped: the build has no Open MPI"
elif ! mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
    echo "skipped: there is no mpirun of Open MPI"
else
    have_mpi=yes
fi

seed=1
"$program" --reference --seed $seed >"$scratch/reference" || fail "no reference"
[ "$(grep -c '^reference G=' "$scratch/reference")" -eq 2 ] || fail "the reference has not two lines"
# Golden: the same on ARM64 and x86-64, on every ISA.
if [ "$seed" = 1 ]; then
    printf 'reference G=8 f4ab17624742d99e\nreference G=12 1f1eae8afbf6a9f0\n' | diff - "$scratch/reference" || fail "not the golden bits"
fi

# Three workers with 150 200 50, 300 100 and 250 150 100; on other numbers the same eight, divided evenly.
for workers in 3 1 8; do
    transport=shm
    [ "$workers" -ne 1 ] || transport=self
    check "1300 on $workers workers" "$program" --workers $workers --only 1300
done

shared_memory 1 2 3
[ "$TIER" = short ] || shared_memory 4 5 7 8
if [ -n "${TEST_SAMPLE:-}" ]; then shared_memory_bits 5 12; else shared_memory_bits 4 5 6 7 8 9 10 11 12; fi
# The same sums again on other ways: in the short tier fewer of the long ones.
some=()
[ "$TIER" = long ] || some=(--some)
transport=shm
workers=3
check "shm, 3 workers, a slow link" "$program" --workers 3 --slow-link-us 20 "${some[@]}"
if [ -n "$have_mpi" ]; then
    if [ "$TIER" = long ]; then
        for node_size in 0 1 2 3; do mpi $node_size 2 3 4 5 6 7 8; done
    else
        mpi 1 3
        mpi 2 3
        mpi 0 2
    fi
fi

if [ "$TIER" = long ]; then
    for seed in 2 3 4 5 6 7 8; do
        "$program" --reference --seed $seed >"$scratch/reference" || fail "no reference"
        shared_memory 2 3 4 6 8
        [ -z "$have_mpi" ] || mpi $((seed % 3)) 3 4 6
    done
    transport=shm workers=3
    for buffers in shared private mixed; do
        check "shm, 3 workers, $buffers buffers" "$program" --workers 3 --buffers $buffers
    done
fi

if [ "$failures" -gt 0 ]; then
    echo "$failures failures in $layouts layouts"
    exit 1
fi
echo "$layouts layouts"
