#!/usr/bin/env bash
# signals.sh: what each signal does, to one worker alone, to the parent of several, to one of these; in time where a step, an
# evaluation or a sample takes far longer than --grace; and that runs which were stopped so end on the bits of one that was not.
# ROUNDS=n sends that many more signals, at any moment; SEED=n sets the draws.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

case "$TIER" in
long) rounds=${ROUNDS:-60} ;;
*) rounds=${ROUNDS:-4} ;;
esac
# With sanitizers everything takes longer, and so may --grace.
slow=1
[ -z "${SANITIZE:-}" ] || slow=3
RANDOM=${SEED:=$((${EPOCHREALTIME/[.,]/} % 30000))}

model=$deep
experiment=(--model "$model" --data "$text" --seq 11 --global-batch 8 --lr 0.01 --dropout 0.1 --warmup 5 --lr-schedule constant)

case_begin "the undisturbed run"
train "${experiment[@]}" --steps 12 --eval-every 4 --eval-batches 4 --out "$scratch/whole"
expect_status 0
final=$(weights)
whole=$scratch/whole
[ -n "$final" ] || { fail "no hash"; finished; }
grep '"val_loss"' "$scratch/whole/metrics.jsonl" | sed 's/,"ms".*//' >"$scratch/whole.evaluations"

