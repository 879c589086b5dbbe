#!/usr/bin/env bash
# garbage.sh: data with a region of legal tokens that mean nothing: it is trained on, and `lockstep doctor` tells. (Ids that the model
# does not have are refused before the first step: tests/cli/train.test, tests/unit/test_corpus.c.)
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

model=$scratch/model.json
echo '{"arch": "llama", "vocab": 256, "width": 32, "layers": 2, "heads": 4, "head-size": 8, "hidden": 64, "positions": 32}' >"$model"
experiment=(--model "$model" --seq 32 --global-batch 16 --groups 16 --lr 0.002 --warmup 20 --eval-every 0 --threads 1 --on-outlier warn)

# prose FROM: words of one kind, the same everywhere; from line FROM on, 24 lines of any bytes but newlines.
prose() {
    LC_ALL=C awk -v from="$1" 'BEGIN {
        srand(7)
        split("the of and to in is that it was for on are with as his they at be this from have or by one had not but what all were when", word, " ")
        for (line = 0; line < 3000; line++) {
            if (from > 0 && line >= from && line < from + 24) {
                for (i = 0; i < 70; i++) printf "%c", 33 + int(rand() * 94)
            } else {
                w = 1 + int(31 * rand() * rand())
                for (i = 0; i < 12; i++) { printf "%s ", word[w]; w = rand() < 0.7 ? 1 + (w * 7 + int(rand() * 3)) % 31 : 1 + int(31 * rand() * rand()) }
            }
            print ""
        }
    }'
}
prose 0 >"$scratch/good.txt"
prose 1000 >"$scratch/bad.txt"

case_begin "sound text"
train "${experiment[@]}" --data "$scratch/good.txt" --steps 240 --out "$scratch/good"
expect_status 0
"$LOCKSTEP" doctor "$scratch/good" >"$scratch/out" 2>"$scratch/err" || fail "doctor failed"
grep -q '^verdict: no cause found' "$scratch/out" || fail "doctor names a cause: $(grep verdict "$scratch/out")"

case_begin "a region of legal bytes that mean nothing"
train "${experiment[@]}" --data "$scratch/bad.txt" --steps 240 --out "$scratch/bad"
expect_status 0
grep -q '"event":"outlier"' "$scratch/bad/metrics.jsonl" || fail "no group stood out"
"$LOCKSTEP" doctor "$scratch/bad" >"$scratch/out" 2>"$scratch/err" || fail "doctor failed"
grep -q '^verdict: bad data' "$scratch/out" || fail "doctor does not say bad data: $(grep verdict "$scratch/out")"
finished
