#!/usr/bin/env python3
"""digits.py: a real set of images, the handwritten digits that come with scikit-learn (1797 of 8 × 8): more than 95 % of those that
were held back are right.

They are written as IDX files, every fourth of them to test with: 8 × 8 for plain layers, and for LeNet each pixel 3 × 3 times
with 2 black ones around, 28 × 28. Skipped where scikit-learn is not installed.

    BUILD=build tests/parity/digits.py
"""
import json
import os
import struct
import sys
import tempfile

import numpy

import ours

try:
    from sklearn.datasets import load_digits
except ImportError:
    print(f"{sys.executable} lacks scikit-learn, which brings the digits: pip install scikit-learn")
    sys.exit(77)

LEAST = 0.95
PLAIN = {"arch": "mlp", "widths": "128", "channels": 1, "image-height": 8, "image-width": 8}


def write_idx(folder, pixels, labels):
    os.mkdir(folder)
    test = numpy.arange(len(labels)) % 4 == 3
    for name, chosen in (("train", ~test), ("t10k", test)):
        count, (height, width) = int(chosen.sum()), pixels.shape[1:]
        with open(os.path.join(folder, f"{name}-images-idx3-ubyte"), "wb") as file:
            file.write(struct.pack(">4I", 0x803, count, height, width) + pixels[chosen].tobytes())
        with open(os.path.join(folder, f"{name}-labels-idx1-ubyte"), "wb") as file:
            file.write(struct.pack(">2I", 0x801, count) + labels[chosen].astype(numpy.uint8).tobytes())


def accuracy(folder, model, data, *flags):
    out = os.path.join(folder, "run-" + os.path.basename(data))
    ours.run("lockstep", "train", "--model", model, "--data", data, "--out", out, "--eval-every", 0, *flags)
    return json.loads(ours.run("lockstep", "eval", "--model", out, "--data", data, "--json"))


def main():
    digits, failed = load_digits(), 0
    small = numpy.rint(digits.images * 255 / 16).astype(numpy.uint8)
    large = numpy.pad(small.repeat(3, axis=1).repeat(3, axis=2), ((0, 0), (2, 2), (2, 2)))
    with tempfile.TemporaryDirectory() as folder:
        ours.write_json(os.path.join(folder, "plain.json"), PLAIN)
        for name, model, pixels in (("plain layers", os.path.join(folder, "plain.json"), small), ("lenet", "lenet", large)):
            data = os.path.join(folder, f"digits-{pixels.shape[1]}")
            write_idx(data, pixels, digits.target)
            found = accuracy(folder, model, data, "--steps", 400, "--global-batch", 64, "--lr", 0.002)
            bad = not found["accuracy"] > LEAST
            failed += bad
            print(f"{name}, {pixels.shape[1]} × {pixels.shape[2]}: {100 * found['accuracy']:.2f} % of {found['images']} digits"
                  f"{'  FAILED' if bad else ''}", flush=True)
    print(f"digits: 2 models, {failed} failures")
    sys.exit(1 if failed else 0)


main()