# The first worker of the child, once it is there; with one alone the child itself.
await_worker() {
    local end=$(($(now_ms) + 20000)) pids
    while
        read -r -a pids <"/proc/$child/task/$child/children"
        [ "${#pids[@]}" -lt "$1" ]
    do
        if [ "$(now_ms)" -gt $end ] || ! is_alive "$child"; then
            fail "its workers did not start"
            return 1
        fi
        sleep 0.005
    done 2>/dev/null
    worker=${pids[RANDOM % ${#pids[@]}]}
}

# Until the process $1 has a handler for the signal of number $2.
await_handler() {
    local end=$(($(now_ms) + 30000)) mask=0
    while
        [ "$(cat "/proc/$1/comm" 2>/dev/null)" = lockstep ] && mask=$(sed -n 's/^SigCgt:\t//p' "/proc/$1/status" 2>/dev/null)
        (((16#${mask:-0} >> ($2 - 1) & 1) == 0))
    do
        if [ "$(now_ms)" -gt $end ] || ! is_alive "$1"; then
            fail "process $1 has no handler of signal $2"
            return 1
        fi
        sleep 0.005
    done
}

# Notes, too, whether a worker had to be ended because --grace was over.
reap_in_grace() {
    reap
    ! grep -q '(--grace) and was killed; the newest checkpoint is unchanged' "$scratch/err" || too_slow=1
}

# with_grace CASE ARGUMENTS…: what has to be done within --grace takes longer on a busy machine: where a worker had to be ended because
# of it, the case is made again with times twice as long.
with_grace() {
    local before again=1 too_slow
    while
        before=$failures too_slow=0
        "$@" >"$scratch/case"
        [ "$too_slow" -eq 1 ] && [ "$again" -lt 16 ]
    do
        failures=$before again=$((again * 2)) slow=$((slow * 2))
    done
    cat "$scratch/case"
    slow=$((slow / again))
}

code_of() {
    case $1 in
    TERM | HUP | XCPU) echo 143 ;;
    INT) echo 130 ;;
    USR2) echo 75 ;;
    esac
}

# ---- every signal ------------------------------------------------------------------------------------------------------

# Workers, layout, and the process that gets the signal.
number=0
every_signal() {
    for case in "$@"; do
        for signal in TERM HUP XCPU USR2; do
            IFS=: read -r layout target <<<"$case"
            [ "$signal" != XCPU ] || [ "$target" = worker ] || continue
            case_begin "SIG$signal to the $target of $layout"
            part=$scratch/part-$((number++))
            # shellcheck disable=SC2086 # flags are words
            start "${experiment[@]}" --steps 1000000 --out "$part" ${layout#* }
            if await_steps "$part" 2; then
                worker=$child
                [ "$target" = child ] || await_worker "${layout%% *}"
                kill -"$signal" "$worker"
            fi
            reap
            expect_status "$(code_of $signal)"
            done_steps=$(losses "$part" | wc -l)
            expect_said "^lockstep: stopped at step $done_steps, checkpoint saved; continue with: "
            [ "$(steps_of "$part")" = "$(printf 'step-%09d' "$done_steps")" ] || fail "step $done_steps was not saved"
        done
    done

}

save_and_go_on() {
    for case in '1 :child' '2 --dp 2:child' '2 --dp 2:worker'; do
        IFS=: read -r layout target <<<"$case"
        case_begin "SIGUSR1 to the $target of $layout saves, and the run goes on"
        part=$scratch/part-$((number++))
        # shellcheck disable=SC2086 # flags are words
        start "${experiment[@]}" --steps 1000000 --save-every 0 --out "$part" ${layout#* }
        if await_steps "$part" 2; then
            worker=$child
            [ "$target" = child ] || await_worker "${layout%% *}"
            kill -USR1 "$worker"
            end=$(($(now_ms) + 30000))
            until [ -n "$(steps_of "$part")" ] || [ "$(now_ms)" -gt $end ]; do sleep 0.01; done
            saved=$(steps_of "$part")
            [ -n "$saved" ] || fail "it did not save"
            await_steps "$part" $((10#${saved#step-} + 2))
            kill -TERM "$child"
        fi
        reap
        expect_status 143
    done

}

# until_so COMMAND…: waits until it succeeds; a failure where it does not in a minute.
until_so() {
    local end=$(($(now_ms) + 60000))
    until "$@"; do
        if [ "$(now_ms)" -gt $end ]; then
            fail "not in a minute: $*"
            return 1
        fi
        sleep 0.01
    done
}

has_stopped() { grep -q '^State:.T' "/proc/$1/status" 2>/dev/null; }

# Of the child: its page, as `page`, which it forks before all others.
has_page() {
    page=
    { read -r page _ <"/proc/$child/task/$child/children"; } 2>/dev/null
    [ -n "$page" ]
}

# Whether the process $1, which is stopped, has a SIGTERM waiting for it.
awaits_term() {
    local mask
    mask=$(sed -n 's/^ShdPnd:\t//p' "/proc/$1/status" 2>/dev/null)
    (((16#${mask:-0} >> 14 & 1) == 1))
}

# Until the child, which was sent a SIGSTOP, is stopped; false: it has ended.
is_stopped() {
    while ! has_stopped "$child"; do
        is_alive "$child" || return 1
        sleep 0.01
    done
}

# After the last step, while the process waits for its page to end, there is nothing more to save or to stop. It waits for a page that is stopped, but not for ever: where it is over before the signal comes, it is made again.
after_the_end() {
    local tries hit
    for case in 'USR1 0' 'USR2 0' 'HUP 143'; do
        read -r signal code <<<"$case"
        case_begin "SIG$signal after the end of a run"
        for ((tries = 0, hit = 0; hit == 0 && tries < 10; tries++)); do
            part=$scratch/part-$((number++))
            start "${experiment[@]}" --steps 60 --out "$part" --live 127.0.0.1:0
            until_so has_page && kill -STOP "$page" && until_so awaits_term "$page" && kill -STOP "$child"
            is_stopped && hit=1
            kill -"$signal" "$child"
            kill -CONT "$child" "$page"
            reap
        done 2>/dev/null
        [ "$hit" -eq 1 ] || fail "its page was waited for too shortly, $tries times"
        expect_status "$code"
    done
}

# Stopped before it makes the folder, without a supervisor that would make it.
early_page() {
    case_begin "a page that is there before the folder of its run"
    part=$scratch/part-$((number++))
    LS_FAULT_POINT=start:0:-1:0:1:stop start "${experiment[@]}" --steps 1000000 --restarts 0 --out "$part" --live 127.0.0.1:0
    is_stopped && sleep 0.5
    kill -CONT "$child"
    until_so grep -q '^page ' "$scratch/out"
    kill -TERM "$child"
    reap
    expect_status 143
}

# ---- in time -----------------------------------------------------------------------------------------------------------

# A batch takes eight waits of 0.6 s, or four on each of two workers; half of --grace is 2 s.
long_steps() {
    for case in "$@"; do
        IFS=: read -r layout target <<<"$case"
        case_begin "a long step of $layout is given up"
        part=$scratch/part-$((number++))
        train "${experiment[@]}" --steps 3 --eval-every 0 --out "$part"
        expect_status 0
        # shellcheck disable=SC2086 # flags are words
        env LS_FAULT_INPUT=$((600 * slow)) "$LOCKSTEP" train --resume --out "$part" --steps 12 --micro-batch 1 --grace $((4 * slow))s ${layout#* } \
            >"$scratch/out" 2>"$scratch/err" </dev/null &
        child=$!
        await_worker "${layout%% *}" && await_handler "$worker" 15
        [ "$target" = worker ] || worker=$child
        kill -TERM "$worker"
        reap_in_grace
        expect_status 143
        expect_said '^lockstep: stopped at step 3 \(step 4 was abandoned to stop within --grace\), checkpoint saved'
        train --resume --out "$part" --steps 12
        expect_weights "$final"
    done

}

# An evaluation of many micro-batches after step 4, the same way; and a sample that never seems to end.
long_evaluations() {
    for case in "$@"; do
        IFS=: read -r layout target <<<"$case"
        case_begin "a long evaluation of $layout is given up, and made when the run goes on"
        part=$scratch/part-$((number++))
        train "${experiment[@]}" --steps 3 --eval-every 4 --eval-batches 4 --micro-batch 8 --out "$part"
        # shellcheck disable=SC2086 # flags are words
        env LS_FAULT_INPUT=$((600 * slow)) LS_FAULT_POINT=evaluate:0:-1:0:1:stop "$LOCKSTEP" train --resume --out "$part" --steps 12 --micro-batch 8 \
            --grace $((3 * slow))s --restarts 0 ${layout#* } >"$scratch/out" 2>"$scratch/err" </dev/null &
        child=$!
        # The first worker stops right before the evaluation, and goes on when the signal is there.
        if await_steps "$part" 4; then
            first=$child
            if [ "${layout%% *}" -gt 1 ]; then read -r first _ <"/proc/$child/task/$child/children"; fi
            until_so has_stopped "$first"
            worker=$child
            [ "$target" = child ] || await_worker "${layout%% *}"
            kill -TERM "$worker"
            kill -CONT "$first"
        fi
        reap_in_grace
        expect_status 143
        expect_said '^lockstep: stopped at step 4, checkpoint saved'
        grep -q '"step":4,"val_loss"' "$part/metrics.jsonl" && fail "the evaluation was not given up"
        train --resume --out "$part" --steps 12
        expect_weights "$final"
        grep '"val_loss"' "$part/metrics.jsonl" | grep -v '"step":3,' | sed 's/,"ms".*//' | cmp -s - "$whole.evaluations" ||
            fail "the evaluations are not those of the undisturbed run"
    done

}

long_samples() {
    for case in "$@"; do
        IFS=: read -r layout target <<<"$case"
        case_begin "a long sample of $layout is given up"
        part=$scratch/part-$((number++))
        # shellcheck disable=SC2086 # flags are words
        start "${experiment[@]}" --steps 12 --eval-every 0 --sample-every 5 --max-tokens 16000000 --temperature 0 --grace $((2 * slow))s --out "$part" ${layout#* }
        if await_steps "$part" 5; then
            worker=$child
            [ "$target" = child ] || await_worker "${layout%% *}"
            kill -TERM "$worker"
        fi
        reap_in_grace
        expect_status 143
        expect_said '^lockstep: stopped at step 5, checkpoint saved'
        train --resume --out "$part" --steps 12 --sample-every 0
        expect_weights "$final"
    done

}

# A worker that hangs, without a timeout that would tell: the parent ends it.
hangs() {
    case_begin "a worker that hangs is ended after --grace"
    part=$scratch/part-$((number++))
    LS_FAULT_POINT=forward:1:4:0:1:stop start "${experiment[@]}" --steps 1000000 --save-every 3 --save-mode stream --dp 2 --restarts 0 --timeout 1h --grace 1s --out "$part"
    if await_steps "$part" 4 && until_so [ -e "$part/checkpoints/step-000000003/complete.json" ]; then kill -TERM "$child"; fi
    reap
    expect_status 143
    expect_said 'terminated by signal 15, SIGTERM; worker 1 was still .* after 1 s \(--grace\) and was killed; the newest checkpoint is unchanged'
    [ "$(steps_of "$part")" = step-000000003 ] || fail "it has the checkpoints $(steps_of "$part")"
    train --resume --out "$part" --steps 12
    expect_weights "$final"

}

# ---- at any moment -----------------------------------------------------------------------------------------------------

# A run that saves, evaluates and writes samples all the time gets a signal, or two, wherever it is.
layouts=('1 ' '2 --dp 2 --zero 3' '2 --pp 2' '4 --dp 2 --tp 2' '4 --tp 2 --pp 2' '3 --dp 3 --zero 2')
kinds=(TERM HUP XCPU USR2 INT)
any_moment() {
    for ((turn = 0; turn < rounds; turn++)); do
        layout=${layouts[turn % ${#layouts[@]}]}
        signal=${kinds[RANDOM % ${#kinds[@]}]}
        case_begin "round $turn, seed $SEED: SIG$signal to $layout"
        part=$scratch/any
        rm -rf "$part"
        # shellcheck disable=SC2086 # flags are words
        start "${experiment[@]}" --steps 12 --eval-every 1 --sample-every 2 --max-tokens 40 --save-every 1 --grace 5s --out "$part" ${layout#* }
        worker=$child
        [ "${layout%% *}" -eq 1 ] || [ $((RANDOM % 3)) -eq 0 ] || [ "$signal" = INT ] || await_worker "${layout%% *}"
        await_handler "$worker" 12 # from then on even SIGUSR2 is heard
        sleep "0.$(printf '%03d' $((RANDOM % 600)))"
        [ $((RANDOM % 2)) -eq 0 ] || kill -USR1 "$worker" 2>/dev/null
        kill -"$signal" "$worker" 2>/dev/null
        reap
        case $status in
        0 | "$(code_of "$signal")") ;;
        # Before there is anything to save, a signal may end the process as signals do.
        $((128 + $(kill -l "$signal")))) [ ! -e "$part/identity.json" ] || fail "exit status $status, with a run that had begun" ;;
        *) fail "exit status $status, neither 0 nor $(code_of "$signal")" ;;
        esac
        flags=()
        [ ! -e "$part/identity.json" ] || flags=(--resume)
        train "${experiment[@]}" --steps 12 --eval-every 4 --sample-every 0 --out "$part" "${flags[@]}"
        expect_weights "$final"
        find "$part/checkpoints" -name "*.tmp*" | grep . && fail "these temporary files are left"
    done
    echo "$rounds signals at any moment, seed $SEED"
}

beside every_signal '1 :child' '2 --dp 2:child'
beside every_signal '2 --pp 2:worker'
beside save_and_go_on
if "$LOCKSTEP" --version | grep -q '^microhttpd  *[0-9]'; then
    beside after_the_end
    beside early_page
fi
beside with_grace long_steps '1 :child'
beside with_grace long_steps '2 --dp 2:worker'
beside with_grace long_steps '4 --tp 2 --pp 2:worker'
beside with_grace long_evaluations '1 :child'
beside with_grace long_evaluations '2 --tp 2:worker'
beside with_grace long_samples '1 :child'
beside with_grace long_samples '4 --dp 2 --tp 2:worker'
beside hangs
beside any_moment
join
finished
