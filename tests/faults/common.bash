# common.bash: what the fault tests share; sourced by them, with bash.
#
# A test starts `victim` in the background, does something to it, and looks at four things: how soon it ended, its exit
# status, what it said, and what it left behind. Only processes that the test itself started are ever signalled.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1

BUILD=${BUILD:-build}
TIER=${TIER:-short}
victim=$BUILD/tests/faults/victim
[ -x "$victim" ] || { echo "$victim is missing: run \`make programs\`"; exit 1; }
victim=$(cd "$(dirname "$victim")" && pwd)/victim

scratch=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-faults.XXXXXX") || exit 1
failures=0
cases=0
parent=
what=

now_ms() { echo $((${EPOCHREALTIME/[.,]/} / 1000)); }

# Running: there, and not a zombie that waits for a parent which will not come.
is_alive() {
    local stat
    { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
    case "${stat##*) }" in Z* | X*) return 1 ;; esac
}

worker_pids() { cat "$scratch"/pids/[0-9]* 2>/dev/null; }

# Kills what is left of the running case. A number may have been given to another program since: look at its name.
stop_leftovers() {
    local pid
    for pid in $parent $(worker_pids); do
        is_alive "$pid" || continue
        case "$(cat "/proc/$pid/comm" 2>/dev/null)" in victim | mpirun) kill -KILL "$pid" 2>/dev/null ;; esac
    done
}
trap 'stop_leftovers; rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM HUP

fail() {
    failures=$((failures + 1))
    echo "FAIL $what: $*"
    sed 's/^/    stderr: /' "$scratch/err" 2>/dev/null
}

# Without what Open MPI has there, and the scratch folders of tests that run elsewhere.
shm_files() { find /dev/shm -mindepth 1 -maxdepth 1 -not -name 'vader_segment*' -not -name 'lockstep-tests.*' 2>/dev/null | sort; }

# start NAME ARGS…: starts the victim; `parent` is its process. A prefix command may be given in the array `through`.
through=()
start() {
    what=$1
    shift
    cases=$((cases + 1))
    rm -rf "$scratch/pids"
    mkdir "$scratch/pids"
    chmod 777 "$scratch" "$scratch/pids"
    shm_files >"$scratch/shm"
    "${through[@]}" "$victim" --pids "$scratch/pids" "$@" >"$scratch/out" 2>"$scratch/err" &
    parent=$!
}

# Waits until all workers are at work.
await_workers() {
    local end=$(($(now_ms) + 10000))
    while [ "$(worker_pids | wc -l)" -lt "$1" ]; do
        if [ "$(now_ms)" -gt $end ] || ! is_alive "$parent"; then
            fail "its $1 workers did not start"
            return 1
        fi
        sleep 0.01
    done
}

# finish LIMIT_MS STATUS: the victim ends within the limit with this exit status and leaves nothing behind.
finish() {
    local limit=$1 wanted=$2 begin status pid
    begin=$(now_ms)
    while is_alive "$parent" && [ $(($(now_ms) - begin)) -le "$limit" ]; do sleep 0.01; done
    if is_alive "$parent"; then
        fail "still running after $limit ms"
        stop_leftovers
        wait "$parent" 2>/dev/null
        return 1
    fi
    wait "$parent" 2>/dev/null
    status=$?
    case " $wanted " in
    *" $status "*) ;;
    *) fail "exit status $status, not $wanted" ;;
    esac
    await_gone $((limit - ($(now_ms) - begin)))
    shm_files | comm -13 "$scratch/shm" - | grep . && fail "left the files above in /dev/shm"
    return 0
}

# Passes if all workers have exited within $1 ms (plus the time that the system takes to end a process).
await_gone() {
    local pid end=$(($(now_ms) + ($1 > 200 ? $1 : 200)))
    for pid in $(worker_pids); do
        while is_alive "$pid" && [ "$(now_ms)" -le $end ]; do sleep 0.01; done
        if is_alive "$pid"; then fail "worker process $pid is still there"; fi
    done
}

# said_once PATTERN…: exactly one line of error, which matches every pattern; nothing else but warnings.
said_once() {
    local pattern count
    count=$(grep -c '^error: ' "$scratch/err")
    [ "$count" -eq 1 ] || fail "$count lines of error, not one"
    if grep -v -e '^error: ' -e '^lockstep: warning: ' "$scratch/err" | grep -q .; then fail "said more than errors and warnings"; fi
    for pattern in "$@"; do
        grep '^error: ' "$scratch/err" | grep -Eqi -- "$pattern" || fail "the error does not say '$pattern'"
    done
}

finished() {
    if [ "$failures" -gt 0 ]; then
        echo "$failures failures in $cases cases"
        exit 1
    fi
    echo "$cases cases"
    exit 0
}
