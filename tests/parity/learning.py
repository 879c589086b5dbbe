#!/usr/bin/env python3
"""learning.py: the preset `tiny` learns a text beside a PyTorch model of the same shape, initial weights, data order and settings.

Writes OUT/learning/training.csv and validation.csv, OUT/learning/curves.svg and OUT/learning.md; fails when the last
validation losses are more than 1 % apart.

    TEST_DATA=FOLDER BUILD=build tests/parity/learning.py [--steps N] [--text FILE] [--out FOLDER]

The text is tinyshakespeare.txt in TEST_DATA. Without it the exit status is 77.
"""
import argparse
import csv
import os
import platform
import sys
import tempfile
import time

import torch
from safetensors.torch import load_file

import chart
import ours
import plain

LIMIT = 0.01
T, B, SEED, LR, WEIGHT_DECAY, CLIP, EVAL_BATCHES = 256, 32, 0, 6e-4, 0.1, 1.0, 10
TINY = plain.gpt2(256, 128, 6, 8, T)

PAGE = """# Learning beside PyTorch

The preset `tiny` ({parameters:.2f} M parameters) on {text_name} ({text_kb:.0f} kB, as bytes; the last 5 % are held out), {steps} steps of
{B} sequences of {T} tokens, {tokens:.2f} M tokens in all: AdamW, {lr:g} after {warmup} steps of warm-up, then a cosine down to a tenth,
weight decay {decay:g} on matrices and tables, gradients clipped at {clip:g}. PyTorch {torch} gets the same initial weights, the same
order of the samples and the same settings, in fp32, with its own operations, its own AdamW and its own clipping.

| after {steps} steps | lockstep | PyTorch | apart |
|---|---|---|---|
| validation loss | {val:.6f} | {val_torch:.6f} | {val_apart:.2e} |
| training loss of the last batch | {loss:.6f} | {loss_torch:.6f} | {loss_apart:.2e} |
| largest difference of a training loss on the way | | | {worst:.2e} (step {worst_step}) |

![Both curves and their difference](learning/curves.svg)

The numbers: [training.csv](learning/training.csv), [validation.csv](learning/validation.csv). This page and they are what

    make programs && tools/venv build/venv
    TEST_DATA=FOLDER build/venv/bin/python tests/parity/learning.py --steps {steps}

wrote on {machine}, FOLDER being that of {text_name}; it fails when the validation losses are more than {limit:.0%} apart. lockstep ends
with the same bits on every machine: `weights=xxh128:{weights}`.
"""


def train(folder, text, steps):
    """(losses, validation losses, initial weights, hash of the final ones)"""
    options = ["--preset", "tiny", "--data", text, "--seed", SEED, "--seq", T, "--global-batch", B, "--lr", LR, "--lr-schedule",
               "cosine", "--weight-decay", WEIGHT_DECAY, "--clip", CLIP, "--eval-batches", EVAL_BATCHES]
    start, run = os.path.join(folder, "start"), os.path.join(folder, "run")
    ours.run("lockstep", "train", *options, "--steps", 0, "--out", start, XDG_CACHE_HOME=folder)
    began = time.time()
    said = ours.run("lockstep", "train", *options, "--steps", steps, "--warmup", warmup(steps), "--eval-every",
                    max(1, steps // 10), "--out", run, XDG_CACHE_HOME=folder)
    print(f"lockstep: {time.time() - began:.0f} s", flush=True)
    bits = said.strip().splitlines()[-1].split("xxh128:")[1].split()[0]
    return *ours.metrics(run), load_file(ours.weights_of(start, 0)), bits


def warmup(steps):
    return min(100, steps // 10)


def evaluate(weights, windows):
    with torch.no_grad():
        sums = [plain.loss(weights, TINY, part).item() * len(part) for part in windows.split(B)]
    return sum(sums) / len(windows)


def train_pytorch(start, text, steps):
    data, losses, validation = ours.Text(text, SEED, T), {}, {}
    weights = {name: value.clone().requires_grad_() for name, value in start.items()}
    parameters, held = list(weights.values()), data.validation(EVAL_BATCHES * B)
    optimizer = torch.optim.AdamW([{"params": [p for p in parameters if p.dim() > 1], "weight_decay": WEIGHT_DECAY},
                                   {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0}],
                                  lr=LR, betas=(0.9, 0.95), eps=1e-8)
    began = time.time()
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = ours.learning_rate(step, LR, warmup(steps), steps)
        optimizer.zero_grad()
        loss = plain.loss(weights, TINY, data.batch(step, B))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, CLIP)
        optimizer.step()
        losses[step + 1] = loss.item()
        if (step + 1) % max(1, steps // 10) == 0 or step + 1 == steps:
            validation[step + 1] = evaluate(weights, held)
    print(f"PyTorch: {time.time() - began:.0f} s", flush=True)
    return losses, validation


def write_csv(path, found, theirs):
    with open(path, "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["step", "tokens", "lockstep", "pytorch"])
        out.writerows([step, step * B * T, f"{found[step]:.7f}", f"{theirs[step]:.7f}"] for step in sorted(found))


def apart(a, b):
    return abs(a - b) / b


def write_page(folder, text, steps, found, theirs, found_val, theirs_val, bits):
    place = os.path.join(folder, "learning")
    os.makedirs(place, exist_ok=True)
    write_csv(os.path.join(place, "training.csv"), found, theirs)
    write_csv(os.path.join(place, "validation.csv"), found_val, theirs_val)
    chart.draw(os.path.join(place, "curves.svg"), f"tiny on {os.path.basename(text)}: loss in nats per byte", found, theirs,
               found_val, theirs_val)
    worst = max(found, key=lambda step: apart(found[step], theirs[step]))
    page = PAGE.format(
        parameters=sum(rows.numel() for rows in map(torch.empty, plain.parameters(TINY).values())) / 1e6,
        text_name=os.path.basename(text), text_kb=os.path.getsize(text) / 1e3, steps=steps, B=B, T=T,
        tokens=steps * B * T / 1e6, lr=LR, warmup=warmup(steps), decay=WEIGHT_DECAY, clip=CLIP,
        torch=torch.__version__.split("+")[0], val=found_val[steps], val_torch=theirs_val[steps],
        val_apart=apart(found_val[steps], theirs_val[steps]), loss=found[steps], loss_torch=theirs[steps],
        loss_apart=apart(found[steps], theirs[steps]), worst=apart(found[worst], theirs[worst]), worst_step=worst,
        machine=platform.machine(), limit=LIMIT, weights=bits)
    with open(os.path.join(folder, "learning.md"), "w") as file:
        file.write(page)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--text", default=os.path.join(os.environ.get("TEST_DATA", "."), "tinyshakespeare.txt"))
    parser.add_argument("--out", default=os.path.join(here, "..", "..", "docs", "log"))
    options = parser.parse_args()
    if not os.path.isfile(options.text):
        print(f"learning: skipped: there is no {options.text}; name a text with --text, or its folder with TEST_DATA")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        found, found_val, start, bits = train(folder, options.text, options.steps)
    theirs, theirs_val = train_pytorch(start, options.text, options.steps)
    write_page(options.out, options.text, options.steps, found, theirs, found_val, theirs_val, bits)
    last = options.steps
    error = apart(found_val[last], theirs_val[last])
    bad = not error <= LIMIT or found.keys() != theirs.keys() or found_val.keys() != theirs_val.keys()
    print(f"learning: {last} steps, validation loss {found_val[last]:.6f}, PyTorch {theirs_val[last]:.6f}: {error:.2e} "
          f"apart{'  FAILED' if bad else ''}")
    sys.exit(1 if bad else 0)


main()
