#!/usr/bin/env bash
# errors.sh: checks the errors of workers that fail in various ways, and of machines with fewer resources than requested.
# Runs alone: a failed run must end soon.
# shellcheck source=tests/faults/common.bash
. "$(dirname "$0")/common.bash"

sanitized=
if grep -qa __asan_init "$victim"; then sanitized=yes; fi

# ---- a worker fails ----------------------------------------------------------------------------------------------------

for rank in 0 2; do
    start "rank $rank returns an error" --workers 3 --op all_reduce --fail-rank $rank --fail-how error --fail-loop 20 --timeout 60
    finish 3000 1 && said_once "worker $rank\b" 'the sky fell on this worker'
done
start "one worker returns an error" --workers 1 --op all_reduce --fail-rank 0 --fail-how error --fail-loop 20
finish 3000 1 && said_once 'the sky fell on this worker'

start "a worker ends silently" --workers 3 --op all_gather --fail-rank 1 --fail-how exit --fail-loop 20 --timeout 60
finish 3000 3 && said_once 'worker 1\b' 'exit|ended|status' '\b7\b'

start "a worker crashes" --workers 3 --op broadcast --fail-rank 2 --fail-how segv --fail-loop 20 --timeout 60
finish 3000 3 && said_once 'worker 2\b' 'SIGSEGV|signal 11|segmentation'

for op in all_reduce barrier send_recv; do
    start "a worker stops answering in $op" --workers 3 --op $op --fail-rank 1 --fail-how stop --fail-loop 20 --timeout 1
    finish 5000 4 && said_once 'worker 1\b'
done

start "a worker asks for too much shared memory" --workers 2 --op all_reduce --fail-rank 1 --fail-how oom --fail-loop 5 --timeout 60
finish 3000 5 && said_once 'worker 1\b' 'memory|heap'

start "a worker calls another collective" --workers 3 --op all_reduce --fail-rank 1 --fail-how disagree --fail-loop 5 --timeout 60
finish 3000 2 && said_once 'disagree' 'barrier|all-reduce'

start "a worker is done too early" --workers 3 --op all_reduce --fail-rank 1 --fail-how leave --fail-loop 5 --timeout 60
finish 3000 1 && said_once 'worker 1\b' 'exited and will never join'

# ---- limits ------------------------------------------------------------------------------------------------------------

# A search for leaks would need a descriptor itself.
ASAN_OPTIONS=detect_leaks=0:${ASAN_OPTIONS:-} start "no descriptors left" --workers 2 --op all_reduce --loops 10 --limit-files 3
finish 5000 5 && said_once 'descriptor|open files'

# A small address space is enough, or it is refused in words.
if [ -z "$sanitized" ]; then
    for mib in 64 300 2000; do
        start "an address space of $mib MiB" --workers 2 --op all_reduce --loops 10 --limit-memory-mib $mib
        finish 5000 "0 5"
        if grep -q '^done 10' "$scratch/out"; then continue; fi
        said_once 'memory|address space'
    done
fi

if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
    # Root has no limit of processes, so another user runs the victim, from a copy: the build folder may not be readable.
    cp "$victim" "$scratch/victim" && chmod 755 "$scratch/victim" && as_root=$victim
    victim=$scratch/victim
    through=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    start "no processes left" --workers 6 --op all_reduce --loops 10 --limit-processes 3
    finish 5000 5 && said_once 'process'
    through=()
    victim=$as_root
else
    echo "skipped: a limit of processes needs root and setpriv"
fi

# ---- small and crowded machines ----------------------------------------------------------------------------------------

if unshare --mount sh -c 'mount -t tmpfs -o size=64k tmpfs /dev/shm' 2>/dev/null; then
    # shellcheck disable=SC2016 # $@ belongs to the inner shell
    through=(unshare --mount sh -c 'mount -t tmpfs -o size=64k tmpfs /dev/shm && exec "$@"' sh)
    start "a /dev/shm of 64 KiB" --workers 3 --op all --bytes 4194304 --loops 28
    finish 20000 0
    grep -q '^done 28' "$scratch/out" || fail "did not finish its loops"
    through=()
else
    echo "skipped: a small /dev/shm needs the right to mount"
fi

start "two runs at once" --workers 2 --op all --bytes 65536 --loops 200
"$victim" --workers 2 --op all --bytes 65536 --loops 200 >"$scratch/second" 2>&1 &
second=$!
finish 30000 0
wait $second || fail "the second run failed: $(cat "$scratch/second")"
cat "$scratch/out" "$scratch/second" | grep -c '^done 200' | grep -q 2 || fail "a run did not finish its loops"

workers=$(($(nproc) * 4 < 64 ? $(nproc) * 4 : 64))
limit_ms=10000
[ -z "$sanitized" ] || limit_ms=60000
start "more workers than cores" --workers $workers --op all_reduce --bytes 1024 --loops 2000
finish $limit_ms 0
grep -q '^done 2000' "$scratch/out" || fail "did not finish its loops"
grep -qi 'warning.*core' "$scratch/err" || fail "no warning about cores"
finished
