#!/usr/bin/env python3
"""ddp.py: two workers of lockstep beside two processes of PyTorch's DistributedDataParallel (gloo, fp32), step by step.

Each process takes the sequences that one replica (--dp) has, PyTorch averages the gradients and its own AdamW takes the steps. Where the
shares are unequal the loss of a process is weighted by its part, as DDP divides by the processes. At every step the losses may
differ by 1e-5, relative; the distance of the final weights may be 1e-3 of what they moved.

    BUILD=build tests/parity/ddp.py [--steps N]
"""
import argparse
import os
import sys

import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from torch.nn.parallel import DistributedDataParallel

import beside
import hf
import ours
import plain

LIMIT, WEIGHTS_LIMIT, PROCESSES = 1e-5, 1e-3, 2
WARMUP = 5
OPTIONS = {"optimizer": "adamw", "lr": 1e-3, "weight-decay": 0.1, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "clip": 1.0}

# name, shape, sequences of each row, layout
CASES = [
    ("gpt2, dp=2", plain.gpt2(256, 64, 3, 4, beside.T), (4, 4), ["--dp", 2]),
    ("llama, dp=2 · tp=2 · pp=2, shares 5,2 of 7", plain.llama(256, 64, 3, 4, 2, 172, beside.T), (5, 2),
     ["--dp", 2, "--tp", 2, "--pp", 2, "--groups", 7, "--shares", "5,2"]),
]


def work(rank, folder, shape, start_file, text, steps, shares):
    """One process: the losses of the whole batch and the final weights go to folder/rank.safetensors."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=PROCESSES)
    made, data = hf.model(shape, load_file(start_file)), ours.Text(text, beside.SEED, beside.T)
    run, batch, first = DistributedDataParallel(made), sum(shares), sum(shares[:rank])
    parameters, losses = list(made.parameters()), []
    optimizer = beside.make_optimizer(parameters, OPTIONS)
    for step in range(steps):
        beside.begin_step(optimizer, step, OPTIONS, WARMUP, steps)
        part = hf.loss(run, data.batch(step, batch)[first: first + shares[rank]]) * (shares[rank] / batch)
        (part * PROCESSES).backward()
        torch.nn.utils.clip_grad_norm_(parameters, OPTIONS["clip"])
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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    steps = parser.parse_args().steps

    def check(folder, text, name, shape, shares, layout):
        flags = ["--global-batch", sum(shares), "--warmup", WARMUP, "--threads", 1, *beside.flags_of(OPTIONS), *layout]
        began, start = beside.train(folder, "start", shape, text, 0, flags)
        run, end = beside.train(folder, "run", shape, text, steps, flags)
        losses, weights = train_pytorch(folder, shape, ours.weights_of(began, 0), text, steps, shares)
        return beside.compare(name, run, start, end, losses, weights, LIMIT, WEIGHTS_LIMIT)

    failed = beside.check_all(CASES, check)
    print(f"ddp: {len(CASES)} runs on {PROCESSES} processes, {failed} failures")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
