#!/usr/bin/env bash
# overhead.sh: cost of fault tolerance in an undisturbed run: median step time with and without it, run alternately (tools/ab).
#
#   LOCKSTEP=build/lockstep MODEL=small.json WORKERS=8 ROUNDS=11 STEPS=40 SEQ=128 BATCH=16 ROWS="hashes supervision all" OLD=COMMIT bench/overhead.sh
#
# METRIC=cpu compares the CPU time of all workers in the median step instead: on a machine that others use too it moves less.
#
#   hashes        --check off against the default: the hash of the state after every step, replicas compared
#   supervision   --restarts 0 against 3: state in shared memory, the journal of the update, numbers written down
#   copies        --state-copies 0 against 1
#   all           --check off --restarts 0 against the defaults
#   old           OLD, a commit or a program, with its defaults, against this program with its own
# shellcheck source=bench/common.bash
. "$(dirname "$0")/common.bash"
WORKERS=${WORKERS:-8} ROUNDS=${ROUNDS:-11} STEPS=${STEPS:-40} SEQ=${SEQ:-128} BATCH=${BATCH:-16}
FLAGS=${FLAGS:-} OLD=${OLD:-} MODEL=${MODEL:-} METRIC=${METRIC:-step}
ROWS=${ROWS:-"hashes supervision copies all${OLD:+ old}"}
if [ -z "$MODEL" ]; then
    MODEL=$scratch/model.json
    echo '{"arch": "gpt2", "vocab": 256, "width": 384, "layers": 6, "heads": 6, "hidden": 1536, "positions": 1024}' >"$MODEL"
fi
# variant NAME PROGRAM [FLAGS]: a program for tools/ab: a run, and its median step without the first ones.
variant() {
    cat >"$scratch/$1" <<END
#!/usr/bin/env bash
set -e
"$2" train --model $MODEL --tokenizer bytes --data $scratch/text.txt --seq $SEQ --global-batch $BATCH --steps $STEPS --eval-every 0 --sample-every 0 \\
    --save-every 0 --workers $WORKERS $FLAGS ${3-} --out "\$1/run" >"\$1/log" 2>&1 || { cat "\$1/log"; exit 1; }
python3 "$here/bench/metrics.py" "\$1/run" steps $([ "$METRIC" = cpu ] && echo cpu_ms || echo ms) |
    awk '{ n = split(\$1, each, ","); sum = 0; for (i = 1; i <= n; i++) sum += each[i]; print sum }' | tail -n +4 | sort -g | awk '{ v[NR] = \$1 } END { print "step_ms", v[int((NR + 1) / 2)] }'
END
    chmod +x "$scratch/$1"
}
# row NAME: $scratch/without beside $scratch/with
row() {
    local code=0
    "$here/tools/ab" --rounds "$ROUNDS" --metric 'step_ms ([0-9.]+)' --lower "$scratch/without" "$scratch/with" -- {} '{dir}' >"$scratch/ab" 2>&1 || code=$?
    [ "$code" -lt 2 ] || {
        cat "$scratch/ab"
        exit 1
    }
    awk -v name="$1" '/^OLD/ { a = $3 } /^NEW/ { b = $3 } /^speed of NEW/ { m = $7 + 0; low = $11 + 0; high = $13 + 0 } /^verdict/ { sub("verdict: ", ""); v = $0 }
        END { printf "| %s | %.1f | %.1f | %+.2f %% (%+.2f to %+.2f) | %s |\n", name, a, b, 100 * (1 / m - 1), 100 * (1 / high - 1), 100 * (1 / low - 1), v }' "$scratch/ab"
}
echo "| $WORKERS workers, $ROUNDS rounds | ${METRIC} ms without | with | cost, median (95 % interval) | tools/ab: with against without |"
echo "|---|---|---|---|---|"
for name in $ROWS; do
    case $name in
    hashes) variant without "$LOCKSTEP" "--check off" && variant with "$LOCKSTEP" ;;
    supervision) variant without "$LOCKSTEP" "--restarts 0" && variant with "$LOCKSTEP" ;;
    copies) variant without "$LOCKSTEP" && variant with "$LOCKSTEP" "--state-copies 1" ;;
    all) variant without "$LOCKSTEP" "--check off --restarts 0" && variant with "$LOCKSTEP" ;;
    old)
        program=$OLD
        [ -x "$OLD" ] || {
            # tools/ab builds it, and this asks for the folder that it builds in.
            "$here/tools/ab" --rounds 6 --warmup 0 "$OLD" "$LOCKSTEP" -- {} version >/dev/null
            program=$here/build/ab/$(git -C "$here" rev-parse "$OLD^{commit}")/lockstep
        }
        variant without "$program" && variant with "$LOCKSTEP"
        ;;
    *)
        echo "unknown row $name" >&2
        exit 2
        ;;
    esac
    row "$name"
done
