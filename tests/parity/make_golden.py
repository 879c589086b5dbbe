#!/usr/bin/env python3
"""make_golden.py: writes tests/parity/golden/*.safetensors, by which tests/unit/test_golden_model.c checks models without Python.

Each file has, from PyTorch in float64 (plain.py) and rounded to fp32 once:

    metadata       "golden": JSON with shape (that of a shape file), loss, and the settings of AdamW
    tokens         [B][T + 1], int64
    weight/NAME    random, in our names and canonical order
    grad/NAME      of the mean loss
    after/NAME     weights after three steps of AdamW on the same tokens, with clipping and weight decay

    tests/parity/make_golden.py            writes the files; the hashes in test_golden_model.c then change, too
    tests/parity/make_golden.py --check    computes them again from the weights and tokens that they hold, and compares
"""
import argparse
import json
import os
import sys

import torch
from safetensors.torch import load_file, save_file

import plain

CHECK_LIMIT = 1e-6
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden")

STEPS, LR, BETAS, EPS, DECAY, CLIP = 3, 0.01, (0.9, 0.95), 1e-5, 0.1, 0.25
LLAMA3 = {"factor": 4.0, "low": 1.0, "high": 4.0, "original": 40}
# file, shape, B, T
CASES = [
    ("gpt2-tied", plain.gpt2(61, 20, 2, 4, 16), 5, 15),
    ("gpt2-untied-odd", plain.gpt2(67, 21, 2, 3, 11, tied=False, hidden=59), 4, 11),
    ("llama-grouped", plain.llama(83, 24, 2, 6, 2, 53, 20), 5, 19),
    ("llama-tied-rope", plain.llama(53, 24, 2, 4, 4, 45, 64, tied=True, head_size=8, eps=1e-5, rope_base=100.0,
                                    rope_scaling=LLAMA3), 4, 33),
]


def train(weights, shape, tokens):
    """Weights after STEPS steps, in float64."""
    w = {name: value.double().requires_grad_() for name, value in weights.items()}
    groups = [{"params": [p for p in w.values() if p.dim() > 1], "weight_decay": DECAY},
              {"params": [p for p in w.values() if p.dim() == 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=EPS)
    for _ in range(STEPS):
        optimizer.zero_grad()
        plain.loss(w, shape, tokens).backward()
        norm = torch.stack([p.grad.norm() for p in w.values()]).norm()
        assert norm > CLIP, f"{norm} is not clipped"
        for p in w.values():
            p.grad *= CLIP / norm
        optimizer.step()
    return {name: value.detach() for name, value in w.items()}


def compute(weights, shape, tokens):
    """(loss, all tensors of the file)"""
    loss, grads = plain.gradients(weights, shape, tokens, torch.float64)
    tensors = {"tokens": tokens}
    for kind, values in [("weight", weights), ("grad", grads), ("after", train(weights, shape, tokens))]:
        tensors.update({f"{kind}/{name}": value.float().contiguous() for name, value in values.items()})
    return loss, tensors


def make(path, shape, B, T, seed):
    weights = plain.random_weights(shape, seed, std=0.15)
    tokens = torch.randint(0, shape["vocab"], (B, T + 1), generator=torch.Generator().manual_seed(seed))
    loss, tensors = compute(weights, shape, tokens)
    golden = {"shape": shape, "loss": loss, "steps": STEPS, "lr": LR, "beta1": BETAS[0], "beta2": BETAS[1], "eps": EPS,
              "decay": DECAY, "clip": CLIP}
    # One text: safetensors writes several in a random order.
    save_file(tensors, path, {"golden": json.dumps(golden)})
    os.chmod(path, 0o644)
    print(f"{path}: {os.path.getsize(path)} bytes, loss {loss:.6f}")


def check(path, shape):
    """How far the file's numbers are from those computed now, at most."""
    stored = load_file(path)
    weights = {name: stored["weight/" + name] for name in plain.parameters(shape)}
    _, found = compute(weights, shape, stored["tokens"])
    assert found.keys() == stored.keys(), f"{path} has other tensors"
    return max(plain.distance(found[name], stored[name].double()) for name in found)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    only_check, failed = parser.parse_args().check, 0
    os.makedirs(FOLDER, exist_ok=True)
    for number, (name, shape, B, T) in enumerate(CASES):
        path = os.path.join(FOLDER, name + ".safetensors")
        if only_check:
            apart = check(path, shape)
            failed += not apart <= CHECK_LIMIT
            print(f"{name}: {apart:.1e} apart")
        else:
            make(path, {"name": name, **shape}, B, T, 100 + number)
    if only_check:
        print(f"golden: {len(CASES)} files, {failed} failures")
    sys.exit(1 if failed else 0)


main()
