"""The PyTorch side of bench/gpu.py, on a GPU in fp32 without TF32: one process that works when asked to.

Usage: gpu_pytorch.py gpt2|resnet18 eager|compiled BATCH [SEQUENCE]: writes "ready" after some steps that do not count; then reads a number of
steps from each line and writes, as JSON, the milliseconds of each and the most bytes of memory that PyTorch had taken.
       gpu_pytorch.py operations: reads JSON from each line and writes the milliseconds of that operation, the best of a few samples:
["gemm", "NN"|"NT"|"TN", M, N, K], a product by cuBLAS; ["copy", BYTES], a copy within the GPU's memory.
"""
import json
import math
import os
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


def plain_fp32():
    """Cuts no operand to the 10 bits of TF32, in products as in convolutions."""
    torch.set_float32_matmul_precision("highest")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True


# ---- training ----------------------------------------------------------------------------------------------------------------


def gpt2_step(mode, batch, seq):
    from train import SHAPES
    from train_pytorch import Model

    shape = SHAPES["gpt2-124m"]
    model = Model(shape, seq)
    for p in model.parameters():
        if p.dim() > 1:
            nn.init.normal_(p, std=0.02 / math.sqrt(2 * shape["layers"]))
    model = model.cuda()
    run = torch.compile(model) if mode == "compiled" else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    tokens = [torch.randint(0, shape["vocab"], (batch, seq + 1)).cuda() for _ in range(4)]

    def step(i):
        optimizer.zero_grad(set_to_none=True)
        run(tokens[i % 4][:, :-1].contiguous(), tokens[i % 4][:, 1:].contiguous()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def resnet18_step(mode, batch):
    from vision_pytorch import ResNet18

    model = ResNet18().cuda().to(memory_format=torch.channels_last if mode == "channels-last" else torch.contiguous_format)
    images = [torch.randn(batch, 3, 32, 32).cuda() for _ in range(4)]
    if mode == "channels-last":
        images = [x.contiguous(memory_format=torch.channels_last) for x in images]
    labels = [torch.randint(0, 10, (batch,)).cuda() for _ in range(4)]
    run = torch.compile(model) if mode == "compiled" else model
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=1e-3, fused=True)

    def step(i):
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(run(images[i % 4]), labels[i % 4]).backward()
        optimizer.step()

    return step


def train(name, mode, batch, *seq):
    torch.manual_seed(0)
    step = gpt2_step(mode, batch, *seq) if name == "gpt2" else resnet18_step(mode, batch)

    def timed(i):
        torch.cuda.synchronize()
        start = time.perf_counter()
        step(i)
        torch.cuda.synchronize()
        return 1e3 * (time.perf_counter() - start)

    for i in range(3):
        timed(i)
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps([[timed(i) for i in range(int(line))], torch.cuda.max_memory_reserved()]), flush=True)


# ---- single operations -------------------------------------------------------------------------------------------------------


def best_ms(call):
    """Of 5 samples, each long enough for its clock."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    def sample(count):
        begin.record()
        for _ in range(count):
            call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / count

    sample(2)
    count = max(1, min(1000, int(20 / max(1e-3, sample(3)))))
    return min(sample(count) for _ in range(5))


def operations():
    print("ready", flush=True)
    for line in sys.stdin:
        what, *rest = json.loads(line)
        if what == "copy":
            # What is read and written counts: half of it is read.
            x = torch.empty(rest[0] // 8, device="cuda")
            y = torch.empty_like(x)
            ms = best_ms(lambda: y.copy_(x))
        else:
            form, m, n, k = rest
            a = torch.randn((k, m) if form[0] == "T" else (m, k), device="cuda")
            b = torch.randn((n, k) if form[1] == "T" else (k, n), device="cuda")
            c = torch.empty((m, n), device="cuda")
            a, b = a.t() if form[0] == "T" else a, b.t() if form[1] == "T" else b
            ms = best_ms(lambda: torch.mm(a, b, out=c))
        print(json.dumps(ms), flush=True)


if __name__ == "__main__":
    plain_fp32()
    if sys.argv[1] == "operations":
        operations()
    else:
        train(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
