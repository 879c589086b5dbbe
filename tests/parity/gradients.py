#!/usr/bin/env python3
"""gradients.py: loss and every gradient against PyTorch in float64, and the same bits from every layout.

For each shape, random weights and tokens go to the program `gradients` and to PyTorch. Checked for each parameter:

    ‖g − reference‖ / ‖reference‖ ≤ 1e-5, and at most twice the distance of PyTorch in fp32

The reference is plain.py in float64. That it is the right model is checked with transformers, whose gradients in fp32 must
be near it too. Then the bits: for each number of groups, every micro-batch size, number of threads and instruction set
must give the same file of gradients and the same loss.

    BUILD=build tests/parity/gradients.py [--only TEXT]
"""
import os
import re
import sys

import torch
from safetensors.torch import load_file, save_file

import hf
import ours
import plain

LIMIT, TIMES_PYTORCH, LOSS_LIMIT = 1e-5, 2.0, 1e-6
# transformers makes its rotary tables in fp32: it is the check of the reference, not the measure.
TRANSFORMERS_LIMIT = 2e-5
LLAMA3 = {"factor": 8.0, "low": 1.0, "high": 4.0, "original": 64}

# name, shape, B, T, numbers of groups, slices
CASES = [
    ("gpt2, T 33", plain.gpt2(257, 64, 2, 4, 40), 4, 33, [1, 4], 4),
    ("gpt2 untied, odd sizes", plain.gpt2(257, 45, 3, 5, 31, tied=False, hidden=77), 5, 31, [1, 3, 5], 2),
    ("gpt2 vocabulary 50257", plain.gpt2(50257, 32, 1, 4, 19), 3, 19, [1, 2], 4),
    ("gpt2 untied 50257", plain.gpt2(50257, 24, 1, 2, 17, tied=False), 3, 17, [3], 2),
    ("gpt2 deep and long", plain.gpt2(256, 64, 6, 8, 160), 4, 159, [2, 4], 8),
    ("llama grouped heads", plain.llama(300, 96, 2, 6, 2, 112, 40), 4, 37, [1, 2], 2),
    ("llama tied", plain.llama(257, 96, 2, 6, 3, 112, 40, tied=True), 4, 37, [4], 2),
    ("llama 50257, one kv head", plain.llama(50257, 32, 1, 4, 1, 43, 21), 3, 21, [1, 3], 1),
    ("llama3 rope scaling", plain.llama(257, 64, 2, 8, 4, 91, 64, rope_scaling=LLAMA3, rope_base=100.0, eps=1e-5), 3,
     61, [1, 2], 4),
    ("llama biases, own head size", plain.llama(257, 48, 2, 4, 2, 67, 40, attention_bias=True, mlp_bias=True,
                                                head_size=10), 5, 29, [1, 4], 2),
    ("llama with a GELU gate", plain.llama(257, 48, 2, 4, 2, 67, 40, gelu_gate=True), 5, 29, [1, 4], 2),
    ("qwen3", plain.llama(257, 48, 2, 8, 4, 67, 40, arch="qwen3", qk_norm=True, head_size=10), 5, 29, [1, 4], 2),
    ("qwen3, one slice", plain.llama(257, 48, 2, 6, 3, 67, 40, arch="qwen3", qk_norm=True, tied=True), 4, 37, [2], 1),
    ("qwen2", plain.llama(257, 48, 3, 6, 2, 67, 40, arch="qwen2", attention_bias=True, qkv_bias_only=True), 4, 37, [1, 4], 2),
    ("phi3, part of a head rotated", plain.llama(257, 48, 3, 6, 2, 67, 40, arch="phi3", head_size=16, rope_share=0.75), 4, 37, [1, 4], 2),
    ("phi3", plain.llama(257, 48, 3, 6, 2, 67, 40, arch="phi3"), 4, 37, [1, 4], 2),
    ("smollm3, a layer without rotation", plain.llama(257, 48, 3, 6, 2, 67, 40, arch="smollm3", tied=True, rope_base=2e6, rope_bases="2e6,0,2e6"), 4, 37, [1, 4], 2),
    ("starcoder2", plain.llama(257, 48, 3, 6, 2, 67, 40, arch="starcoder2", tied=True, attention_bias=True, mlp_bias=True), 4, 37, [1, 4], 2),
    ("starcoder2 without biases", plain.llama(257, 48, 3, 6, 2, 67, 40, arch="starcoder2", tied=False), 4, 37, [1, 4], 2),
    ("gpt2, many tokens", plain.gpt2(257, 32, 1, 8, 601), 4, 601, [4], 8),
    ("llama, many tokens", plain.llama(257, 32, 1, 8, 4, 88, 601), 4, 601, [4], 4),
]


