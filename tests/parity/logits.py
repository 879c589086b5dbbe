#!/usr/bin/env python3
"""logits.py: logits beside transformers, both ways, and round trips to the byte.

    out   a model that `lockstep train` has trained a little → `lockstep export` → transformers: the same logits; imported again,
          the same weights, and exported again, the same files
    in    a model of transformers → save_pretrained → our logits, from the folder and from what `lockstep import` makes of it

Logits may differ by 1e-4. Ours come position by position through the key/value cache, and once as a whole, to the bit.

    BUILD=build tests/parity/logits.py
"""
import filecmp
import os
import sys
import tempfile

import numpy
import torch
from safetensors.torch import load_file

import hf
import ours
import plain

LIMIT = 1e-4
TEXT = __doc__ * 40
LLAMA3 = {"factor": 8.0, "low": 1.0, "high": 4.0, "original": 64}
CASES = [
    ("gpt2", plain.gpt2(256, 64, 3, 4, 48)),
    ("gpt2 untied, odd sizes", plain.gpt2(307, 45, 2, 5, 31, tied=False, hidden=77)),
    ("llama grouped heads", plain.llama(256, 96, 3, 6, 2, 112, 64)),
    ("llama tied, llama3 rope scaling", plain.llama(300, 64, 2, 8, 4, 91, 64, tied=True, rope_scaling=LLAMA3,
                                                    rope_base=100.0, eps=1e-5)),
    ("llama biases, own head size", plain.llama(300, 48, 2, 4, 2, 67, 40, attention_bias=True, mlp_bias=True,
                                                head_size=10)),
    ("llama with a GELU gate", plain.llama(300, 48, 2, 4, 2, 67, 40, gelu_gate=True)),
    ("qwen3", plain.llama(256, 96, 3, 6, 2, 112, 64, arch="qwen3", qk_norm=True, head_size=18, rope_base=1e6)),
    ("mistral grouped heads", plain.llama(256, 96, 3, 6, 2, 112, 64, arch="mistral", head_size=18, rope_base=1e6)),
    ("qwen2", plain.llama(256, 96, 3, 6, 2, 112, 64, arch="qwen2", attention_bias=True, qkv_bias_only=True)),
    ("phi3, part of a head rotated", plain.llama(256, 96, 3, 6, 2, 112, 64, arch="phi3", head_size=16, rope_share=0.75)),
    ("phi3", plain.llama(256, 96, 3, 6, 2, 112, 64, arch="phi3")),
    ("smollm3, a layer without rotation", plain.llama(256, 96, 3, 6, 2, 112, 64, arch="smollm3", tied=True, rope_base=2e6, rope_bases="2e6,0,2e6")),
    ("starcoder2", plain.llama(256, 96, 3, 6, 2, 112, 64, arch="starcoder2", tied=True, attention_bias=True, mlp_bias=True)),
    ("starcoder2 without biases", plain.llama(256, 96, 3, 6, 2, 112, 64, arch="starcoder2", tied=False)),
]


def our_logits(model, ids, folder):
    paths = os.path.join(folder, "ids"), os.path.join(folder, "logits")
    ours.write_ids(paths[0], ids)
    ours.run("tests/parity/logits", model, *paths)
    return torch.from_numpy(numpy.fromfile(paths[1], dtype=numpy.float32)).view(len(ids), -1)


def apart(made, ids, found):
    with torch.no_grad():
        return (made.eval()(ids[None]).logits[0].double() - found.double()).abs().max().item()


def same_bits(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a.view(torch.int32), b.view(torch.int32))


def same_tensors(a, b):
    return a.keys() == b.keys() and all(same_bits(a[name], b[name]) for name in a)


def same_folder(a, b):
    names = sorted(os.listdir(a))
    return names == sorted(os.listdir(b)) and filecmp.cmpfiles(a, b, names, shallow=False)[1:] == ([], [])


def check_out(shape, ids, folder):
    """Ours to theirs: (largest difference, whether the round trip is exact)"""
    shape_file, text, run, out, back, again = (
        os.path.join(folder, name) for name in ("shape.json", "text.txt", "run", "exported", "back", "again"))
    ours.write_json(shape_file, shape)
    with open(text, "w", encoding="utf-8") as file:
        file.write(TEXT)
    ours.run("lockstep", "train", "--model", shape_file, "--data", text, "--tokenizer", "bytes", "--out", run, "--steps", 20,
             "--seq", len(ids), "--global-batch", 4, "--lr", 0.003, "--eval-every", 0, XDG_CACHE_HOME=folder)
    ours.run("lockstep", "export", "--model", run, "--out", out)
    ours.run("lockstep", "import", "--model", out, "--out", back)
    ours.run("lockstep", "export", "--model", back, "--out", again)
    exact = same_tensors(load_file(ours.weights_of(run, 20)), load_file(os.path.join(back, "weights.safetensors")))
    made = hf.AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32)
    return apart(made, ids, our_logits(run, ids, folder)), exact and same_folder(out, again)


def check_in(shape, ids, folder, seed):
    """Theirs to ours: (largest difference, whether import and export give their bytes back)"""
    source, middle, out = (os.path.join(folder, name) for name in ("saved", "imported", "returned"))
    made = hf.model(shape, plain.random_weights(shape, seed))
    made.save_pretrained(source)
    ours.run("lockstep", "import", "--model", source, "--out", middle)
    ours.run("lockstep", "export", "--model", middle, "--out", out)
    direct, imported = our_logits(source, ids, folder), our_logits(middle, ids, folder)
    exact = same_bits(direct, imported)
    returned = hf.AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32)
    exact = exact and same_tensors(made.state_dict(), returned.state_dict())
    files = [load_file(os.path.join(path, "model.safetensors")) for path in (source, out)]
    return apart(made, ids, direct), exact and same_tensors(*files)


def main():
    failed = 0
    torch.set_num_threads(1)
    print(f"{'':34} {'export':>9} {'import':>9}  round trips")
    for number, (name, shape) in enumerate(CASES):
        ids = torch.randint(0, shape["vocab"], (shape["positions"] - 3,), generator=torch.Generator().manual_seed(number))
        with tempfile.TemporaryDirectory() as folder:
            out, exact_out = check_out(shape, ids, folder)
            into, exact_in = check_in(shape, ids, folder, number)
        bad = not (out <= LIMIT and into <= LIMIT and exact_out and exact_in)
        failed += bad
        trips = "to the byte" if exact_out and exact_in else f"export {exact_out}, import {exact_in}"
        print(f"{name:34} {out:9.1e} {into:9.1e}  {trips}{'  FAILED' if bad else ''}", flush=True)
    print(f"logits: {len(CASES)} models, {failed} failures")
    sys.exit(1 if failed else 0)


main()
