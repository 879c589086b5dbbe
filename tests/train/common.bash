# common.bash: what the tests of training share; sourced by them, with bash.
#
# A test makes its own text and its own tiny models, trains in a folder of its own, and compares what a user would compare: the
# last line of the output, the exit status, what was said, and what is in the run directory.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1

BUILD=${BUILD:-build}
TIER=${TIER:-short}
LOCKSTEP=${LOCKSTEP:-$BUILD/lockstep}
[ -x "$LOCKSTEP" ] || { echo "$LOCKSTEP is missing: run \`make\`"; exit 1; }
LOCKSTEP=$(cd "$(dirname "$LOCKSTEP")" && pwd)/$(basename "$LOCKSTEP")

# LS_* variables that the developer has exported must not change what the tests do.
for name in $(env | sed -n 's/^\(LS_[A-Za-z0-9_]*\)=.*/\1/p'); do unset "$name"; done
unset NO_COLOR
# On the CPU, whatever there is; TEST_DEVICE=cuda runs them on a GPU, with the same results.
export LS_DEVICE=${TEST_DEVICE:-cpu}

scratch=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-train.XXXXXX") || exit 1
export XDG_CACHE_HOME=$scratch/cache
failures=0
cases=0
what=
child=

# What has not ended after this long hangs. tests/run tells how long the whole test may take, and with sanitizers that is longer.
patience_s=$((${TEST_TIMEOUT_S:-240} * 3 / 8))
[ "$TIER${TEST_TIMEOUT_S:-}" != long ] || patience_s=600
guard=
nothing=$scratch/nothing # a pipe without a writer
mkfifo "$nothing" || exit 1

# Running: there, and not a zombie.
is_alive() {
    local stat
    { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
    case "${stat##*) }" in Z* | X*) return 1 ;; esac
}

stop_child() {
    if [ -n "$child" ] && is_alive "$child"; then kill -KILL "$child" 2>/dev/null; fi
    [ -z "$guard" ] || kill -KILL "$guard" 2>/dev/null
    child='' guard=''
}
trap 'stop_child; rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM HUP

# With TEST_SAMPLE=1 (tests/run) one of each kind is enough. more COMMAND…: one more of a kind that others are of; sample FEW ALL: what is to be taken.
more() { [ -n "${TEST_SAMPLE:-}" ] || "$@"; }
sample() { if [ -n "${TEST_SAMPLE:-}" ]; then echo "$1"; else echo "$2"; fi; }

now_ms() { echo $((${EPOCHREALTIME/[.,]/} / 1000)); }

fail() {
    failures=$((failures + 1))
    echo "FAIL $what: $*"
    sed 's/^/    stdout: /' "$scratch/out" 2>/dev/null | tail -n 5
    sed 's/^/    stderr: /' "$scratch/err" 2>/dev/null | tail -n 5
}

case_begin() {
    what=$1
    cases=$((cases + 1))
}

# A process and all below it.
tree_of() {
    local pid
    echo "$1"
    for pid in $(cat "/proc/$1/task/"*/children 2>/dev/null); do tree_of "$pid"; done
}

# end_after SECONDS PID: if the process is still alive, prints its tree, what each process waits for and their output, and kills the tree.
end_after() {
    local pids pid file
    read -r -t "$1" <>"$nothing"
    is_alive "$2" || return
    : >"$scratch/hung"
    pids=$(tree_of "$2")
    echo "still running after $1 s:"
    # shellcheck disable=SC2086 # process numbers are words
    ps -o pid,ppid,stat,wchan:24,etimes,args -p $pids
    for pid in $(command -v gdb >/dev/null && echo "$pids"); do
        echo "threads of $pid:"
        timeout 10 gdb -p "$pid" -batch -ex 'thread apply all bt' 2>/dev/null | grep -E '^(#|Thread)' | cut -c1-160 | head -n 60
    done
    for file in out err; do sed "s/^/    std$file: /" "$scratch/$file" 2>/dev/null | tail -n 30; done
    # shellcheck disable=SC2086
    kill -KILL $pids 2>/dev/null
}

# wait_for PID [SECONDS]: until it has ended, whose status it gives; that it ends is not news to the shell. What hangs is ended, and is a failure.
wait_for() {
    local ended seconds=${2:-$patience_s}
    end_after "$seconds" "$1" &
    guard=$!
    wait "$1" 2>/dev/null
    ended=$?
    if [ -e "$scratch/hung" ]; then
        wait "$guard"
        rm -f "$scratch/hung"
        fail "it hung, and was ended after $seconds s"
    fi
    { kill -KILL "$guard" && wait "$guard"; } 2>/dev/null
    guard=
    return $ended
}

