"""plain.py: every family of decoders once more, as plain PyTorch functions of a dict of weights with our names and shapes.

Autograd then gives gradients by our names, in any precision: float64 is the reference of the comparisons, float32 shows
how far PyTorch itself is from it. The functions follow docs/reference/models.md and the papers; hf.py checks them with transformers.

A shape is a dict with the names of a shape file (docs/reference/models.md), everything given.
"""
import math

import torch
import torch.nn.functional as F


# What families have that others lack; all others are as Llama is.
LAYER_NORM, LEARNED_POSITIONS, PLAIN_MLP = {"gpt2", "starcoder2"}, {"gpt2"}, {"gpt2", "starcoder2"}


def gpt2(vocab, width, layers, heads, positions, **changes):
    shape = {"arch": "gpt2", "vocab": vocab, "width": width, "layers": layers, "heads": heads, "kv-heads": heads,
             "head-size": width // heads, "hidden": 4 * width, "positions": positions, "tied": True,
             "attention-bias": True, "mlp-bias": True, "eps": 1e-5, "init-std": 0.02}
    return with_changes(shape, changes)


def llama(vocab, width, layers, heads, kv_heads, hidden, positions, **changes):
    shape = {"arch": "llama", "vocab": vocab, "width": width, "layers": layers, "heads": heads, "kv-heads": kv_heads,
             "head-size": width // heads, "hidden": hidden, "positions": positions, "tied": False,
             "attention-bias": False, "mlp-bias": False, "eps": 1e-6, "init-std": 0.02, "rope-base": 10000.0}
    return with_changes(shape, changes)


def with_changes(shape, changes):
    shape.update({name.replace("_", "-"): value for name, value in changes.items()})
    return shape


def parameters(shape):
    """Sizes of all parameters by name, in model order."""
    C, hidden, arch = shape["width"], shape["hidden"], shape["arch"]
    query, key = shape["heads"] * shape["head-size"], shape["kv-heads"] * shape["head-size"]
    wide = hidden if arch in PLAIN_MLP else 2 * hidden
    sizes = {"tokens.weight": (shape["vocab"], C)}
    if arch in LEARNED_POSITIONS:
        sizes["positions.weight"] = (shape["positions"], C)

    def norm(name):
        sizes[name + ".weight"] = (C,)
        if arch in LAYER_NORM:
            sizes[name + ".bias"] = (C,)

    def linear(name, rows, columns, outputs, bias):
        sizes[name + ".weight"] = (rows, columns)
        if bias:
            sizes[name + ".bias"] = (outputs,)

    for i in range(shape["layers"]):
        at = f"blocks.{i}."
        norm(at + "attn.norm")
        linear(at + "attn.qkv", query + 2 * key, C, query + 2 * key, shape["attention-bias"])
        if shape.get("qk-norm"):
            sizes[at + "attn.q_norm.weight"] = sizes[at + "attn.k_norm.weight"] = (shape["head-size"],)
        linear(at + "attn.out", query, C, C, shape["attention-bias"] and not shape.get("qkv-bias-only"))
        norm(at + "mlp.norm")
        linear(at + "mlp.in", wide, C, wide, shape["mlp-bias"])
        linear(at + "mlp.out", hidden, C, C, shape["mlp-bias"])
    norm("norm")
    if not shape["tied"]:
        sizes["head.weight"] = (shape["vocab"], C)
    return sizes


def random_weights(shape, seed, std=0.08):
    """fp32 values that make every gradient count: norms are not 1 and biases not 0."""
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for name, size in parameters(shape).items():
        values = torch.randn(size, generator=generator) * std
        weights[name] = 1 + values if name.endswith("norm.weight") else values
    return weights


def rope_frequencies(shape, base):
    """float64; longer waves are stretched as Llama 3.1 does it."""
    d, scaling = int(shape["head-size"] * shape.get("rope-share", 1)), shape.get("rope-scaling")
    frequency = 1.0 / base ** (torch.arange(0, d, 2, dtype=torch.float64) / d)
    if not scaling:
        return frequency
    waves = scaling["original"] * frequency / (2 * math.pi)
    part = ((waves - scaling["low"]) / (scaling["high"] - scaling["low"])).clamp(0, 1)
    return part * frequency + (1 - part) * frequency / scaling["factor"]


def rotate(x, shape, base):
    """The first columns of each head in pairs; those behind the share that is rotated stay as they are."""
    angle = torch.arange(x.shape[-2], dtype=torch.float64)[:, None] * rope_frequencies(shape, base)
    half = angle.shape[1]
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half : 2 * half]
    return torch.cat([a * cos - b * sin, b * cos + a * sin, x[..., 2 * half :]], -1)


def norm(x, w, name, shape):
    if shape["arch"] in LAYER_NORM:
        return F.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"], shape["eps"])
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + shape["eps"]) * w[name + ".weight"]


def add_bias(x, w, name):
    return x + w[name] if name in w else x


def attention(x, w, at, shape, base):
    B, T, _ = x.shape
    H, K, d = shape["heads"], shape["kv-heads"], shape["head-size"]
    qkv = add_bias(x @ w[at + "qkv.weight"].T, w, at + "qkv.bias")
    q, k, v = (part.view(B, T, -1, d).transpose(1, 2) for part in qkv.split([H * d, K * d, K * d], -1))
    if shape.get("qk-norm"):
        q, k = norm(q, w, at + "q_norm", shape), norm(k, w, at + "k_norm", shape)
    if base:
        q, k = rotate(q, shape, base), rotate(k, shape, base)
    k, v = k.repeat_interleave(H // K, 1), v.repeat_interleave(H // K, 1)
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(B, T, H * d)
    return add_bias(y @ w[at + "out.weight"], w, at + "out.bias")


def mlp(x, w, at, shape):
    wide = add_bias(x @ w[at + "in.weight"].T, w, at + "in.bias")
    if shape["arch"] in PLAIN_MLP:
        y = F.gelu(wide, approximate="tanh")
    else:
        gate, up = wide.chunk(2, -1)
        y = (F.gelu(gate, approximate="tanh") if shape.get("gelu-gate") else F.silu(gate)) * up
    return add_bias(y @ w[at + "out.weight"], w, at + "out.bias")


def logits(w, shape, ids):
    """ids [B][T] → [B][T][vocab]"""
    x = w["tokens.weight"][ids]
    if shape["arch"] in LEARNED_POSITIONS:
        x = x + w["positions.weight"][: ids.shape[1]]
    bases = [float(base) for base in shape.get("rope-bases", str(shape.get("rope-base", 0))).split(",")]
    for i in range(shape["layers"]):
        at = f"blocks.{i}."
        x = x + attention(norm(x, w, at + "attn.norm", shape), w, at + "attn.", shape, bases[i % len(bases)])
        x = x + mlp(norm(x, w, at + "mlp.norm", shape), w, at + "mlp.", shape)
    return norm(x, w, "norm", shape) @ w["tokens.weight" if shape["tied"] else "head.weight"].T


def loss(w, shape, tokens):
    """tokens [B][T + 1] → mean over B·T targets"""
    return F.cross_entropy(logits(w, shape, tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def gradients(weights, shape, tokens, dtype):
    """(loss, gradients by name in float64) of a computation in `dtype`."""
    w = {name: value.to(dtype).requires_grad_() for name, value in weights.items()}
    value = loss(w, shape, tokens)
    value.backward()
    return value.item(), {name: tensor.grad.double() for name, tensor in w.items()}


def distance(value, reference):
    """‖value − reference‖ / ‖reference‖"""
    return ((value.double() - reference).norm() / reference.norm()).item()
