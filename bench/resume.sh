#!/usr/bin/env bash
# resume.sh: measures `train --resume` of a run whose metrics have a million lines, and of the same run with a few.
#
#   LOCKSTEP=build/lockstep LINES=1000000 ROUNDS=5 bench/resume.sh
#
# A run of 64 small steps gets its metrics lengthened to LINES, in files of 4 MB as a long run sets them aside. Each time a copy of the folder
# is resumed, which has no step left to do: what is measured is the start, the load and the end.
# shellcheck source=bench/common.bash
. "$(dirname "$0")/common.bash"
LINES=${LINES:-1000000} ROUNDS=${ROUNDS:-5}
echo '{"arch": "gpt2", "vocab": 256, "width": 16, "layers": 1, "heads": 2, "hidden": 32, "positions": 32}' >"$scratch/model.json"
"$LOCKSTEP" train --model "$scratch/model.json" --tokenizer bytes --data "$scratch/text.txt" --seq 16 --global-batch 2 --groups 2 --steps 64 --eval-every 0 \
    --sample-every 0 --save-every 0 --workers 1 --out "$scratch/short" >"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
cp -r "$scratch/short" "$scratch/long"
grep '"step":[0-9]*,"loss"' "$scratch/short/metrics.jsonl" | awk -v folder="$scratch/long" -v lines="$LINES" '
    /"step":64,/ { next }
    {
        match($0, /"step":[0-9]+/)
        name = sprintf("%s/metrics-%012d.jsonl", folder, substr($0, RSTART + 7, RLENGTH - 7))
        for (i = 0; i < lines / 63; i++) print > name
        close(name)
    }'
{
    echo '{"step":64,"continues":"metrics-000000000063.jsonl"}'
    sed -n '/"step":64,/p' "$scratch/short/metrics.jsonl"
} >"$scratch/long/metrics.jsonl"
measure() {
    local begin
    local TIMEFORMAT='%U %S'
    rm -rf "$scratch/run"
    cp -r "$scratch/$1" "$scratch/run"
    begin=${EPOCHREALTIME/[.,]/}
    { time "$LOCKSTEP" train --resume --out "$scratch/run" >"$scratch/log" 2>&1 </dev/null; } 2>"$scratch/cpu" || { cat "$scratch/log"; exit 1; }
    echo "$(((${EPOCHREALTIME/[.,]/} - begin) / 1000)) $(awk '{ print 1000 * ($1 + $2) }' "$scratch/cpu")" >>"$scratch/$1.ms"
}
for ((r = 0; r < ROUNDS; r++)); do
    measure short
    measure long
done
echo "| lines of metrics | files | MB | ms to resume, median (worst) | of CPU, mean |"
echo "|---|---|---|---|---|"
for kind in short long; do
    sort -g "$scratch/$kind.ms" | awk -v l="$(cat "$scratch/$kind"/metrics*.jsonl | wc -l)" -v f="$(find "$scratch/$kind" -name 'metrics*.jsonl' | wc -l)" \
        -v b="$(cat "$scratch/$kind"/metrics*.jsonl | wc -c)" '{ v[NR] = $1; cpu += $2 } END { printf "| %d | %d | %.1f | %d (%d) | %.0f |\n", l, f, b / 1e6, v[int((NR + 1) / 2)], v[NR], cpu / NR }'
done
