#!/usr/bin/env bash
# kills.sh: SIGKILL for any worker inside any collective at a random moment. The others end within two seconds, with one error
# that names the worker and the signal, exit status 3, and nothing left behind. KILLS=n sets the number, SEED=n the draws.
# Runs alone: the others have two seconds to end.
# shellcheck source=tests/faults/common.bash
. "$(dirname "$0")/common.bash"

ops=(barrier broadcast all_gather all_to_all send_recv all_reduce reduce_scatter tensors)
sizes=(64 8192 65536 4194304)
case "$TIER" in
long) kills=${KILLS:-100} ;;
*) kills=${KILLS:-10} ;;
esac
seed=${SEED:-$((${EPOCHREALTIME/[.,]/} % 30000))}
RANDOM=$seed
echo "$kills kills, seed $seed"

for ((i = 0; i < kills; i++)); do
    workers=$((2 + i % 3))
    rank=$((i / 3 % workers))
    op=${ops[i % ${#ops[@]}]}
    bytes=${sizes[RANDOM % ${#sizes[@]}]}
    delay_ms=$((RANDOM % 150))
    start "kill $i: rank $rank of $workers in $op of $bytes bytes after $delay_ms ms" \
        --workers $workers --op "$op" --bytes "$bytes" --timeout 60
    await_workers $workers || continue
    sleep "$(printf '0.%03d' $delay_ms)"
    target=$(cat "$scratch/pids/$rank")
    kill -KILL "$target"
    finish 2000 3 && said_once "worker $rank\b" 'SIGKILL|signal 9|killed'
done
finished
