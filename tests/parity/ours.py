"""ours.py: running lockstep and the C programs of this folder, and its data order and learning rate written once more.

The order of samples is that of src/data/sampler.h, the learning rate that of docs/reference/arithmetic.md ("Step"). BUILD names the
folder of the outputs.
"""
import argparse
import hashlib
import json
import math
import os
import subprocess
import sys
import tempfile

import numpy
import torch

BUILD = os.path.abspath(os.environ.get("BUILD", "build"))


def run(program, *args, **environment):
    """Standard output of a program of the build folder; ends this one when it fails."""
    command = [os.path.join(BUILD, program), *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def each_case(rows, threads):
    """(number, row, a folder of its own) for every row whose name, which is its first element, has the text of --only."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="only what has this text in its name")
    only = parser.parse_args().only
    torch.set_num_threads(threads)
    for number, row in enumerate(rows):
        if only in row[0]:
            with tempfile.TemporaryDirectory() as folder:
                yield number, row, folder


def gradients(files, outputs, numbers, isa):
    """(loss, hash of all that the program gives)"""
    text = run("tests/parity/gradients", *files, *numbers, *outputs, LS_ISA=isa)
    bits = hashlib.sha256(text.encode())
    for path in outputs:
        with open(path, "rb") as file:
            bits.update(file.read())
    return float.fromhex(text.split()[1]), bits.hexdigest()[:12]


def other_bits(name, expected, runs):
    """How many of the runs (layout, bits) have other bits."""
    wrong = [layout for layout, bits in runs if bits != expected]
    for layout in wrong:
        print(f"FAILED {name}: other bits with micro-batch, threads, ISA = {layout}")
    return len(wrong)


def write_json(path, value):
    with open(path, "w") as file:
        json.dump(value, file)


def write_ids(path, tokens):
    numpy.asarray(tokens, dtype=numpy.int32).tofile(path)


def metrics(folder):
    """(losses, validation losses) by step, as the run wrote them."""
    losses, validation = {}, {}
    with open(os.path.join(folder, "metrics.jsonl")) as file:
        for line in map(json.loads, file):
            if "loss_hex" in line:
                losses[line["step"]] = float.fromhex(line["loss_hex"])
            if "val_loss_hex" in line:
                validation[line["step"]] = float.fromhex(line["val_loss_hex"])
    return losses, validation


def weights_of(folder, step):
    return os.path.join(folder, "checkpoints", f"step-{step:09d}", "weights.safetensors")


def philox(counter, key):
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & 0xFFFFFFFF, (p0 >> 32) ^ c3 ^ k1, p0 & 0xFFFFFFFF
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c0, c1, c2, c3


def random_block(seed, purpose, step, block):
    counter = (block & 0xFFFFFFFF, block >> 32 | (step & 0xFFFF) << 16, step >> 16 & 0xFFFFFFFF, purpose)
    return philox(counter, (seed & 0xFFFFFFFF, seed >> 32))


class Sampler:
    """Which token sample `index` begins with."""
    ORDER, SHIFT, ROUNDS = 0x0D01, 0x0D02, 8

    def __init__(self, seed, tokens, length):
        self.seed, self.length = seed, length
        self.windows = (tokens - 1) // length
        self.rest = tokens - 1 - self.windows * length
        self.half = 1
        while 4 ** self.half < self.windows:
            self.half += 1

    def permute(self, epoch, j):
        mask = (1 << self.half) - 1
        while True:
            left, right = j >> self.half, j & mask
            for k in range(self.ROUNDS):
                word = random_block(self.seed, self.ORDER, epoch, k << 32 | right)[0]
                left, right = right, left ^ (word & mask)
            j = left << self.half | right
            if j < self.windows:
                return j

    def start(self, index):
        epoch, j = divmod(index, self.windows)
        window = self.permute(epoch, j) if self.windows > 1 else 0
        if epoch == 0:
            return window * self.length
        low, high = random_block(self.seed, self.SHIFT, epoch, 0)[:2]
        return window * self.length + ((low | high << 32) * (self.rest + 1) >> 64)


class Text:
    """A file as bytes, cut for training and validation as `lockstep train` does it."""

    def __init__(self, path, seed, T, val_fraction=0.05):
        self.tokens = torch.from_numpy(numpy.fromfile(path, dtype=numpy.uint8).astype(numpy.int64))
        held = int(float(len(self.tokens)) * val_fraction)
        self.T, self.val_first = T, len(self.tokens) - (held if held > T else 0)
        self.sampler = Sampler(seed, self.val_first, T)

    def windows(self, starts):
        return torch.stack([self.tokens[start: start + self.T + 1] for start in starts])

    def batch(self, step, B):
        """tokens [B][T + 1] of a step, from 0"""
        return self.windows(self.sampler.start(step * B + i) for i in range(B))

    def validation(self, samples):
        """The first `samples` windows that are held out, or all."""
        count = min(samples, (len(self.tokens) - self.val_first - 1) // self.T)
        return self.windows(self.val_first + i * self.T for i in range(count))


def learning_rate(step, peak, warmup, steps, lowest=0.1):
    """Warm-up and cosine."""
    if step < warmup:
        return peak * ((step + 1) / warmup)
    x = (step - warmup) / (steps - warmup)
    return peak - (peak - peak * lowest) * 0.5 * (1 - math.cos(math.pi * x))
