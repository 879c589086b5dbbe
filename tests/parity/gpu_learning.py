#!/usr/bin/env python3
"""gpu_learning.py: GPT-2 124M learns a text on a GPU in bf16, by tensor cores, beside PyTorch under autocast: the same initial weights, data
order and settings.

Two programs that round otherwise drift apart, and where the rate is high so do two runs of one program, so how far is far is measured. Each side
trains three times with other roundings (PyTorch eager, compiled, and eager with another attention; lockstep with 2 slices, its default, 1 and 4),
and RUNS times in its usual way (compiled; 2 slices) from initial weights that are 1e-6 of themselves away, the same ones for both: as far as
those get from each other, equal programs get. The distance of two runs is the root mean square over the steps of the relative differences of
their losses. docs/log/learning-bf16.md says why three runs are too few.

The rule, for each schedule:
- as long as PyTorch's runs are within PARTED of each other (EXACT_STEPS at most), lockstep's are at most LIMIT times as far from PyTorch in fp32 as they;
- over all steps, the mean distance from a run of lockstep to one of PyTorch is at most LIMIT times the mean distance between two of PyTorch's: were
  all alike, it would be once;
- the means of both sides' last losses are at most ERRORS standard errors apart.
The second is printed for the six runs without noise as well.

    TEST_DATA=FOLDER BUILD=build tests/parity/gpu_learning.py [--steps N] [--batch B] [--runs N] [--schedule usual|calm|both] [--keep FOLDER]
                                                              [--device cpu --model small [--unit chain]]

The schedules: `usual` warms up for a tenth of the steps (50 at most) to the rate that is usual for the model; `calm` goes on from weights that have learned
for a fifth of the steps, and warms up for as long to a third of the rate. --keep holds finished runs: a call that is repeated makes only those that
are missing, so --runs may grow. A CPU takes the smaller models, whose text is read as bytes. The text is tinyshakespeare.txt and the tokenizer
gpt2-bpe, in TEST_DATA. Without them, or without the device, the exit status is 77.
"""
import argparse
import collections
import concurrent.futures
import csv
import glob
import itertools
import json
import math
import multiprocessing
import os
import statistics
import sys
import tempfile
import time

import numpy
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import ours
import plain

LIMIT, ERRORS, NOISE, PARTED = 1.5, 3.0, 1e-6, 1e-3
SLICES = [2, 1, 4]
OTHER = "eager, other attention"
MODES = ["eager", "compiled", OTHER]
EXACT, EXACT_STEPS = "fp32", 60
SEED, WEIGHT_DECAY, CLIP = 0, 0.1, 1.0
HEADER_BYTES = 1024  # of a token file
# peak rate, batch; the text is bytes where the vocabulary is 256
Model = collections.namedtuple("Model", "shape batch lr")
MODELS = {"124m": Model(plain.gpt2(50257, 768, 12, 12, 1024), 16, 6e-4),
          "small": Model(plain.gpt2(256, 64, 4, 4, 64), 16, 6e-3),
          "tiny": Model(plain.gpt2(256, 32, 2, 4, 32), 8, 4e-2)}
# What one run needs to know besides its own name.
Setting = collections.namedtuple("Setting", "folder device unit shape data files batch lr warmup steps")


