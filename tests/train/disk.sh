#!/usr/bin/env bash
# disk.sh: no space at any write, folders that cannot be written: a message that says so, exit status 5 (2 where the folder was the
# mistake), never a half-written checkpoint, and a run that goes on to the same bits once there is space again.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

experiment=(--model "$gpt2" --data "$text" --steps 8 --seq 11 --global-batch 5 --lr 0.01 --eval-every 3)
case_begin "with space"
train "${experiment[@]}" --save-every 2 --keep 0 --out "$scratch/whole"
expect_status 0
final=$(weights)
losses "$scratch/whole" >"$scratch/whole.losses"

# recovers DIR: after a failure nothing is half-written and, with space again, --resume comes to the same bits. A run that had not
# begun is begun.
recovers() {
    mkdir -p "$1"
    expect_no_leftovers "$1"
    if [ -e "$1/identity.json" ]; then
        train "${experiment[@]}" --resume --out "$1"
    else
        train "${experiment[@]}" --out "$1"
    fi
    expect_weights "$final"
    expect_losses "$1" "$scratch/whole.losses"
    expect_no_leftovers "$1"
}
# told PATTERN: the run ended for want of space, with one line that tells where.
told() {
    expect_status 5
    [ "$(grep -c '^lockstep: error: ' "$scratch/err")" -eq 1 ] || fail "not one line of error"
    expect_said "^lockstep: error: .*$1"
    grep -q '^done:' "$scratch/out" && fail "it says that it is done"
}

# ---- a limit on the size of files ----------------------------------------------------------------------------------------

# train_limited BLOCKS ARGS…: no file may grow beyond BLOCKS KiB. What it prints goes through a pipe, which has no limit.
train_limited() {
    local blocks=$1
    shift
    (
        trap '' XFSZ
        ulimit -f "$blocks"
        exec "$LOCKSTEP" train "$@" </dev/null 2>&1
    ) | cat >"$scratch/out"
    status=${PIPESTATUS[0]}
    cp "$scratch/out" "$scratch/err"
}

# The state has 2 KiB, the weights 130, the optimizer's 260. The tokens are in the cache already.
for blocks in 0 1 2 32 200; do
    case_begin "files of at most $blocks KiB"
    out=$scratch/limit-$blocks
    train_limited $blocks "${experiment[@]}" --save-every 2 --out "$out"
    told 'File too large'
    recovers "$out"
done

case_begin "files of at most 200 KiB when two checkpoints are there"
out=$scratch/later
train "${experiment[@]}" --save-every 2 --keep 0 --out "$out"
rm -rf "$out"/checkpoints/step-*[68]
train_limited 200 --resume --out "$out"
told 'step-000000008.partial/optimizer.safetensors.*File too large'
expect_said '^lockstep: warning: the checkpoint of step 6 could NOT be saved: .*step-000000006.partial/optimizer.safetensors.*File too large; training continues'
[ "$(steps_of "$out" | tr '\n' ' ')" = 'step-000000002 step-000000004 ' ] || fail "it has the checkpoints $(steps_of "$out" | tr '\n' ' ')"
recovers "$out"

case_begin "no room for the tokens"
XDG_CACHE_HOME=$scratch/new-cache train_limited 2 "${experiment[@]}" --out "$scratch/tokens"
told 'File too large'
XDG_CACHE_HOME=$scratch/new-cache recovers "$scratch/tokens"

# ---- folders -----------------------------------------------------------------------------------------------------------

mistake() { # folder, what is said
    case_begin "--out $1"
    train "${experiment[@]}" --out "$1"
    expect_status 2
    expect_said "^lockstep: error: .*$2"
}
: >"$scratch/file"
mistake "$scratch/file" 'is a file, and a run needs a folder'
mistake "$scratch/file/sub" 'a file of that name exists'
mistake /proc/lockstep-run 'proc/lockstep-run'
mistake "$scratch/$(printf 'x%.0s' $(seq 300))" 'too long'
mkdir "$scratch/foreign"
echo '{}' >"$scratch/foreign/config.json"
mistake "$scratch/foreign" 'config.json that is not part of a run'
[ "$(ls "$scratch/foreign")" = config.json ] || fail "it wrote in a foreign folder"
mistake "$scratch/whole" 'holds a run already; continue it with --resume'

# ---- what needs root: a small file system, a read-only one -------------------------------------------------------------

if [ "$(id -u)" -ne 0 ] || ! unshare -m mount -t tmpfs none /mnt 2>/dev/null; then
    echo "not root, or no mounts here: full and read-only file systems were left out"
    finished
fi

# in_tmpfs SIZE SCRIPT: `sh -c SCRIPT` with a file system of that size at $scratch/small; the program is $0, its arguments are $@.
in_tmpfs() {
    local size=$1 script=$2
    shift 2
    mkdir -p "$scratch/small"
    # shellcheck disable=SC2016 # expanded inside
    unshare -m sh -c 'mount -t tmpfs -o size="$1" none "$2" && cd "$2" || exit 99; shift 2; script=$1; shift; eval "$script"' \
        sh "$size" "$scratch/small" "$script" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
    status=$?
}

# From no space for the lock to all but the last page: the run ends with 5, and goes on outside.
pages_kib() { find "$@" -type f -printf '%s\n' | awk '{ kib += 4 * int(($1 + 4095) / 4096) } END { print kib }'; }
whole_kib=$(pages_kib "$scratch/whole")
# Room for all of the first checkpoint but its marker; and for that, but not for `latest`.
first_kib=$(($(pages_kib "$scratch/whole" -maxdepth 1) + $(pages_kib "$scratch/whole/checkpoints/step-000000002" -not -name complete.json)))
case "$TIER" in
long) sizes=$(seq 4 4 $((whole_kib - 4))) ;;
*) sizes="4 8 24 $first_kib $((first_kib + 4)) $((whole_kib / 2)) $((whole_kib - 4))" ;;
esac
for kib in $sizes; do
    case_begin "a disk of $kib KiB"
    rm -rf "$scratch/rescued"
    # shellcheck disable=SC2016 # expanded inside
    in_tmpfs "${kib}k" '"$@" --out run; code=$?; cp -r run ../rescued; exit $code' "$LOCKSTEP" train "${experiment[@]}" --save-every 2 --keep 0
    told 'No space left on device'
    recovers "$scratch/rescued"
done

case_begin "a full disk, then room again"
# shellcheck disable=SC2016 # expanded inside
in_tmpfs 1500k 'head -c 700k /dev/zero >filler; "$@" --out run; code=$?; [ $code -eq 5 ] || exit 98; rm filler; exec "$@" --out run --resume' \
    "$LOCKSTEP" train "${experiment[@]}" --save-every 2
expect_weights "$final"
expect_said 'No space left on device'

case_begin "a read-only file system"
# shellcheck disable=SC2016 # expanded inside
in_tmpfs 1m 'mkdir run; mount -o remount,ro "$PWD"; exec "$@" --out run' "$LOCKSTEP" train "${experiment[@]}"
expect_status 2
expect_said 'Read-only file system'
# shellcheck disable=SC2016 # expanded inside
in_tmpfs 1m 'mount -o remount,ro "$PWD"; exec "$@" --out run' "$LOCKSTEP" train "${experiment[@]}"
expect_status 2
expect_said 'Read-only file system'
finished
