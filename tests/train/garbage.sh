#!/usr/bin/env bash
# garbage.sh: trains on data with a region of valid but meaningless tokens, which `lockstep doctor` must report. (Ids that the model
# does not have are refused before the first step: tests/cli/train.test, tests/unit/test_corpus.c.) In the long tier with several texts.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

model=$scratch/model.json
echo '{"arch": "llama", "vocab": 256, "width": 32, "layers": 2, "heads": 4, "head-size": 8, "hidden": 64, "positions": 32}' >"$model"
experiment=(--model "$model" --seq 32 --global-batch 16 --groups 16 --lr 0.002 --warmup 20 --eval-every 0 --threads 1 --on-outlier warn)

# prose SEED FROM: words of one kind; from line FROM on, 24 lines of any bytes but newlines. Its own generator (products stay below 2^53), since
# rand() is another one in each awk.
prose() {
    LC_ALL=C awk -v state="$1" -v from="$2" '
        function draw() { state = state * 16807 % 2147483647; return state / 2147483647 }
        BEGIN {
            for (i = 0; i < 10; i++) draw()
            split("the of and to in is that it was for on are with as his they at be this from have or by one had not but what all were when", word, " ")
            for (line = 0; line < 3000; line++) {
                if (from > 0 && line >= from && line < from + 24) {
                    for (i = 0; i < 70; i++) printf "%c", 33 + int(draw() * 94)
                } else {
                    w = 1 + int(31 * draw() * draw())
                    for (i = 0; i < 12; i++) { printf "%s ", word[w]; w = draw() < 0.7 ? 1 + (w * 7 + int(draw() * 3)) % 31 : 1 + int(31 * draw() * draw()) }
                }
                print ""
            }
        }'
}

# ask_doctor NAME: what it says of the run goes to $scratch/out.
ask_doctor() { "$LOCKSTEP" doctor "$scratch/$1" >"$scratch/out" 2>"$scratch/err" || fail "doctor failed"; }

seeds=(7)
[ "$TIER" != long ] || seeds=(1 2 3 4 5 6 7 8)
for seed in "${seeds[@]}"; do
    prose "$seed" 0 >"$scratch/good.txt"
    prose "$seed" 1000 >"$scratch/bad.txt"

    case_begin "sound text, seed $seed"
    train "${experiment[@]}" --data "$scratch/good.txt" --steps 240 --out "$scratch/good$seed"
    expect_status 0
    ! grep '"event":"outlier"' "$scratch/good$seed/metrics.jsonl" || fail "a group stood out"
    ask_doctor "good$seed"
    grep -Eq '^verdict: no problem found in [0-9]+ steps$' "$scratch/out" || fail "doctor names a cause: $(grep verdict "$scratch/out")"

    case_begin "a region of legal bytes that mean nothing, seed $seed"
    train "${experiment[@]}" --data "$scratch/bad.txt" --steps 240 --out "$scratch/bad$seed"
    expect_status 0
    grep -q '"event":"outlier"' "$scratch/bad$seed/metrics.jsonl" || fail "no group stood out"
    ask_doctor "bad$seed"
    grep -q '^verdict: bad data' "$scratch/out" || fail "doctor does not say bad data: $(grep verdict "$scratch/out")"
done
finished