class Case:
    def __init__(self, number, row, folder):
        self.name, self.shape, self.B, self.T, self.groups, self.S = row
        self.weights = plain.random_weights(self.shape, number)
        self.tokens = torch.randint(0, self.shape["vocab"], (self.B, self.T + 1),
                                    generator=torch.Generator().manual_seed(number))
        self.files = [os.path.join(folder, name) for name in ("shape.json", "weights.safetensors", "tokens.i32")]
        self.out = os.path.join(folder, "gradients.safetensors")
        ours.write_json(self.files[0], self.shape)
        save_file(self.weights, self.files[1])
        ours.write_ids(self.files[2], self.tokens)

    def run(self, G, micro, threads, isa="auto"):
        """(loss, hash of loss and gradients)"""
        return ours.gradients(self.files, [self.out], (self.B, self.T, G, self.S, micro, threads), isa)

    def layouts(self):
        for micro in sorted({1, 2, 3, self.B}):
            for threads in (1, 2, 3):
                yield micro, threads, "auto"
            yield micro, 2, "portable"


def compare_loss(case, G, loss, reference):
    error = abs(loss - reference) / reference
    if error <= LOSS_LIMIT:
        return 0
    print(f"FAILED {case.name}, G {G}: loss {loss}, reference {reference}: off by {error:.1e}")
    return 1


def compare_gradients(case, G, reference, fp32, theirs):
    """One line for each kind of parameter, the worst of all layers, worst first."""
    found = load_file(case.out)
    if set(found) != set(reference):
        print(f"FAILED {case.name}: other parameters: {sorted(set(found) ^ set(reference))}")
        return 1
    groups, failed = {}, 0
    for name, expected in reference.items():
        row = [plain.distance(values[name].reshape(expected.shape), expected) for values in (found, fp32, theirs)]
        row.append(row[0] / row[1])
        bad = not (row[0] <= LIMIT and row[3] <= TIMES_PYTORCH and row[2] <= TRANSFORMERS_LIMIT)
        failed += bad
        group = groups.setdefault(re.sub(r"blocks\.\d+", "blocks.*", name), [0, 0, 0, 0, ""])
        group[:4] = [max(pair) for pair in zip(group, row)]
        group[4] = "  FAILED" if bad else group[4]
    print(f"\n{case.name}, G {G}\n  {'':26} {'ours':>9} {'PyTorch':>9} {'ratio':>6} {'transformers':>13}")
    for name, row in sorted(groups.items(), key=lambda item: -item[1][0]):
        print(f"  {name:26} {row[0]:9.1e} {row[1]:9.1e} {row[3]:6.2f} {row[2]:13.1e}{row[4]}")
    return failed


def main():
    failed, table = 0, []
    for number, row, folder in ours.each_case(CASES, 1):
        case = Case(number, row, folder)
        loss64, reference = plain.gradients(case.weights, case.shape, case.tokens, torch.float64)
        _, fp32 = plain.gradients(case.weights, case.shape, case.tokens, torch.float32)
        _, theirs = hf.gradients(case.shape, case.weights, case.tokens)
        for G in case.groups:
            loss, bits = case.run(G, case.B, 1)
            failed += compare_loss(case, G, loss, loss64)
            failed += compare_gradients(case, G, reference, fp32, theirs)
            runs = [(layout, case.run(G, *layout)[1]) for layout in case.layouts()]
            wrong = ours.other_bits(f"{case.name}, G {G}", bits, runs)
            failed += wrong
            table.append((case.name, G, case.S, abs(loss - loss64) / loss64, bits, len(runs), len(runs) - wrong))
    print(f"\n{'':28} {'G':>2} {'S':>2} {'loss off':>9}  {'bits':12} layouts  same bits")
    for name, G, S, error, bits, runs, same in table:
        print(f"{name:28} {G:2} {S:2} {error:9.1e}  {bits:12} {runs:7}  {same:9}")
    print(f"gradients: {len(table)} cases, {failed} failures")
    sys.exit(1 if failed or not table else 0)


main()