def schedules(lr, steps):
    """(peak, warm-up, steps that the weights have learned before) by name."""
    return {"usual": (lr, min(50, steps // 10), 0), "calm": (lr / 3, steps // 5, steps // 5)}


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


def perturb(path, seed):
    """Every number of a safetensors file in fp32 gets an error of its own, NOISE of it in size."""
    with open(path, "r+b") as file:
        begin = int.from_bytes(file.read(8), "little") + 8
        file.seek(begin)
        values = numpy.frombuffer(file.read(), dtype=numpy.float32)
        noise = numpy.random.default_rng(seed).standard_normal(len(values), dtype=numpy.float32)
        file.seek(begin)
        file.write((values * (1 + NOISE * noise.astype(numpy.float64))).astype(numpy.float32).tobytes())


class Tokens(ours.Text):
    """Token files, all of them for training."""

    def __init__(self, paths, seed, T):
        ids = numpy.concatenate([numpy.fromfile(path, dtype=numpy.uint16, offset=HEADER_BYTES) for path in paths])
        self.tokens, self.T, self.val_first = torch.from_numpy(ids.astype(numpy.int64)), T, len(ids)
        self.sampler = ours.Sampler(seed, len(ids), T)


def lockstep(setting, out, model, slices):
    """Trains; the name of the run's folder."""
    out = os.path.join(setting.folder, out)
    ours.run("lockstep", "train", "--model", model, *setting.data, "--eval-every", 0, "--seed", SEED, "--global-batch", setting.batch,
             "--lr", setting.lr, "--lr-schedule", "cosine", "--weight-decay", WEIGHT_DECAY, "--clip", CLIP, "--precision", "bf16",
             "--device", setting.device, "--matrix-unit", setting.unit, "--slices", slices, "--steps", setting.steps, "--warmup", setting.warmup,
             "--out", out, *(["--threads", 1] if setting.device == "cpu" else []))
    return out


def train(setting, name, slices, model):
    """Losses by step."""
    return ours.metrics(lockstep(setting, "run " + name, model, slices))[0]


def starts_of(setting, learned, runs):
    """(a model to start from, its weights) by seed: after so many steps of lockstep with seed 0, with noise with the others."""
    shape, starts = os.path.join(setting.folder, "shape.json"), {}
    ours.write_json(shape, setting.shape)
    made = lockstep(setting._replace(steps=learned), "made", shape, SLICES[0])
    for seed in range(runs + 1):
        model = os.path.join(setting.folder, f"start{seed}")
        ours.run("lockstep", "export", "--model", made, "--out", model)
        if seed:
            perturb(os.path.join(model, "model.safetensors"), seed)
        weights = lockstep(setting._replace(steps=0), f"weights{seed}", model, SLICES[0])
        starts[seed] = model, load(ours.weights_of(weights, 0))
    return starts


def text_of(setting):
    """The tokens, for PyTorch."""
    T = setting.shape["positions"]
    return ours.Text(setting.files[0], SEED, T, 0) if setting.shape["vocab"] == 256 else Tokens(setting.files, SEED, T)


def backends(mode, device):
    if mode == OTHER:
        return [SDPBackend.MATH if device == "cpu" else SDPBackend.EFFICIENT_ATTENTION]
    return [SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


def train_pytorch(setting, mode, start):
    """Losses by step."""
    data, device = text_of(setting), setting.device
    if device == "cpu":
        torch.set_num_threads(1)
    weights = {name: value.to(device, copy=True).requires_grad_() for name, value in start.items()}
    parameters = list(weights.values())
    optimizer = torch.optim.AdamW([{"params": [p for p in parameters if p.dim() > 1], "weight_decay": WEIGHT_DECAY},
                                   {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0}],
                                  lr=setting.lr, betas=(0.9, 0.95), eps=1e-8, fused=device == "cuda")
    loss_of = torch.compile(plain.loss) if mode == "compiled" else plain.loss
    losses, exact = {}, mode == EXACT
    for step in range(min(EXACT_STEPS, setting.steps) if exact else setting.steps):
        for group in optimizer.param_groups:
            group["lr"] = ours.learning_rate(step, setting.lr, setting.warmup, setting.steps)
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.bfloat16, enabled=not exact), sdpa_kernel(backends(mode, device)):
            loss = loss_of(weights, setting.shape, data.batch(step, setting.batch).to(device))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, CLIP)
        optimizer.step()
        losses[step + 1] = loss.detach()
    return {step: loss.item() for step, loss in losses.items()}


def timed(name, keep, work, *args):
    """What work gives, from `keep` where an earlier call has left it."""
    path, began = os.path.join(keep, name + ".json"), time.time()
    if not os.path.exists(path):
        ours.write_json(path + ".new", work(*args))
        os.replace(path + ".new", path)
        print(f"{name}: {time.time() - began:.0f} s", flush=True)
    with open(path, encoding="utf-8") as file:
        return {int(step): loss for step, loss in json.load(file).items()}


def train_all(setting, keep, starts, at_once):
    """(losses of lockstep, of PyTorch, of PyTorch in fp32), by name."""
    usual = "eager" if setting.device == "cpu" else "compiled"  # the faster one
    modes = [(mode, mode, 0) for mode in MODES] + [(f"{usual}, noise {seed}", usual, seed) for seed in starts if seed]
    slices = [(f"slices {S}", S, 0) for S in SLICES] + [(f"slices 2, noise {seed}", 2, seed) for seed in starts if seed]
    # All at once: none of them fills a GPU, and no time is measured.
    with (concurrent.futures.ThreadPoolExecutor(at_once) as threads,
          concurrent.futures.ProcessPoolExecutor(at_once, multiprocessing.get_context("spawn")) as processes):
        peers = {name: processes.submit(timed, name, keep, train_pytorch, setting, mode, starts[seed][1]) for name, mode, seed in modes}
        exact = {EXACT: processes.submit(timed, EXACT, keep, train_pytorch, setting, EXACT, starts[0][1])}
        found = {name: threads.submit(timed, name, keep, train, setting, name, S, starts[seed][0]) for name, S, seed in slices}
        return tuple({name: run.result() for name, run in some.items()} for some in (found, peers, exact))


def distance(found, other):
    return (sum(((found[step] - other[step]) / other[step]) ** 2 for step in other) / len(other)) ** 0.5


def mean_distance(pairs):
    return statistics.mean(distance(*pair) for pair in pairs)


def distances(found, peers):
    """(between the kinds, of PyTorch's, of lockstep's)"""
    theirs, own = (mean_distance(itertools.combinations(some, 2)) for some in (peers, found))
    return mean_distance(itertools.product(found, peers)), theirs, own


def together(peers, steps):
    """The first steps, in which no two of PyTorch's runs are PARTED apart."""
    step = 0
    while step < steps and max(losses[step + 1] for losses in peers) <= (1 + PARTED) * min(losses[step + 1] for losses in peers):
        step += 1
    return range(1, step + 1)


def from_exact(some, exact, steps):
    return mean_distance((losses, {step: exact[step] for step in steps}) for losses in some)


def last_of(losses, count):
    return statistics.mean(losses[step] for step in sorted(losses)[-count:])


def report(schedule, found, peers, exact, steps):
    """Whether the rule is broken."""
    last, runs = min(50, steps), {**found, **peers}
    for name, losses in runs.items():
        print(f"{schedule}: {name:24} first loss {losses[1]:.6f}, mean of the last {last}: {last_of(losses, last):.5f}")
    few = distances(list(found.values())[:len(SLICES)], list(peers.values())[:len(MODES)])
    print(f"{schedule}: six runs without noise: {few[0]:.2e} from PyTorch, whose are {few[1]:.2e} apart, lockstep's {few[2]:.2e}: {few[0] / few[1]:.2f} times")
    first = together(peers.values(), len(exact))
    errors = [from_exact(some.values(), exact, first) if first else math.nan for some in (found, peers)]
    print(f"{schedule}: steps 1 to {len(first)}, before the runs part: from fp32 {errors[0]:.2e} of lockstep, {errors[1]:.2e} of PyTorch: "
          f"{errors[0] / errors[1]:.2f} times (limit {LIMIT})")
    between, theirs, own = distances(list(found.values()), list(peers.values()))
    ends = [[last_of(losses, last) for losses in some.values()] for some in (found, peers)]
    mean, deviation = ([f(some) for some in ends] for f in (statistics.mean, statistics.stdev))
    error = math.hypot(*(d / len(some) ** 0.5 for d, some in zip(deviation, ends)))
    bad = any(sorted(losses) != list(range(1, steps + 1)) for losses in runs.values())
    bad = bad or not errors[0] <= LIMIT * errors[1] or not between <= LIMIT * theirs or not abs(mean[0] - mean[1]) <= ERRORS * error
    print(f"{schedule}: last losses {mean[0]:.5f} ± {deviation[0]:.5f} of lockstep, {mean[1]:.5f} ± {deviation[1]:.5f} of PyTorch: "
          f"{(mean[0] - mean[1]) / error:+.1f} standard errors (limit {ERRORS:g})")
    print(f"gpu_learning: {schedule}, {steps} steps, {len(found)} and {len(peers)} runs: {between:.2e} from PyTorch, whose runs are {theirs:.2e} apart, "
          f"lockstep's {own:.2e}: {between / theirs:.2f} times (limit {LIMIT}){'  FAILED' if bad else ''}", flush=True)
    return bad


def write_csv(path, runs, steps):
    with open(path, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["step", *runs])
        rows.writerows([step, *(f"{losses[step]:.6f}" if step in losses else "" for losses in runs.values())] for step in range(1, steps + 1))


def skip(why):
    print("gpu_learning: skipped: " + why)
    sys.exit(77)


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--lr", type=float, help="peak of the usual schedule")
    parser.add_argument("--runs", type=int, default=4, help="runs with noise of each kind")
    parser.add_argument("--schedule", choices=["usual", "calm", "both"], default="both")
    parser.add_argument("--csv", help="write the losses to files whose names begin so")
    parser.add_argument("--keep", help="folder for the losses of finished runs")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--model", choices=MODELS, default="124m")
    parser.add_argument("--unit", default="hgmma", help="matrix unit of lockstep")
    parser.add_argument("--at-once", type=int, default=6, help="runs of each kind at a time")
    return parser.parse_args()


def data_of(folder, shape):
    """(options of the data, files)"""
    place = os.environ.get("TEST_DATA", ".")
    text, tokenizer = os.path.join(place, "tinyshakespeare.txt"), os.path.join(place, "gpt2-bpe")
    if not os.path.isfile(text) or not os.path.isdir(tokenizer):
        skip(f"there is no {text}, or no {tokenizer}; TEST_DATA names their folder")
    common = ["--seq", shape["positions"], "--val-fraction", 0]
    if shape["vocab"] == 256:
        return [*common, "--data", text, "--tokenizer", "bytes"], [text]
    ours.run("lockstep", "tokenize", "--tokenizer", tokenizer, "--data", text, "--out", os.path.join(folder, "tokens"))
    files = sorted(glob.glob(os.path.join(folder, "tokens*", "*.bin")) + glob.glob(os.path.join(folder, "tokens*.bin")))
    return [*common, "--data", ",".join(files)], files


def main():
    options, bad = arguments(), False
    if options.device == "cuda" and not torch.cuda.is_available():
        skip("PyTorch sees no GPU")
    shape, batch, lr = MODELS[options.model]
    plans = schedules(options.lr or lr, options.steps)
    for schedule, (peak, warmup, learned) in plans.items():
        if options.schedule not in (schedule, "both"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            keep = os.path.join(options.keep or folder, schedule)
            os.makedirs(keep, exist_ok=True)
            data, files = data_of(folder, shape)
            setting = Setting(folder, options.device, options.unit, shape, data, files, options.batch or batch, peak, warmup, options.steps)
            usual = setting._replace(lr=plans["usual"][0], warmup=plans["usual"][1])
            found, peers, exact = train_all(setting, keep, starts_of(usual, learned, options.runs), options.at_once)
            if options.csv:
                write_csv(f"{options.csv}-{schedule}.csv", {**found, **peers, **exact}, options.steps)
            bad = report(schedule, found, peers, exact[EXACT], options.steps) or bad
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
