#!/usr/bin/env python3
"""adamw.py: whole training runs beside PyTorch: the same initial weights, data order and settings, step by step.

`lockstep train --steps 0` writes the initial weights, from which a model of transformers begins; PyTorch's own AdamW and SGD
train it in fp32. The data are the bytes of this repository's documents. At every step the losses may differ by 1e-4,
relative; the distance of the final weights, as a part of what they moved, is shown.

    BUILD=build tests/parity/adamw.py [--steps N]
"""
import argparse
import glob
import os
import sys
import tempfile

import torch
from safetensors.torch import load_file

import hf
import ours
import plain

LIMIT = 1e-4
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SEED, T, B, WARMUP, TEXT_BYTES = 7, 64, 8, 10, 40000
ADAMW = {"optimizer": "adamw", "lr": 1e-3, "weight-decay": 0.1, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8}
SGD = {"optimizer": "sgd", "lr": 0.1, "weight-decay": 0.01, "momentum": 0.9}

GPT2 = plain.gpt2(256, 64, 3, 4, T)
LLAMA = plain.llama(256, 64, 3, 4, 2, 172, T)
LLAMA_TIED = plain.llama(256, 48, 2, 6, 2, 100, T, tied=True, attention_bias=True, mlp_bias=True)
# name, shape, steps of the whole, options
CASES = [
    ("gpt2, AdamW", GPT2, 1.0, ADAMW),
    ("llama, AdamW", LLAMA, 1.0, ADAMW),
    ("llama tied with biases, AdamW without clipping", LLAMA_TIED, 1.0, {**ADAMW, "clip": 0}),
    ("gpt2 untied, SGD with momentum", {**GPT2, "tied": False}, 0.3, SGD),
    ("llama, SGD with Nesterov momentum", LLAMA, 0.3, {**SGD, "nesterov": "true"}),
]


def write_text(path):
    """So short that an epoch ends within a run: the next one has another order and other cuts."""
    text = ""
    for name in sorted(glob.glob(os.path.join(ROOT, "docs", "*.md"))):
        with open(name, encoding="utf-8") as file:
            text += file.read()
    with open(path, "wb") as file:
        file.write(text.encode()[:TEXT_BYTES])


def train(folder, name, shape_file, text, steps, options):
    out = os.path.join(folder, name)
    flags = [f"--{key}={value}" for key, value in options.items()]
    ours.run("lockstep", "train", "--model", shape_file, "--data", text, "--tokenizer", "bytes", "--out", out, "--steps",
             steps, "--seed", SEED, "--seq", T, "--global-batch", B, "--warmup", WARMUP, "--lr-schedule", "cosine",
             "--eval-every", 0, *flags, XDG_CACHE_HOME=folder)
    return out, load_file(ours.weights_of(out, steps))


def make_optimizer(parameters, options):
    groups = [{"params": [p for p in parameters if p.dim() > 1], "weight_decay": options["weight-decay"]},
              {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0}]
    if options["optimizer"] == "adamw":
        return torch.optim.AdamW(groups, lr=0.0, betas=(options["beta1"], options["beta2"]), eps=options["eps"])
    return torch.optim.SGD(groups, lr=0.0, momentum=options["momentum"], nesterov="nesterov" in options)


def train_pytorch(shape, weights, text, steps, options):
    """(losses, final weights by our names)"""
    made, data = hf.model(shape, weights), ours.Text(text, SEED, T)
    parameters = list(made.parameters())
    optimizer, losses = make_optimizer(parameters, options), []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = ours.learning_rate(step, options["lr"], WARMUP, steps)
        optimizer.zero_grad()
        loss = hf.loss(made, data.batch(step, B))
        loss.backward()
        if options.get("clip", 1) > 0:
            torch.nn.utils.clip_grad_norm_(parameters, options.get("clip", 1))
        optimizer.step()
        losses.append(loss.item())
    return losses, hf.ours_from({name: tensor.detach() for name, tensor in made.named_parameters()}, shape)


def total(tensors):
    return sum(tensor.double().pow(2).sum() for tensor in tensors) ** 0.5


def check(name, shape, steps, options, folder, text):
    shape_file = os.path.join(folder, "shape.json")
    ours.write_json(shape_file, shape)
    _, start = train(folder, "start", shape_file, text, 0, options)
    out, end = train(folder, "run", shape_file, text, steps, options)
    found, _ = ours.metrics(out)
    losses, weights = train_pytorch(shape, start, text, steps, options)
    errors = [abs(found[i + 1] - loss) / loss for i, loss in enumerate(losses)]
    worst = max(range(steps), key=errors.__getitem__)
    moved = total(end[key] - start[key] for key in end)
    apart = total(end[key].reshape(weights[key].shape) - weights[key] for key in end)
    bad = len(found) != steps or not errors[worst] <= LIMIT
    print(f"{name}: {steps} steps, loss {found[1]:.4f} to {found[steps]:.4f}; PyTorch {losses[-1]:.4f}; most apart "
          f"{errors[worst]:.1e} at step {worst + 1}; weights {apart / moved:.1e} of their way{'  FAILED' if bad else ''}",
          flush=True)
    return bad


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    steps = parser.parse_args().steps
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        text = os.path.join(folder, "text.txt")
        write_text(text)
        for number, (name, shape, part, options) in enumerate(CASES):
            place = os.path.join(folder, str(number))
            os.mkdir(place)
            failed += check(name, shape, max(1, round(part * steps)), options, place, text)
    print(f"adamw: {len(CASES)} runs, {failed} failures")
    sys.exit(1 if failed else 0)


main()
