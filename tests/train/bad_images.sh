#!/usr/bin/env bash
# bad_images.sh: files of images that are cut off, wrong or do not fit: refused before training begins, in words that name the file;
# nothing is left behind.
# shellcheck source=tests/train/common.bash
. "$(dirname "$0")/common.bash"

# bytes N…: each as one byte
bytes() {
    local b
    # shellcheck disable=SC2059 # the format is made here
    for b in "$@"; do printf "\\$(printf '%03o' "$b")"; done
}
zeros() { head -c "$1" /dev/zero; }

# idx FOLDER: 12 images of 28 × 28 in each part, in the format of MNIST.
idx() {
    local part
    mkdir -p "$scratch/$1"
    for part in train t10k; do
        { bytes 0 0 8 3 0 0 0 12 0 0 0 28 0 0 0 28 && zeros $((12 * 28 * 28)); } >"$scratch/$1/$part-images-idx3-ubyte"
        bytes 0 0 8 1 0 0 0 12 0 1 2 3 4 5 6 7 8 9 0 1 >"$scratch/$1/$part-labels-idx1-ubyte"
    done
}

# cifar FOLDER: two images in each file.
cifar() {
    local file
    mkdir -p "$scratch/$1"
    for file in data_batch_{1,2,3,4,5} test_batch; do
        { bytes 3 && zeros 3072 && bytes 9 && zeros 3072; } >"$scratch/$1/$file.bin"
    done
}

# pictures FOLDER: ten of 32 × 32 for each of two classes.
pictures() {
    local class i
    for class in cat dog; do
        mkdir -p "$scratch/$1/$class"
        for i in 0 1 2 3 4 5 6 7 8 9; do { printf 'P6\n32 32\n255\n' && zeros 3072; } >"$scratch/$1/$class/$i.ppm"; done
    done
}

# refused TEXT FOLDER MODEL FLAGS…
refused() {
    local text=$1 data=$2 model=$3
    shift 3
    case_begin "$data: $model $*"
    train --model "$model" --data "$scratch/$data" --steps 1 --global-batch 8 --groups 4 "$@" --out "$scratch/run"
    expect_status 2
    grep -qF -- "$text" "$scratch/err" || fail "stderr has not: $text"
    [ ! -e "$scratch/run" ] || fail "a run directory was made"
    rm -rf "$scratch/run"
}

case_begin "sound files are taken"
idx mnist
cifar cifar
train --model lenet --data "$scratch/mnist" --steps 1 --global-batch 8 --eval-every 0 --out "$scratch/sound"
expect_status 0
train --model resnet18 --data "$scratch/cifar" --steps 0 --global-batch 8 --groups 4 --eval-every 0 --out "$scratch/sound-cifar"
expect_status 0

idx cut
truncate -s 5000 "$scratch/cut/train-images-idx3-ubyte"
refused "cut/train-images-idx3-ubyte is truncated: its header says 12 images, 9408 bytes, but 4984 follow" cut lenet

idx test-cut
truncate -s 20 "$scratch/test-cut/t10k-images-idx3-ubyte"
refused "test-cut/t10k-images-idx3-ubyte is truncated" test-cut lenet

idx header
truncate -s 9 "$scratch/header/train-images-idx3-ubyte"
refused "an IDX header of 16 bytes was expected, 9 are there" header lenet

idx long
bytes 1 >>"$scratch/long/train-images-idx3-ubyte"
refused "long/train-images-idx3-ubyte is too long" long lenet

idx swapped
cp "$scratch/swapped/train-labels-idx1-ubyte" "$scratch/swapped/train-images-idx3-ubyte"
refused "it should begin with the bytes 00 00 08 03, not 00 00 08 01" swapped lenet

idx label
bytes 0 0 8 1 0 0 0 12 0 1 2 3 4 5 6 10 8 9 0 1 >"$scratch/label/train-labels-idx1-ubyte"
refused "label 7 is 10, but there are 10 classes" label lenet

idx few
bytes 0 0 8 1 0 0 0 11 0 1 2 3 4 5 6 7 8 9 0 >"$scratch/few/train-labels-idx1-ubyte"
refused "has 12 images, but $scratch/few/train-labels-idx1-ubyte has 11 labels" few lenet

refused "--global-batch 16: the data has only 12 images" mnist lenet --global-batch 16
refused "has images of 28 × 28 pixels, 1 channels" mnist resnet18

cifar cifar-cut
truncate -s 4000 "$scratch/cifar-cut/data_batch_3.bin"
refused "data_batch_3.bin is truncated or not a CIFAR-10 file: it has 4000 bytes" cifar-cut resnet18

cifar cifar-label
{ bytes 3 && zeros 3072 && bytes 200 && zeros 3072; } >"$scratch/cifar-label/data_batch_4.bin"
refused "data_batch_4.bin: image 1 has label 200, but labels of CIFAR-10 are 0 to 9" cifar-label resnet18

cifar cifar-few
rm "$scratch/cifar-few/data_batch_2.bin"
refused "data_batch_2.bin is missing" cifar-few resnet18

pictures mixed
{ printf 'P6\n32 30\n255\n' && zeros 2880; } >"$scratch/mixed/dog/7.ppm"
refused "images of mixed sizes: $scratch/mixed/cat/0.ppm is 32 × 32, but $scratch/mixed/dog/7.ppm is 32 × 30" mixed resnet18

pictures picture-cut
truncate -s 100 "$scratch/picture-cut/cat/3.ppm"
refused "picture-cut/cat/3.ppm is truncated" picture-cut resnet18
finished
