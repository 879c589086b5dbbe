#!/usr/bin/env python3
"""adamw.py: whole training runs beside PyTorch: the same initial weights, data order and settings, step by step.

PyTorch's own AdamW and SGD train a model of transformers in fp32, with a cosine or with PyTorch's MultiStepLR. At every step the losses may differ by 1e-4, relative; the
distance of the final weights, as a part of what they moved, is shown.

    BUILD=build tests/parity/adamw.py [--steps N]
"""
import argparse
import sys

import torch

import beside
import hf
import ours
import plain

LIMIT = 1e-4
B, WARMUP = 8, 10
ADAMW = {"optimizer": "adamw", "lr": 1e-3, "weight-decay": 0.1, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8}
SGD = {"optimizer": "sgd", "lr": 0.1, "weight-decay": 0.01, "momentum": 0.9}
STEPS = {"lr-schedule": "step", "lr-steps": "0.6,0.8", "lr-gamma": 0.2}

GPT2 = plain.gpt2(256, 64, 3, 4, beside.T)
LLAMA = plain.llama(256, 64, 3, 4, 2, 172, beside.T)
LLAMA_TIED = plain.llama(256, 48, 2, 6, 2, 100, beside.T, tied=True, attention_bias=True, mlp_bias=True)
# name, shape, steps of the whole, options
CASES = [
    ("gpt2, AdamW", GPT2, 1.0, ADAMW),
    ("llama, AdamW", LLAMA, 1.0, ADAMW),
    ("llama tied with biases, AdamW without clipping", LLAMA_TIED, 1.0, {**ADAMW, "clip": 0}),
    ("gpt2 untied, SGD with momentum", {**GPT2, "tied": False}, 0.3, SGD),
    ("llama, SGD with Nesterov momentum", LLAMA, 0.3, {**SGD, "nesterov": "true"}),
    # At 0.1 without clipping this one is unstable: PyTorch in fp32 and in fp64 end 7e-4 of the way apart.
    ("llama, SGD with momentum without clipping, rates in steps", LLAMA, 0.2, {**SGD, **STEPS, "lr": 0.03, "clip": 0}),
    ("gpt2, SGD without momentum, rates in steps that follow the batch", GPT2, 0.2,
     {**SGD, **STEPS, "momentum": 0, "lr-scaling": "linear", "lr-base-batch": 4}),
]


def rates_in_steps(steps, options):
    """Of every step: those of MultiStepLR, and a warm-up."""
    peak = options["lr"] * (B / options["lr-base-batch"] if "lr-scaling" in options else 1)
    stand_in = torch.optim.SGD([torch.zeros(1)], lr=peak)
    falls = [round(float(share) * steps) for share in options["lr-steps"].split(",")]
    schedule = torch.optim.lr_scheduler.MultiStepLR(stand_in, falls, options["lr-gamma"])
    rates = []
    for step in range(steps):
        rates.append(schedule.get_last_lr()[0] * min(1, (step + 1) / WARMUP))
        stand_in.step()
        schedule.step()
    return rates


def train_pytorch(shape, weights, text, steps, options):
    """(losses, final weights by our names)"""
    made, data = hf.model(shape, weights), ours.Text(text, beside.SEED, beside.T)
    parameters = list(made.parameters())
    optimizer, losses = beside.make_optimizer(parameters, options), []
    rates = rates_in_steps(steps, options) if "lr-steps" in options else None
    for step in range(steps):
        beside.begin_step(optimizer, step, options, WARMUP, steps)
        for group in optimizer.param_groups if rates else []:
            group["lr"] = rates[step]
        loss = hf.loss(made, data.batch(step, B))
        loss.backward()
        if options.get("clip", 1) > 0:
            torch.nn.utils.clip_grad_norm_(parameters, options.get("clip", 1))
        optimizer.step()
        losses.append(loss.item())
    return losses, hf.ours_from({name: tensor.detach() for name, tensor in made.named_parameters()}, shape)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    whole = parser.parse_args().steps

    def check(folder, text, name, shape, part, options):
        steps, flags = max(1, round(part * whole)), ["--global-batch", B, "--warmup", WARMUP, *beside.flags_of(options)]
        _, start = beside.train(folder, "start", shape, text, 0, flags)
        run, end = beside.train(folder, "run", shape, text, steps, flags)
        losses, weights = train_pytorch(shape, start, text, steps, options)
        return beside.compare(name, run, start, end, losses, weights, LIMIT)

    failed = beside.check_all(CASES, check)
    print(f"adamw: {len(CASES)} runs, {failed} failures")
    sys.exit(1 if failed else 0)


main()
