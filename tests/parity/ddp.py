#!/usr/bin/env python3
"""ddp.py: two workers of lockstep beside two processes of PyTorch's DistributedDataParallel (gloo, fp32), step by step.

`lockstep train --steps 0` writes the initial weights, from which models of transformers begin; each process takes the sequences
that one --dp row has, PyTorch averages the gradients and its own AdamW takes the steps. Where the shares are unequal the loss
of a process is weighted by its part, as DDP divides by the processes. At every step the losses may differ by 1e-5, relative;
the distance of the final weights may be 1e-3 of what they moved.

    BUILD=build tests/parity/ddp.py [--steps N]
"""
import argparse
import glob
import os
import sys
import tempfile

import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from torch.nn.parallel import DistributedDataParallel

import hf
import ours
import plain

LIMIT, WEIGHTS_LIMIT, PROCESSES = 1e-5, 1e-3, 2
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SEED, T, WARMUP, LR, WEIGHT_DECAY, CLIP, TEXT_BYTES = 7, 64, 5, 1e-3, 0.1, 1.0, 40000

# name, shape, sequences of each row, options of lockstep
CASES = [
    ("gpt2, dp=2", plain.gpt2(256, 64, 3, 4, T), (4, 4), ["--dp", 2]),
    ("llama, dp=2 · tp=2 · pp=2, shares 5,2 of 7", plain.llama(256, 64, 3, 4, 2, 172, T), (5, 2),
     ["--dp", 2, "--tp", 2, "--pp", 2, "--groups", 7, "--shares", "5,2"]),
]


def write_text(path):
    text = b""
    for name in sorted(glob.glob(os.path.join(ROOT, "docs", "*.md"))):
        with open(name, "rb") as file:
            text += file.read()
    with open(path, "wb") as file:
        file.write(text[:TEXT_BYTES])


def train(folder, name, shape_file, text, steps, batch, options):
    out = os.path.join(folder, name)
    ours.run("lockstep", "train", "--model", shape_file, "--data", text, "--tokenizer", "bytes", "--out", out, "--steps", steps,
             "--seed", SEED, "--seq", T, "--global-batch", batch, "--warmup", WARMUP, "--lr-schedule", "cosine", "--lr", LR,
             "--weight-decay", WEIGHT_DECAY, "--clip", CLIP, "--threads", 1, "--eval-every", 0, *options, XDG_CACHE_HOME=folder)
    return out, load_file(ours.weights_of(out, steps))


def make_optimizer(parameters):
    groups = [{"params": [p for p in parameters if p.dim() > 1], "weight_decay": WEIGHT_DECAY},
              {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.95), eps=1e-8)


def work(rank, folder, shape, start_file, text, steps, shares):
    """One process: the losses of the whole batch and the final weights go to folder/rank.safetensors."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=PROCESSES)
    made, data = hf.model(shape, load_file(start_file)), ours.Text(text, SEED, T)
    run, batch, first = DistributedDataParallel(made), sum(shares), sum(shares[:rank])
    parameters, losses = list(made.parameters()), []
    optimizer = make_optimizer(parameters)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = ours.learning_rate(step, LR, WARMUP, steps)
        optimizer.zero_grad()
        part = hf.loss(run, data.batch(step, batch)[first: first + shares[rank]]) * (shares[rank] / batch)
        (part * PROCESSES).backward()
        torch.nn.utils.clip_grad_norm_(parameters, CLIP)
        optimizer.step()
        total = part.detach().double()
        dist.all_reduce(total)
        losses.append(total.item())
    dist.destroy_process_group()
    found = hf.ours_from({name: tensor.detach() for name, tensor in made.named_parameters()}, shape)
    save_file({**found, "losses": torch.tensor(losses, dtype=torch.float64)}, os.path.join(folder, f"{rank}.safetensors"))


def train_pytorch(folder, shape, start_file, text, steps, shares):
    """(losses, final weights by our names)"""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.multiprocessing.spawn(work, args=(folder, shape, start_file, text, steps, shares), nprocs=PROCESSES)
    weights, other = (load_file(os.path.join(folder, f"{rank}.safetensors")) for rank in range(PROCESSES))
    if any(not torch.equal(weights[name], other[name]) for name in weights):
        sys.exit("FAILED: the processes of PyTorch ended with different weights")
    return weights.pop("losses").tolist(), weights


def total(tensors):
    return sum(tensor.double().pow(2).sum() for tensor in tensors) ** 0.5


def check(name, shape, shares, options, steps, folder, text):
    shape_file = os.path.join(folder, "shape.json")
    ours.write_json(shape_file, shape)
    began, start = train(folder, "start", shape_file, text, 0, sum(shares), options)
    out, end = train(folder, "run", shape_file, text, steps, sum(shares), options)
    found, _ = ours.metrics(out)
    losses, weights = train_pytorch(folder, shape, ours.weights_of(began, 0), text, steps, shares)
    errors = [abs(found[i + 1] - loss) / loss for i, loss in enumerate(losses)]
    worst = max(range(steps), key=errors.__getitem__)
    moved = total(end[key] - start[key] for key in end)
    apart = total(end[key].reshape(weights[key].shape) - weights[key] for key in end) / moved
    bad = len(found) != steps or not errors[worst] <= LIMIT or not apart <= WEIGHTS_LIMIT
    print(f"{name}: {steps} steps, loss {found[1]:.4f} to {found[steps]:.4f}; PyTorch {losses[-1]:.4f}; most apart "
          f"{errors[worst]:.1e} at step {worst + 1}; weights {apart:.1e} of their way{'  FAILED' if bad else ''}", flush=True)
    return bad


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    steps = parser.parse_args().steps
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        text = os.path.join(folder, "text.txt")
        write_text(text)
        for number, (name, shape, shares, options) in enumerate(CASES):
            place = os.path.join(folder, str(number))
            os.mkdir(place)
            failed += check(name, shape, shares, options, steps, place, text)
    print(f"ddp: {len(CASES)} runs on {PROCESSES} processes, {failed} failures")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