# beside FUNCTION ARGUMENTS…: cases that mostly wait, in a shell and a folder of their own, while others go on; join: until all of these
# have ended, with their failures among this test's.
beside_pids=()
beside() {
    local folder=$scratch/beside-${#beside_pids[@]}
    mkdir -p "$folder"
    (
        scratch=$folder failures=0 cases=0 child='' guard=''
        trap stop_child EXIT
        "$@"
        echo "$failures $cases" >"$scratch/count"
    ) >"$folder.log" 2>&1 &
    beside_pids+=($!)
}
join() {
    local i own all
    for i in "${!beside_pids[@]}"; do
        wait_for "${beside_pids[i]}" $((2 * patience_s)) # each of its waits has a limit of its own
        cat "$scratch/beside-$i.log"
        own=1 all=1
        { read -r own all <"$scratch/beside-$i/count"; } 2>/dev/null || echo "cases side by side ended before their end"
        failures=$((failures + own))
        cases=$((cases + all))
    done
    beside_pids=()
}

finished() {
    if [ "$failures" -gt 0 ]; then
        echo "$failures failures in $cases cases"
        exit 1
    fi
    echo "$cases cases"
    exit 0
}

# ---- input -------------------------------------------------------------------------------------------------------------

# $1 lines of text, the same everywhere.
make_text() {
    local i
    for ((i = 1; i <= $1; i++)); do
        echo "line $i: $((i * i)) quick brown foxes jump over $((i * 7 % 31)) lazy dogs"
    done
}

text=$scratch/text.txt
make_text 150 >"$text"

# Odd sizes on purpose: nothing is a multiple of a vector or of a tile.
gpt2=$scratch/gpt2.json
deep=$scratch/model.json # enough layers and heads for every kind of layout
llama=$scratch/llama.json
echo '{"arch": "gpt2", "vocab": 256, "width": 36, "layers": 2, "heads": 3, "hidden": 50, "positions": 24}' >"$gpt2"
echo '{"arch": "gpt2", "vocab": 256, "width": 36, "layers": 3, "heads": 4, "head-size": 9, "hidden": 50, "positions": 24}' >"$deep"
echo '{"arch": "llama", "vocab": 256, "width": 40, "layers": 2, "heads": 6, "kv-heads": 3, "head-size": 8, "hidden": 44,
       "positions": 20}' >"$llama"

# ---- running -----------------------------------------------------------------------------------------------------------

status=0
# train ARGS…: runs it to its end; `status`, $scratch/out and $scratch/err tell what came of it.
train() {
    start "$@"
    reap
}

# start ARGS…: in the background, as `child`. A background process of a shell ignores SIGINT unless told otherwise.
start() {
    env --default-signal=INT,HUP "$LOCKSTEP" train "$@" >"$scratch/out" 2>"$scratch/err" </dev/null &
    child=$!
}

reap() {
    wait_for "$child"
    status=$?
    child=
}

# await_steps DIR COUNT: until that many steps are in the metrics of the child's run.
await_steps() {
    local count end=$(($(now_ms) + 60000))
    while
        count=$(grep -c '"loss"' "$1/metrics.jsonl" 2>/dev/null)
        [ "${count:-0}" -lt "$2" ]
    do
        if [ "$(now_ms)" -gt $end ] || ! is_alive "$child"; then
            fail "it did not come to step $2"
            return 1
        fi
        sleep 0.01
    done
}

expect_status() { [ "$status" -eq "$1" ] || fail "exit status $status, not $1"; }
expect_said() { grep -Eq -- "$1" "$scratch/err" || fail "it did not say '$1'"; }

# The hash of the weights in the last line of the output; empty where the run did not end as it should.
weights() { tail -n 1 "$scratch/out" | sed -n 's/^done: steps=[0-9]* loss=[^ ]* weights=xxh128:\([0-9a-f]\{32\}\) identity=[0-9a-f]\{32\}$/\1/p'; }

expect_weights() {
    local found
    expect_status 0
    found=$(weights)
    [ "$found" = "$1" ] || fail "the weights are ${found:-not there}, not $1"
}

# ---- run directories ---------------------------------------------------------------------------------------------------

# The steps of a run with their losses, to the bit.
losses() { sed -n 's/^{"step":\([0-9]*\),"loss":.*"loss_hex":"\([^"]*\)".*/\1 \2/p' "$1/metrics.jsonl"; }

# expect_losses DIR FILE: the metrics have each step once, in order, with the losses of FILE.
expect_losses() {
    losses "$1" >"$scratch/losses"
    cmp -s "$scratch/losses" "$2" || fail "$1/metrics.jsonl differs: $(diff "$scratch/losses" "$2" | head -n 3 | tr '\n' ' ')"
}

steps_of() { find "$1/checkpoints" -maxdepth 1 -name 'step-*[0-9]' -printf '%f\n' 2>/dev/null | sort; }

# expect_no_leftovers DIR: nothing half-written under a name that a reader would take, and no temporary file.
expect_no_leftovers() {
    local folder
    for folder in "$1"/checkpoints/step-*[0-9]; do
        [ -e "$folder" ] || continue
        [ -e "$folder/complete.json" ] || fail "$folder has no marker"
    done
    if find "$1" -name '*.tmp*' | grep -q .; then fail "temporary files are left: $(find "$1" -name '*.tmp*' | tr '\n' ' ')"; fi
}
