#!/usr/bin/env bash
# identities.sh: the identity of a run depends on its shape file as it did in version 0.2.0, so every recorded run can be resumed.
#
# The hashes were recorded with that version before the fields of a shape became a table. They are never recorded again: a field that is added later is
# left out of the identity where it has the value that old runs had.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

cd "$scratch" || exit 1
for i in $(seq 200); do echo "line $i of the text, $((i * i))"; done >text.txt

# check_identity HASH OPTIONS SHAPE: trains one step on the shape file and compares the hash of the run's identity.
check_identity() {
    local found
    case_begin "$3"
    echo "$3" >shape.json
    rm -rf run
    # shellcheck disable=SC2086 # the options are words
    train --model shape.json $2 --steps 1 --matrix-unit chain --global-batch 4 --groups 2 --out run || return
    found=$(sed -n 's/^  "hash": "\(.*\)",$/\1/p' run/identity.json)
    [ "$found" = "$1" ] || fail "the identity has the hash $found, not $1"
}

while read -r hash kind shape; do
    case $kind in
    text) check_identity "$hash" '--data text.txt --seq 8' "${shape/SIZES/\"vocab\": 256, \"width\": 6, \"layers\": 2, \"heads\": 2, \"hidden\": 10, \"positions\": 16}" ;;
    images) check_identity "$hash" '' "$shape" ;;
    esac
done <<'END'
90b9c42fdd3dc31ed12c038f6cb23c1d text {"arch": "gpt2", SIZES}
d2852ce1afbf1afe8f41c8d3514251e1 text {"arch": "gpt2", SIZES, "attention-bias": false, "mlp-bias": false}
914f7e4ae4dc3b0933ec3249e951ddb4 text {"arch": "gpt2", SIZES, "tied": false}
0c55ba7fa16a4de14858818091ec9a2b text {"arch": "gpt2", SIZES, "mlp-bias": false, "eps": 1e-6, "init-std": 0.1}
276d7b23b14847b2bbacbe2ec843fb22 text {"arch": "gpt2", SIZES, "kv-heads": 1, "head-size": 5}
793606c363c5b66555288aaa02574355 text {"arch": "llama", SIZES, "head-size": 4}
73328f798b5465a7ff3e91429bc1527b text {"arch": "llama", SIZES, "head-size": 4, "tied": true}
98b420b48b750c43ae56d685b5a4a2a7 text {"arch": "llama", SIZES, "head-size": 4, "attention-bias": true, "mlp-bias": true}
57ae0dff22689cfac7b5f9ce02087835 text {"arch": "llama", SIZES, "head-size": 4, "rope-base": 500000}
881d772f418431fdc96d7a263aa35dca text {"arch": "llama", SIZES, "head-size": 4, "rope-scaling": {"factor": 8, "original": 8}}
ac5a13faee902bd4623ec58049dc3140 text {"arch": "llama", SIZES, "head-size": 4, "rope-base": 1000.5, "rope-scaling": {"factor": 2.5, "low": 1.5, "high": 3, "original": 4}}
cd42e56a0d68f261eacaca4eb43974a9 text {"arch": "llama", SIZES, "head-size": 4, "kv-heads": 1, "eps": 1e-6}
4027d6d6040aef58293748ad8d78d295 text {"preset": "tiny", "width": 8, "heads": 2, "layers": 1, "positions": 16}
37722bf238be7ee8ab0fd5de0fef21c2 text {"preset": "llama-1b", "vocab": 256, "width": 8, "heads": 2, "kv-heads": 1, "layers": 1, "positions": 16, "hidden": 10}
a23ba6b130deb24c3a328fecec0ca0f5 images {"arch": "lenet", "image-height": 16, "image-width": 16}
7f24aa895a2deffde56996cfe94f4a74 images {"arch": "lenet", "image-height": 20, "image-width": 20, "sigmoid": true, "eps": 1e-4}
7b96afc6c6740f31161cf273dfa56edf images {"arch": "resnet18", "channels": 1, "image-height": 16, "image-width": 16, "small": true}
10bf0d483c1aded04df46c3f0b52e83f images {"arch": "resnet18", "channels": 1, "image-height": 16, "image-width": 16, "eps": 1e-4}
4becdac5fb29b8acdd84319c37656780 images {"arch": "mlp", "image-height": 16, "image-width": 16}
282cafe3b9ed519616473c3c5ba58600 images {"arch": "mlp", "image-height": 18, "image-width": 18, "widths": "12,7"}
0b0ec609a22d060a2e8f4973086a9f49 images {"preset": "mlp", "image-height": 16, "image-width": 16, "widths": "9", "init-std": 0.1}
END

finished
