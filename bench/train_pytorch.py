"""The PyTorch side of bench/train.py: a plain GPT-2 or Llama, AdamW, one process.

Usage: train_pytorch.py SHAPE_JSON BATCH SEQUENCE STEPS eager|compiled THREADS [fp32|bf16]; prints tokens per second, the first
step aside, and the second of a compiled model where there are more. bf16: the forward pass under autocast, the weights in fp32.
"""
import json
import math
import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.rms_norm(x, x.shape[-1:], self.weight, 1e-6)


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class Block(nn.Module):
    def __init__(self, s):
        super().__init__()
        width, self.heads = s["width"], s["heads"]
        self.kv_heads = s.get("kv_heads", self.heads)
        self.llama = s["arch"] == "llama"
        hidden = s.get("hidden", 4 * width)
        bias = not self.llama
        self.norm1 = RmsNorm(width) if self.llama else nn.LayerNorm(width)
        self.qkv = nn.Linear(width, width // self.heads * (self.heads + 2 * self.kv_heads), bias=bias)
        self.out = nn.Linear(width, width, bias=bias)
        self.norm2 = RmsNorm(width) if self.llama else nn.LayerNorm(width)
        self.up = nn.Linear(width, (2 if self.llama else 1) * hidden, bias=bias)
        self.down = nn.Linear(hidden, width, bias=bias)

    def forward(self, x, rope):
        B, T, C = x.shape
        heads = self.qkv(self.norm1(x)).view(B, T, -1, C // self.heads).transpose(1, 2)
        q, k, v = heads.split((self.heads, self.kv_heads, self.kv_heads), dim=1)
        if self.llama:
            q, k = rotate(q, *rope), rotate(k, *rope)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, **({} if self.heads == self.kv_heads else {"enable_gqa": True}))
        x = x + self.out(y.transpose(1, 2).reshape(B, T, C))
        h = self.up(self.norm2(x))
        if self.llama:
            gate, up = h.chunk(2, dim=-1)
            h = F.silu(gate) * up
        else:
            h = F.gelu(h, approximate="tanh")
        return x + self.down(h)


class Model(nn.Module):
    def __init__(self, s, T):
        super().__init__()
        width = s["width"]
        self.llama = s["arch"] == "llama"
        self.tokens = nn.Embedding(s["vocab"], width)
        self.positions = None if self.llama else nn.Embedding(s["positions"], width)
        self.blocks = nn.ModuleList(Block(s) for _ in range(s["layers"]))
        self.norm = RmsNorm(width) if self.llama else nn.LayerNorm(width)
        self.head = nn.Linear(width, s["vocab"], bias=False)
        if not self.llama:
            self.head.weight = self.tokens.weight
        half = width // s["heads"] // 2
        angle = torch.arange(T)[:, None] * (10000.0 ** (-torch.arange(half) / half))[None, :]
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def forward(self, ids, targets):
        x = self.tokens(ids)
        if self.positions is not None:
            x = x + self.positions.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x, (self.cos, self.sin))
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


def main():
    shape, batch, seq, steps = json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(int(sys.argv[6]))
    torch.manual_seed(0)
    model = Model(shape, seq)
    for p in model.parameters():
        if p.dim() > 1:
            nn.init.normal_(p, std=0.02 / math.sqrt(2 * shape["layers"]))
    run = torch.compile(model) if sys.argv[5] == "compiled" else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    half = len(sys.argv) > 7 and sys.argv[7] == "bf16"
    times = []
    for _ in range(steps):
        tokens = torch.randint(0, shape["vocab"], (batch, seq + 1))
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
            loss = run(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        times.append(time.perf_counter() - start)
    print(batch * seq / statistics.median(times[2 if sys.argv[5] == "compiled" and steps > 2 else 1:]))


if __name__ == "__main__":
    main()
