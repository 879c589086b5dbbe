#!/usr/bin/env python3
"""gpu_learning.py: GPT-2 124M learns a text on a GPU in bf16, by tensor cores, beside PyTorch under autocast: the same initial weights, data
order and settings.

Two programs that round otherwise drift apart, so how far is far is measured: PyTorch trains twice, eager and compiled. The root mean square
over the steps of the relative differences of the losses is their distance; that of lockstep from either may be LIMIT times theirs.

    TEST_DATA=FOLDER BUILD=build tests/parity/gpu_learning.py [--steps N] [--batch B] [--csv FILE]

The text is tinyshakespeare.txt and the tokenizer gpt2-bpe, in TEST_DATA. Without them, or without a GPU, the exit status is 77.
"""
import argparse
import csv
import glob
import json
import os
import sys
import tempfile
import time

import numpy
import torch

import ours
import plain

LIMIT = 1.5
T, SEED, LR, WEIGHT_DECAY, CLIP = 1024, 0, 6e-4, 0.1, 1.0
SHAPE = plain.gpt2(50257, 768, 12, 12, T)
HEADER_BYTES = 1024  # of a token file


def warmup(steps):
    return min(50, steps // 10)


def load(path):
    """Tensors of a safetensors file in fp32."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = bytearray(file.read())
    tensors = {}
    for name, about in header.items():
        if name != "__metadata__":
            first, end = about["data_offsets"]
            tensors[name] = torch.frombuffer(data, dtype=torch.float32, count=(end - first) // 4, offset=first).view(about["shape"])
    return tensors


class Tokens(ours.Text):
    """Token files, all of them for training."""

    def __init__(self, paths, seed, T):
        ids = numpy.concatenate([numpy.fromfile(path, dtype=numpy.uint16, offset=HEADER_BYTES) for path in paths])
        self.tokens, self.T, self.val_first = torch.from_numpy(ids.astype(numpy.int64)), T, len(ids)
        self.sampler = ours.Sampler(seed, len(ids), T)


def train(folder, data, steps, B):
    """(losses by step, initial weights)"""
    options = ["--preset", "gpt2-124m", "--data", data, "--val-fraction", 0, "--eval-every", 0, "--seed", SEED, "--seq", T, "--global-batch", B,
               "--lr", LR, "--lr-schedule", "cosine", "--weight-decay", WEIGHT_DECAY, "--clip", CLIP, "--precision", "bf16", "--device", "cuda"]
    start, run = os.path.join(folder, "start"), os.path.join(folder, "run")
    ours.run("lockstep", "train", *options, "--steps", 0, "--out", start)
    began = time.time()
    ours.run("lockstep", "train", *options, "--steps", steps, "--warmup", warmup(steps), "--out", run)
    print(f"lockstep: {time.time() - began:.0f} s", flush=True)
    return ours.metrics(run)[0], load(ours.weights_of(start, 0))


def train_pytorch(mode, start, data, steps, B):
    weights = {name: value.cuda().requires_grad_() for name, value in start.items()}
    parameters = list(weights.values())
    optimizer = torch.optim.AdamW([{"params": [p for p in parameters if p.dim() > 1], "weight_decay": WEIGHT_DECAY},
                                   {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0}],
                                  lr=LR, betas=(0.9, 0.95), eps=1e-8, fused=True)
    loss_of = torch.compile(plain.loss) if mode == "compiled" else plain.loss
    began, losses = time.time(), {}
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = ours.learning_rate(step, LR, warmup(steps), steps)
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = loss_of(weights, SHAPE, data.batch(step, B).cuda())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, CLIP)
        optimizer.step()
        losses[step + 1] = loss.detach()
    losses = {step: loss.item() for step, loss in losses.items()}
    print(f"PyTorch, {mode}: {time.time() - began:.0f} s", flush=True)
    return losses


def distance(found, other):
    return (sum(((found[step] - other[step]) / other[step]) ** 2 for step in other) / len(other)) ** 0.5


def mean_of_last(losses, count):
    return sum(losses[step] for step in sorted(losses)[-count:]) / count


def skip(why):
    print("gpu_learning: skipped: " + why)
    sys.exit(77)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--csv", help="write the losses there")
    options = parser.parse_args()
    place = os.environ.get("TEST_DATA", ".")
    text, tokenizer = os.path.join(place, "tinyshakespeare.txt"), os.path.join(place, "gpt2-bpe")
    if not os.path.isfile(text) or not os.path.isdir(tokenizer):
        skip(f"there is no {text}, or no {tokenizer}; TEST_DATA names their folder")
    if not torch.cuda.is_available():
        skip("PyTorch sees no GPU")
    with tempfile.TemporaryDirectory() as folder:
        ours.run("lockstep", "tokenize", "--tokenizer", tokenizer, "--data", text, "--out", os.path.join(folder, "tokens"))
        files = sorted(glob.glob(os.path.join(folder, "tokens*", "*.bin")) + glob.glob(os.path.join(folder, "tokens*.bin")))
        data = Tokens(files, SEED, T)
        found, start = train(folder, ",".join(files), options.steps, options.batch)
    eager, compiled = (train_pytorch(mode, start, data, options.steps, options.batch) for mode in ("eager", "compiled"))
    if options.csv:
        with open(options.csv, "w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(["step", "lockstep", "eager", "compiled"])
            rows.writerows([step, *(f"{losses[step]:.6f}" for losses in (found, eager, compiled))] for step in sorted(found))
    theirs, far = distance(compiled, eager), max(distance(found, eager), distance(found, compiled))
    last = min(50, options.steps)
    bad = found.keys() != eager.keys() or not far <= LIMIT * theirs
    print(f"first loss {found[1]:.6f}, PyTorch {eager[1]:.6f} and {compiled[1]:.6f}; mean of the last {last}: {mean_of_last(found, last):.5f}, PyTorch "
          f"{mean_of_last(eager, last):.5f} and {mean_of_last(compiled, last):.5f}")
    print(f"gpu_learning: {options.steps} steps, {far:.2e} from PyTorch, whose eager and compiled runs are {theirs:.2e} apart: {far / theirs:.2f} times"
          f"{'  FAILED' if bad else ''}")
    sys.exit(1 if bad else 0)


main()
