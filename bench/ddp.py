#!/usr/bin/env python3
"""The PyTorch side of bench/scale.py: DistributedDataParallel over gloo, one thread and one core for each process.

The model is that of train_pytorch.py, with AdamW and clipping, in fp32; every process takes an equal part of the batch, MICRO
sequences at a time (0: all at once), and the gradients travel with the last of them.

Usage: ddp.py SHAPE_JSON BATCH SEQUENCE STEPS PROCESSES MICRO eager|compiled; prints tokens per second, the first step
aside, and the second of a compiled model.
"""
import contextlib
import json
import math
import os
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import train_pytorch


def make_model(shape, seq):
    torch.manual_seed(0)
    model = train_pytorch.Model(shape, seq)
    for p in model.parameters():
        if p.dim() > 1:
            torch.nn.init.normal_(p, std=0.02 / math.sqrt(2 * shape["layers"]))
    return model


def step(model, run, optimizer, tokens, micro):
    optimizer.zero_grad(set_to_none=True)
    parts = tokens.split(micro or len(tokens))
    for i, part in enumerate(parts):
        wait = run.no_sync() if i + 1 < len(parts) and hasattr(run, "no_sync") else contextlib.nullcontext()
        with wait:
            loss = run(part[:, :-1].contiguous(), part[:, 1:].contiguous())
            (loss * (len(part) / len(tokens))).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def work(rank, cpus, meeting, shape, batch, seq, steps, processes, micro, mode):
    os.sched_setaffinity(0, {cpus[rank % len(cpus)]})
    torch.set_num_threads(1)
    model = run = make_model(shape, seq)
    if processes > 1:
        dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=processes)
        run = DistributedDataParallel(model, gradient_as_bucket_view=True)
    if mode == "compiled":
        run = torch.compile(run)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    times = []
    for number in range(steps):
        torch.manual_seed(1000 * number + rank)
        tokens = torch.randint(0, shape["vocab"], (batch // processes, seq + 1))
        start = time.perf_counter()
        step(model, run, optimizer, tokens, micro)
        times.append(time.perf_counter() - start)
    if processes > 1:
        dist.destroy_process_group()
    if rank == 0:
        print(batch * seq / statistics.median(times[2 if mode == "compiled" else 1:]), flush=True)


def main():
    shape, mode = json.loads(sys.argv[1]), sys.argv[7]
    batch, seq, steps, processes, micro = map(int, sys.argv[2:7])
    if batch % processes or steps < 3 - (mode != "compiled"):
        sys.exit(f"ddp.py: a batch of {batch} for {processes} processes and {steps} steps: use a multiple, and more steps")
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    os.environ["OMP_NUM_THREADS"] = "1"
    cpus = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        args = (cpus, os.path.join(folder, "meeting"), shape, batch, seq, steps, processes, micro, mode)
        if processes == 1:
            work(0, *args)
        else:
            torch.multiprocessing.spawn(work, args=args, nprocs=processes)


if __name__ == "__main__":
    main()
