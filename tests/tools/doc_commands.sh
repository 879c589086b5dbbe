#!/usr/bin/env bash
# doc_commands.sh [TEXT]: every command of lockstep in shell blocks and YAML of the documents runs (tools/check-docs --commands lists them).
#
# Commands run as they stand in the page, each in a copy of a folder with stand-ins for the files they name. `lockstep` on their PATH is a wrapper that
# makes them small: fewer steps, a small model in place of a large one, one part of a long list. What it appends comes last and wins, so every option and
# word of the page is parsed, and every model it names must exist. Large models, and all that a launcher starts, end with --dry-run.
# A command that cannot run so is listed below with the reason; any other that fails is an error of the page. TEXT: only those with it in page or command.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/../train/common.bash"
if ldd "$LOCKSTEP" | grep -q libasan; then echo "skipped: not with sanitizers"; exit 77; fi

# "command: reason"
cannot_run=()
pages_work=no
! "$LOCKSTEP" --version | grep '^microhttpd  *[0-9]' >/dev/null || pages_work=yes

base=$scratch/base bin=$scratch/bin
mkdir -p "$base/runs" "$base/boards" "$bin"
export BIN=$bin

# ---- the wrapper and the launchers ---------------------------------------------------------------------------------------

cat >"$bin/lockstep" <<'WRAPPER'
#!/usr/bin/env bash
# Words that stand for others in the pages: … for a model and its data, words in capitals, and absolute paths, which are files of this folder.
set -u
args=() model='' out='' is_resumed=no has_peer=no
for arg in "$@"; do
    case $arg in
    …) args+=(--model tiny --data book.txt) ;;
    RUN) args+=(runs/first) ;;
    OTHER) args+=(runs/second) ;;
    DIR) args+=(folder) ;;
    /*) args+=("${arg##*/}") ;;
    *) args+=("${arg//SCHEDULE/1f1b}") ;;
    esac
done
for ((i = 0; i < ${#args[@]}; i++)); do
    case ${args[i]} in
    --model | --preset)
        model=${args[i + 1]}
        # The page means a preset, not the folder that stands here for one written with a slash.
        [[ $model == *[/.]* || ! -e $model ]] || { echo "no preset is called '$model'" >&2 && exit 2; }
        ;;
    --out) out=${args[i + 1]} ;;
    --resume | --fork) is_resumed=yes ;;
    --only) has_only=yes ;;
    esac
done
run() { exec "$LOCKSTEP" "${args[@]}" "$@"; }
# Prints the bytes of a dry run, or ends with what it said.
bytes_of() {
    local said
    said=$("$LOCKSTEP" train "$@" --device cpu --dry-run --json 2>&1) || { echo "$said" >&2 && return 2; }
    grep -o '"bytes": *[0-9]*' <<<"$said" | grep -o '[0-9]*$' | sort -n | tail -n 1
}
# Is each of these models small enough to be trained here? Ends the command if one does not exist.
are_small() { # models, separated by commas
    local name bytes small=0
    for name in ${1//,/ }; do
        case $name in lenet* | resnet*) data=() ;; *) data=(--data book.txt --tokenizer bytes --seq 8) ;; esac
        bytes=$(bytes_of --model "$name" ${data[@]+"${data[@]}"} --global-batch 16) || exit 2
        [ "$bytes" -lt 100000000 ] || small=1
    done
    return "$small"
}
await() { # command...: until it succeeds; the process of this command must live
    until "$@"; do kill -0 "$child" 2>/dev/null && sleep 0.05 || { cat said >&2 && exit 1; }; done
}
case ${args[0]-} in
train)
    launched=() sizes=(--steps 2 --global-batch 8)
    [ -z "${LAUNCHED-}" ] || launched=(--workers "$LAUNCHED")
    [ "$is_resumed" = yes ] || [ -z "$out" ] || rm -rf "$out"
    bytes=$(bytes_of "${args[@]:1}" ${launched[@]+"${launched[@]}"}) || exit 2
    if [ "$bytes" -ge 100000000 ] || [ -n "${LAUNCHED-}" ]; then
        # A dry run needs no tokenizer, the run itself does: tiny models have that of bytes.
        case $model in
        gpt2-* | llama-*) [[ " ${args[*]} " == *' --tokenizer '* ]] || { echo "$model has no tokenizer of its own: add --tokenizer" >&2 && exit 2; } ;;
        esac
        exit 0
    fi
    case $model in lenet*) sizes=(--steps 2 --global-batch 16) ;; *) sizes+=(--seq 16) ;; esac
    [ "$is_resumed" = no ] || sizes=()
    [[ " ${args[*]} " != *" --live "* ]] || sizes+=(--live 0)
    run ${sizes[@]+"${sizes[@]}"} --device cpu
    ;;
