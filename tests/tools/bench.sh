#!/usr/bin/env bash
# bench.sh: the reader of metrics that all benchmarks share (bench/metrics.py) tells steps from all other lines of a run.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/../train/common.bash"
command -v python3 >/dev/null || { echo "there is no python3"; exit 77; }

# expect EXPECTED ARGUMENTS...: what bench/metrics.py prints, lines joined by "|".
expect() {
    local expected=$1 found
    shift
    python3 bench/metrics.py "$@" >"$scratch/out" 2>"$scratch/err" || fail "exit status $?"
    found=$(tr '\n' '|' <"$scratch/out")
    [ "$found" = "$expected" ] || fail "expected '$expected', got '$found'"
}

case_begin "a run with evaluations, samples and saves"
train --model "$gpt2" --tokenizer bytes --data "$text" --seq 16 --global-batch 2 --groups 2 --steps 4 --eval-every 2 --sample-every 2 --save-every 2 \
    --numerics 2 --out "$scratch/run"
expect_status 0
expect "1|2|3|4|" "$scratch/run" steps step
[ "$(python3 bench/metrics.py "$scratch/run" saves step ms | wc -l)" -eq 2 ] || fail "there are not two saves"
expect "" "$scratch/run" restarts step
expect "1|" "$scratch/run" first-step step
python3 bench/metrics.py "$scratch/run" steps ms | grep -Evq '^[0-9.]+$' && fail "a step has no time"

case_begin "several files, steps that were repeated, damaged lines"
mkdir -p "$scratch/old"
cat >"$scratch/old/metrics-000000000002.jsonl" <<'END'
{"step":1,"started":true,"version":"0.2.0"}
{"step":1,"loss":5.5,"ms":40}
{"step":2,"loss":"nan","ms":30}
END
cat >"$scratch/old/metrics.jsonl" <<'END'
{"step":2,"continues":"metrics-000000000002.jsonl","saved_step":0}
{"step":3,"loss":5.25,"ms":31,"busy_ms":[1,2]}
{"step":3,"event":"state","worker":1,"loss":1}
{"step":3,"lo
not JSON
7
{"step":3,"started":true,"restart":1,"recovery_parts_ms":[1,2.5]}
{"step":3,"loss":5.125,"ms":32,"busy_ms":[3,4]}
{"step":3,"val_loss":5,"ms":900}
{"step":3,"saved":false,"error":"no space"}
{"step":4,"saved":true,"saved_step":3,"ms":800,"stall_ms":7}
{"step":4,"loss":5,"ms":33}
{"step":5,"loss":4.
END
expect "1 40 -|2 30 -|3 32 3,4|4 33 -|" "$scratch/old" steps step ms busy_ms
expect "4 3 7 800|" "$scratch/old" saves step saved_step stall_ms ms
expect "3 1,2.5|" "$scratch/old" restarts step recovery_parts_ms
expect "3 32|" "$scratch/old" first-step step ms
expect "" "$scratch/none" steps step
finished
