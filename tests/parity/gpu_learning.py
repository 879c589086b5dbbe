#!/usr/bin/env python3
"""gpu_learning.py: GPT-2 124M learns a text on a GPU in bf16, by tensor cores, beside PyTorch under autocast: the same initial weights, data
order and settings.

Two programs that round otherwise drift apart, so how far is far is measured. Each trains three times with other roundings: PyTorch eager, compiled,
and eager with another attention; lockstep with 2 slices (its default), 1 and 4. The distance of two runs is the root mean square over the steps of
the relative differences of their losses. The mean distance from a run of lockstep to one of PyTorch may be LIMIT times the mean distance between
two of PyTorch's: were the six alike, it would be once. A single pair would not do: of three runs that are alike, one is often twice as far from
another as the other two are apart.

    TEST_DATA=FOLDER BUILD=build tests/parity/gpu_learning.py [--steps N] [--batch B] [--csv FILE]

The text is tinyshakespeare.txt and the tokenizer gpt2-bpe, in TEST_DATA. Without them, or without a GPU, the exit status is 77.
"""
import argparse
import concurrent.futures
import csv
import glob
import itertools
import json
import multiprocessing
import os
import sys
import tempfile
import time

import numpy
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import ours
import plain

LIMIT = 1.5
SLICES = [2, 1, 4]
OTHER = "eager, other attention"
MODES = ["eager", "compiled", OTHER]
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


def start_of(folder, options):
    """The initial weights."""
    start = os.path.join(folder, "start")
    ours.run("lockstep", "train", *options, "--steps", 0, "--out", start)
    return load(ours.weights_of(start, 0))


def train(folder, options, slices, steps):
    """Losses by step."""
    run, began = os.path.join(folder, f"run{slices}"), time.time()
    ours.run("lockstep", "train", *options, "--slices", slices, "--steps", steps, "--warmup", warmup(steps), "--out", run)
    print(f"lockstep, slices {slices}: {time.time() - began:.0f} s", flush=True)
    return ours.metrics(run)[0]


def options_of(data, B):
    return ["--preset", "gpt2-124m", "--data", data, "--val-fraction", 0, "--eval-every", 0, "--seed", SEED, "--seq", T, "--global-batch", B,
            "--lr", LR, "--lr-schedule", "cosine", "--weight-decay", WEIGHT_DECAY, "--clip", CLIP, "--precision", "bf16", "--device", "cuda"]


def train_pytorch(mode, start, data, steps, B):
    weights = {name: value.cuda().requires_grad_() for name, value in start.items()}
    parameters = list(weights.values())
    optimizer = torch.optim.AdamW([{"params": [p for p in parameters if p.dim() > 1], "weight_decay": WEIGHT_DECAY},
                                   {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0}],
                                  lr=LR, betas=(0.9, 0.95), eps=1e-8, fused=True)
    loss_of = torch.compile(plain.loss) if mode == "compiled" else plain.loss
    backend = [SDPBackend.EFFICIENT_ATTENTION] if mode == OTHER else [SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]
    began, losses = time.time(), {}
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = ours.learning_rate(step, LR, warmup(steps), steps)
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16), sdpa_kernel(backend):
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


def mean_distance(pairs):
    distances = [distance(*pair) for pair in pairs]
    return sum(distances) / len(distances)


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
        words = options_of(",".join(files), options.batch)
        start = start_of(folder, words)
        # All at once: none of them fills a GPU, and nobody looks at the clock.
        with (concurrent.futures.ThreadPoolExecutor() as threads,
              concurrent.futures.ProcessPoolExecutor(len(MODES), multiprocessing.get_context("spawn")) as processes):
            peers = {mode: processes.submit(train_pytorch, mode, start, data, options.steps, options.batch) for mode in MODES}
            found = {f"slices {slices}": threads.submit(train, folder, words, slices, options.steps) for slices in SLICES}
            peers, found = ({name: run.result() for name, run in some.items()} for some in (peers, found))
    runs = {**found, **peers}
    if options.csv:
        with open(options.csv, "w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(["step", *runs])
            rows.writerows([step, *(f"{losses[step]:.6f}" for losses in runs.values())] for step in range(1, options.steps + 1))
    last = min(50, options.steps)
    for name, losses in runs.items():
        print(f"{name:24} first loss {losses[1]:.6f}, mean of the last {last}: {mean_of_last(losses, last):.5f}")
    theirs, own = (mean_distance(itertools.combinations(some.values(), 2)) for some in (peers, found))
    between = mean_distance(itertools.product(found.values(), peers.values()))
    bad = any(losses.keys() != peers["eager"].keys() for losses in runs.values()) or not between <= LIMIT * theirs
    print(f"gpu_learning: {options.steps} steps, {between:.2e} from PyTorch, whose runs are {theirs:.2e} apart, lockstep's {own:.2e}: "
          f"{between / theirs:.2f} times{'  FAILED' if bad else ''}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