generate) run --max-tokens 4 ;;
verify)
    # Short options of one layout keep it; lists get one part.
    small=(--steps 1)
    [ -z "$model" ] || are_small "$model" || small+=(--model small.json)
    case " ${args[*]} " in
    *' --unit '*) LD_LIBRARY_PATH=$BUILD/tests/cuda exec "$LOCKSTEP" "${args[@]}" ;; # of the GPU that a CPU plays
    *' --order '*) small+=(--model small.json --seq 16 --global-batch 8) ;;
    *' --dp '*) ;;
    *' --quick '*) small+=(--part 1/70) ;;
    *) small+=(--part 1/2000) ;;
    esac
    run "${small[@]}"
    ;;
scale)
    are_small "$model"
    run --steps 4 --model small.json --data book.txt --seq 16 --global-batch 64 # more than the workers of any machine
    ;;
probe) run --quick --workers 1 ;;
bench)
    case ${args[1]-} in
    comm) run --max-size 64KiB --rounds 1 ;;
    *) run --quick --threads 1 $([ -n "${has_only-}" ] || echo --only norm) ;;
    esac
    ;;
watch)
    "$LOCKSTEP" "${args[@]}" --live 0 >said 2>&1 &
    child=$!
    await grep -q '^page ' said
    kill "$child" && exit 0
    ;;
resize | plan)
    [[ ${args[0]} == resize || " ${args[*]} " == *' --recovery '* ]] || run
    # A run that is at work; for --recovery one that has lost a worker.
    "$LOCKSTEP" train --model small.json --data book.txt --seq 16 --global-batch 8 --steps 10000000 --workers 2 --out living >said 2>&1 &
    child=$!
    await grep -qs '"loss"' living/metrics.jsonl
    if [ "${args[0]}" = plan ]; then
        read -r -a workers <"/proc/$child/task/$child/children"
        kill -KILL "${workers[0]}"
        await grep -qs '"restart":1.*' living/metrics.jsonl
        await awk '/"restart":1/ {again = 1} again && /"loss"/ {n++} END {exit n < 12}' living/metrics.jsonl
    fi
    "$LOCKSTEP" "${args[@]//runs\/first/living}"
    status=$?
    kill "$child"
    exit $status
    ;;
*) run ;;
esac
WRAPPER

