# layout.sh: sourced by cases of layout.test: a model of 5 blocks and 4 slices, a batch of 8 sequences in 8 groups.
. "$REPO/tests/cli/tiny.sh"
echo '{"arch": "gpt2", "vocab": 256, "width": 16, "layers": 3, "heads": 4, "positions": 16}' > four.json
layout() { train --model four.json --global-batch 8 --out run "$@"; }
# What is refused leaves no folder behind.
refused() {
    layout "$@"
    code=$?
    if [ -e run ]; then echo "there is a folder"; fi
    return $code
}
