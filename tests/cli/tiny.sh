# tiny.sh: sourced by cases of *.test that train: a text, two shapes and a short command in the case's own folder.
export XDG_CACHE_HOME=$PWD/cache
i=0
while [ $i -lt 60 ]; do
    i=$((i + 1))
    echo "line $i: $((i * i)) quick brown foxes jump over $((i * 7 % 31)) lazy dogs"
done > text.txt
echo '{"arch": "gpt2", "vocab": 256, "width": 16, "layers": 1, "heads": 2, "positions": 16}' > gpt2.json
echo '{"arch": "llama", "vocab": 256, "width": 16, "layers": 1, "heads": 4, "kv-heads": 2, "hidden": 24, "positions": 16}' > llama.json
# Flags given later win.
train() { "$LOCKSTEP" train --model gpt2.json --data text.txt --steps 2 --seq 8 --global-batch 4 --out run "$@"; }