# Finds the command behind the launcher's own words, and counts its workers: those of all parts that a : separates. The first part runs, once.
cat >"$bin/launcher" <<'LAUNCHER'
#!/usr/bin/env bash
workers=0 command=()
while [ $# -gt 0 ]; do
    case $1 in
    -n | -np) [[ ! $2 =~ ^[0-9]+$ ]] || workers=$((workers + $2)) ;;
    lockstep | ./lockstep | mpirun | srun | */bench/*)
        [ ${#command[@]} -gt 0 ] || while [ $# -gt 0 ] && [ "$1" != : ]; do command+=("$1") && shift; done
        [ $# -gt 0 ] || break
        ;;
    esac
    shift
done
export LAUNCHED=${LAUNCHED:-$workers}
[ "$LAUNCHED" != 0 ] || LAUNCHED=2
[ ${#command[@]} -gt 0 ] || { echo "no command of lockstep behind the launcher" && exit 2; }
exec "${command[@]}"
LAUNCHER
ln -s launcher "$bin/mpirun"
ln -s launcher "$bin/srun"
chmod +x "$bin/lockstep" "$bin/launcher"

# ---- stand-ins -------------------------------------------------------------------------------------------------------------

case_begin "stand-ins for the files of the pages"
make_stand_ins() {
    mkdir -p tools build/bench mnist cifar10 corpus news examples
    ln -s "$bin/lockstep" lockstep
    ln -s "$bin/launcher" tools/relaunch
    for peer in comm_openmpi gemm_openblas; do ln -s /bin/false "build/bench/$peer"; done # a peer that fails is a warning
    make_text 400 >book.txt
    for file in text other more val a b corpus/part examples/alice; do cp book.txt "$file.txt"; done
    for ((i = 0; i < 300; i++)); do echo "{\"text\": \"$i quick brown foxes\"}"; done >news/a.jsonl
    echo localhost >hosts
    echo '{"arch": "gpt2", "vocab": 256, "width": 16, "layers": 2, "heads": 2, "hidden": 64, "positions": 1024}' >small.json
    sed 's/"layers": 2/"layers": 4/' small.json >shape.json
    cp -r "$root/tests/data/tiny_llama" llama
    sed "s/256/$(($(tr , '\n' <"$root/tests/data/tiny_bpe/vocab.json" | grep -c :)))/" small.json >bpe.json
    small=(--seq 16 --global-batch 8 --eval-every 50 --threads 1)
    "$LOCKSTEP" train --model small.json --data book.txt "${small[@]}" --steps 100 --numerics 10 --workers 2 --trace run --out runs/first &&
        "$LOCKSTEP" train --model small.json --data book.txt "${small[@]}" --steps 100 --numerics 10 --out runs/second &&
        "$LOCKSTEP" train --model bpe.json --tokenizer "$root/tests/data/tiny_bpe" --data book.txt "${small[@]}" --steps 1 --out bpe &&
        "$LOCKSTEP" export --model bpe --out gpt2 && "$LOCKSTEP" export --model bpe --format llmc --out gpt2_124M.bin &&
        "$LOCKSTEP" tokenize --tokenizer gpt2 --data book.txt --out val && mv val_*.bin val.bin &&
        "$LOCKSTEP" train --model lenet --steps 1 --global-batch 16 --eval-every 0 --out runs/digits &&
        for part in train t10k; do images "mnist/$part" || return; done && for part in data_batch_{1,2,3,4,5} test_batch; do
            head -c $((16 * 3073)) /dev/zero >"cifar10/$part.bin" || return
        done && cp -r runs/second runs/tiny-1 && cp -r runs/digits runs/lenet-1 &&
        for run in 1f1b hot half traced slow gpt2; do cp -r runs/first runs/$run || return; done && cp runs/first/trace.json . &&
        cp gpt2/config.json . && for file in published_runs runs; do cp "$root/tests/fuzz/seeds/fuzz_published_runs/table" "$file.csv" || return; done &&
        printf 'gpus,seconds,global_batch\n32,9.1,512\n64,4.72,512\n128,2.55,512\n' >times.csv && for chip in A100 H100; do
            "$LOCKSTEP" plan --model llama-8b --cluster "$chip" --gpus 8 --json >"$chip.json" || return
        done && mv A100.json old.json && mv H100.json new.json &&
        "$LOCKSTEP" probe --quick --workers 2 && cp "$(find "$XDG_CACHE_HOME" -name '*.json' | head -n 1)" machine.json
}
root=$PWD
images() { # file, number of images, of labels, digits: header and contents of files in the format of MNIST
    head -c $((40 * 28 * 28)) /dev/zero | cat <(printf '\0\0\10\3\0\0\0\50\0\0\0\34\0\0\0\34') - >"$1-images-idx3-ubyte"
    head -c 40 /dev/zero | cat <(printf '\0\0\10\1\0\0\0\50') - >"$1-labels-idx1-ubyte"
}
(cd "$base" && make_stand_ins) >"$scratch/out" 2>"$scratch/err" || fail "there are none"

# ---- the commands ----------------------------------------------------------------------------------------------------------

# run_one NUMBER COMMAND: its status; its output in $scratch/NUMBER.log.
run_one() {
    local folder=$scratch/work-$1 status
    cp -r "$base" "$folder"
    (
        cd "$folder" || exit 1
        export PATH=$bin:$PATH LOCKSTEP SLURM_JOB_ID=1 DATA=book.txt RUN=run flags='--model tiny --data book.txt --dp 2 --audit 1 --precision bf16 --matrix-unit hgmma'
        timeout 100 bash -eu -o pipefail -c "$2" -- --model tiny --data book.txt
    ) >"$scratch/$1.log" 2>&1 </dev/null
    status=$?
    rm -rf "$folder"
    return $status
}

tools/check-docs --commands >"$scratch/all"
[ "$(wc -l <"$scratch/all")" -ge 100 ] || fail "there are only $(wc -l <"$scratch/all") commands: how are they listed?"
awk -F '\t' '{ sub(/^\.\//, "", $2) } !seen[$2]++ { print $1 "\t" $2 }' "$scratch/all" | grep -F -- "${1-}" >"$scratch/each"

reason_of() { # command
    local known
    [[ $pages_work = yes || ! $1 =~ lockstep\ watch|\ --live\  ]] || { echo "this build has no libmicrohttpd" && return; }
    for known in ${cannot_run[@]+"${cannot_run[@]}"}; do
        [[ $known != "$1: "* ]] || { echo "${known#"$1: "}" && return; }
    done
    return 1
}
numbers=0
while IFS=$'\t' read -r place command; do
    numbers=$((numbers + 1))
    if reason_of "$command" >"$scratch/reason"; then
        echo "not run: $command: $(cat "$scratch/reason")"
        continue
    fi
    while [ "$(jobs -rp | wc -l)" -ge $(($(nproc) + 1)) ]; do wait -n; done
    (
        begin=$(now_ms)
        run_one "$numbers" "$command"
        echo "$? $(($(now_ms) - begin)) $place	$command" >"$scratch/$numbers.done"
    ) &
done <"$scratch/each"
wait
for ((i = 1; i <= numbers; i++)); do
    [ -e "$scratch/$i.done" ] || continue
    read -r status ms place_command <"$scratch/$i.done"
    case_begin "${place_command}"
    : >"$scratch/out"
    tail -n 5 "$scratch/$i.log" >"$scratch/err"
    expect_status 0
    [ -z "${DOC_TIMES-}" ] || echo "$ms ms $place_command"
done
for known in ${cannot_run[@]+"${cannot_run[@]}"}; do
    case_begin "listed: $known"
    cut -f 2 "$scratch/each" | grep -qxF -- "${known%%: *}" || fail "no page has this command"
done

# ---- what must fail --------------------------------------------------------------------------------------------------------

wrong() { # command, what it says
    case_begin "must fail: $1"
    run_one wrong "$1" && fail "it ran"
    cp "$scratch/wrong.log" "$scratch/err"
    expect_said "$2"
}
wrong 'lockstep train --preset gpt2 --data book.txt' "no preset is called 'gpt2'"
wrong 'lockstep train --model gpt2-124m --data book.txt' 'add --tokenizer'
wrong 'lockstep trian --model tiny --data book.txt' "unknown command 'trian'"
wrong 'lockstep train --model tiny --data book.txt --data-set x' 'unknown flag --data-set'
wrong 'lockstep train --model tiny --data missing.txt' 'missing.txt'
wrong 'mpirun -np 16 lockstep train --model tiny --data book.txt --tp 3 --grase 60s' 'grase'
wrong 'lockstep verify --model gpt2 --quick' "gpt2"
[ $pages_work = no ] || wrong 'lockstep watch runs --life 0' 'unknown flag --life'
finished
