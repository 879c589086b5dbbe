"""beside.py: a whole training run of lockstep beside one of PyTorch, for adamw.py, autocast.py and ddp.py: the text, the options, the
optimizer, and how far apart both are.

`lockstep train --steps 0` writes the initial weights, from which a model of transformers begins. The data are the bytes of this
repository's documents.
"""
import glob
import os
import tempfile

import torch
from safetensors.torch import load_file

import ours

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SEED, T, TEXT_BYTES = 7, 64, 40000


def write_text(path):
    """So short that an epoch ends within a run: the next one has another order and other cuts."""
    text = b""
    for name in sorted(glob.glob(os.path.join(ROOT, "docs", "**", "*.md"), recursive=True)):
        with open(name, "rb") as file:
            text += file.read()
    with open(path, "wb") as file:
        file.write(text[:TEXT_BYTES])


def train(folder, name, shape, text, steps, flags):
    """(folder of the run, final weights)"""
    out, shape_file = os.path.join(folder, name), os.path.join(folder, "shape.json")
    ours.write_json(shape_file, shape)
    ours.run("lockstep", "train", "--model", shape_file, "--data", text, "--tokenizer", "bytes", "--out", out, "--steps", steps,
             "--seed", SEED, "--seq", T, "--lr-schedule", "cosine", "--eval-every", 0, *flags, XDG_CACHE_HOME=folder)
    return out, load_file(ours.weights_of(out, steps))


def flags_of(options):
    return [f"--{key}={value}" for key, value in options.items()]


def make_optimizer(parameters, options):
    groups = [{"params": [p for p in parameters if p.dim() > 1], "weight_decay": options["weight-decay"]},
              {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0}]
    if options["optimizer"] == "adamw":
        return torch.optim.AdamW(groups, lr=0.0, betas=(options["beta1"], options["beta2"]), eps=options["eps"])
    return torch.optim.SGD(groups, lr=0.0, momentum=options["momentum"], nesterov="nesterov" in options)


def begin_step(optimizer, step, options, warmup, steps):
    for group in optimizer.param_groups:
        group["lr"] = ours.learning_rate(step, options["lr"], warmup, steps)
    optimizer.zero_grad()


def total(tensors):
    return sum(tensor.double().pow(2).sum() for tensor in tensors) ** 0.5


def compare(name, run, start, end, losses, weights, limit, weights_limit=None):
    """Whether they are too far apart: our run, its weights before and after, and PyTorch's losses and weights."""
    found, steps = ours.metrics(run)[0], len(losses)
    errors = [abs(found[i + 1] - loss) / loss for i, loss in enumerate(losses)]
    worst = max(range(steps), key=errors.__getitem__)
    moved = total(end[key] - start[key] for key in end)
    apart = total(end[key].reshape(weights[key].shape) - weights[key] for key in end) / moved
    bad = len(found) != steps or not errors[worst] <= limit or (weights_limit is not None and not apart <= weights_limit)
    print(f"{name}: {steps} steps, loss {found[1]:.4f} to {found[steps]:.4f}; PyTorch {losses[-1]:.4f}; most apart "
          f"{errors[worst]:.1e} at step {worst + 1}; weights {apart:.1e} of their way{'  FAILED' if bad else ''}", flush=True)
    return bad


def check_all(cases, check):
    """How many of the cases fail: check(folder, text, *case), each in a folder of its own."""
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        text = os.path.join(folder, "text.txt")
        write_text(text)
        for number, case in enumerate(cases):
            place = os.path.join(folder, str(number))
            os.mkdir(place)
            failed += check(place, text, *case)
    return failed
