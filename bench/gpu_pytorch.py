"""The PyTorch side of bench/gpu.py, on a GPU: one process that works when asked to. In fp32 without TF32; rows named …-bf16 under autocast.

Usage: gpu_pytorch.py ROW eager|compiled|channels-last BATCH [SEQUENCE]: writes "ready" after some steps that do not count; then reads JSON from each
line: a number of steps, and writes the milliseconds of each, the most bytes of memory that PyTorch had taken, and the most that its tensors had of
them; or "kinds", and writes the milliseconds of each kernel of a step by its name.
       gpu_pytorch.py operations: reads JSON from each line and writes the milliseconds of that operation, the best of a few samples:
["gemm" (fp32) or "gemm-bf16", "NN"|"NT"|"TN", M, N, K], a product by cuBLAS; ["attention", B, heads, T, key/value heads, head size], causal, in bf16
by cuDNN: forward and backward; null where it does not take them.
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


LLAMA = dict(arch="llama", vocab=128256, width=2048, layers=16, heads=32, kv_heads=8, hidden=8192, positions=4096)
TEXT = {
    "gpt2": dict(arch="gpt2", vocab=50257, width=768, layers=12, heads=12, positions=1024),
    "gpt2-bf16": dict(arch="gpt2", vocab=50257, width=768, layers=12, heads=12, positions=1024),
    "gpt2-1.5b-bf16": dict(arch="gpt2", vocab=50257, width=1600, layers=48, heads=25, positions=1024),
    "llama-1b-bf16": LLAMA,
}


def text_step(row, mode, batch, seq):
    from train_pytorch import Model

    shape = TEXT[row]
    with torch.device("cuda"):
        model = Model(shape, seq)
    for p in model.parameters():
        if p.dim() > 1:
            nn.init.normal_(p, std=0.02 / math.sqrt(2 * shape["layers"]))
    run = torch.compile(model) if mode == "compiled" else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    tokens = [torch.randint(0, shape["vocab"], (batch, seq + 1)).cuda() for _ in range(4)]

    def step(i):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=row.endswith("bf16")):
            loss = run(tokens[i % 4][:, :-1].contiguous(), tokens[i % 4][:, 1:].contiguous())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    step.rest = lambda: optimizer.zero_grad(set_to_none=True)
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

    step.rest = lambda: optimizer.zero_grad(set_to_none=True)
    return step


def train(name, mode, batch, *seq):
    torch.manual_seed(0)
    step = resnet18_step(mode, batch) if name == "resnet18" else text_step(name, mode, batch, *seq)

    def timed(i):
        torch.cuda.synchronize()
        start = time.perf_counter()
        step(i)
        torch.cuda.synchronize()
        return 1e3 * (time.perf_counter() - start)

    for i in range(3):
        timed(i)
    step.rest()
    torch.cuda.empty_cache()
    print("ready", flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        answer = kernels_of(step) if asked == "kinds" else [[timed(i) for i in range(asked)], torch.cuda.max_memory_reserved(),
                                                            torch.cuda.max_memory_allocated()]
        step.rest()
        torch.cuda.empty_cache()  # the others need room while this one waits
        print(json.dumps(answer), flush=True)


def kernels_of(step):
    """Milliseconds of each kernel of a step."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as found:
        step(0)
        torch.cuda.synchronize()
    times = {}
    for event in found.events():
        # Ranges that the optimizer names on the GPU span kernels that are counted already.
        if event.device_type == torch.autograd.DeviceType.CUDA and not getattr(event, "is_user_annotation", False):
            times[event.name] = times.get(event.name, 0) + event.time_range.elapsed_us() / 1e3
    return times


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


def gemm_ms(dtype, form, m, n, k):
    a = torch.randn((k, m) if form[0] == "T" else (m, k), device="cuda", dtype=dtype)
    b = torch.randn((n, k) if form[1] == "T" else (k, n), device="cuda", dtype=dtype)
    c = torch.empty((m, n), device="cuda", dtype=dtype)
    a, b = a.t() if form[0] == "T" else a, b.t() if form[1] == "T" else b
    return best_ms(lambda: torch.mm(a, b, out=c))


def attention_ms(batch, heads, T, kv_heads, size):
    """Operands as a fused projection leaves them: [batch][T][heads][size]."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def numbers(count):
        return torch.randn((batch, T, count, size), device="cuda", dtype=torch.bfloat16).transpose(1, 2)

    q, k, v = (numbers(count).requires_grad_() for count in (heads, kv_heads, kv_heads))
    dy = numbers(heads)

    def forward():
        with sdpa_kernel([SDPBackend.CUDNN_ATTENTION]):
            return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=heads != kv_heads)

    try:
        y = forward()
    except RuntimeError:
        return None
    return best_ms(forward), best_ms(lambda: torch.autograd.grad(y, (q, k, v), dy, retain_graph=True))


def operations():
    print("ready", flush=True)
    for line in sys.stdin:
        what, *rest = json.loads(line)
        ms = attention_ms(*rest) if what == "attention" else gemm_ms(torch.bfloat16 if what == "gemm-bf16" else torch.float32, *rest)
        print(json.dumps(ms), flush=True)


if __name__ == "__main__":
    plain_fp32()
    if sys.argv[1] == "operations":
        operations()
    else:
        train(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
