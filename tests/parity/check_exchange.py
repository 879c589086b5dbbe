#!/usr/bin/env python3
"""check_exchange.py LOCKSTEP: import and export against transformers, exactly.

Makes random small models with transformers (GPT-2 and Llama; grouped heads, tied and untied, odd sizes, biases), saves
them in one file and in shards, runs `lockstep import` and `lockstep export`, and compares what transformers loads with
what it saved, bit by bit: fp32 as it was; bf16 and fp16 as torch rounds. Also the bytes of every tensor in the files, a
tokenizer, a bare model without prefixes, and llm.c's model files.

Needs torch, transformers and safetensors. Exits with 1 when something differs.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel, GPT2Model, LlamaConfig, LlamaForCausalLM

from transformers.utils import logging

logging.disable_progress_bar()
LOCKSTEP = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/lockstep")
TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
failures = 0
checks = 0


def check(ok, what):
    global failures, checks
    checks += 1
    if not ok:
        failures += 1
        print("FAILED:", what)


def lockstep(*args, good=True):
    done = subprocess.run([LOCKSTEP, *args], capture_output=True, text=True)
    if good and done.returncode != 0:
        raise SystemExit(f"lockstep {' '.join(args)}: exit {done.returncode}\n{done.stderr}")
    return done


def fill(model, seed):
    """Random values everywhere, also where models start with zeros and ones; some tiny, large, negative zero."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            values = torch.randn(parameter.shape, generator=generator)
            values.view(-1)[0] = -0.0
            values.view(-1)[-1] = 1e-40
            parameter.copy_(values)
    return model


def tensors(folder):
    """All tensors of a folder, over shards."""
    out = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".safetensors"):
            out.update(load_file(os.path.join(folder, name)))
    return out


def same_bits(a, b):
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    kind = torch.int32 if a.dtype == torch.float32 else torch.int16
    return torch.equal(a.contiguous().view(kind), b.contiguous().view(kind))


def same_tensors(what, want, got):
    check(set(want) == set(got), f"{what}: names {sorted(set(want) ^ set(got))}")
    for name in set(want) & set(got):
        check(same_bits(want[name], got[name]), f"{what}: {name}")


def same_config(what, folder, config):
    with open(os.path.join(folder, "config.json")) as file:
        exported = json.load(file)
    loaded = type(config).from_pretrained(folder)
    keys = ["vocab_size", "tie_word_embeddings", "initializer_range", "bos_token_id", "eos_token_id"]
    if config.model_type == "gpt2":
        keys += ["n_embd", "n_layer", "n_head", "n_positions", "layer_norm_epsilon"]
    else:
        keys += ["hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
                 "head_dim", "rms_norm_eps", "max_position_embeddings", "attention_bias", "mlp_bias"]
        for key in ["rope_parameters"] if hasattr(config, "rope_parameters") else ["rope_theta", "rope_scaling"]:
            keys.append(key)
    for key in keys:
        check(getattr(loaded, key) == getattr(config, key),
              f"{what}: {key} is {getattr(loaded, key)}, was {getattr(config, key)} ({exported.get(key)})")


def round_trip(what, model, work, shard=None):
    """transformers → import → export → transformers."""
    source, middle = os.path.join(work, "source"), os.path.join(work, "checkpoint")
    model.save_pretrained(source, **({"max_shard_size": shard} if shard else {}))
    if shard:
        check(len([n for n in os.listdir(source) if n.endswith(".safetensors")]) > 1, f"{what}: no shards were made")
    lockstep("import", "--model", source, "--out", middle)
    saved = tensors(source)
    for dtype, kind in TYPES.items():
        for size in ["5GiB", "3KiB"]:
            out = os.path.join(work, f"out-{dtype}-{size}")
            lockstep("export", "--model", middle, "--out", out, "--dtype", dtype, "--shard-size", size)
            many = len([n for n in os.listdir(out) if n.endswith(".safetensors")])
            check((many > 1) == (size != "5GiB"), f"{what} {dtype} {size}: {many} files")
            want = {name: value.to(kind) for name, value in saved.items()}
            same_tensors(f"{what} {dtype} {size}", want, tensors(out))
            loaded, info = AutoModelForCausalLM.from_pretrained(out, dtype=kind, output_loading_info=True)
            check(not info["missing_keys"] and not info["unexpected_keys"], f"{what} {dtype}: {info}")
            state = {name: value.to(kind) for name, value in model.state_dict().items()}
            same_tensors(f"{what} {dtype} loaded", state, loaded.state_dict())
            same_config(f"{what} {dtype}", out, model.config)
    return source, middle


def low_precision(what, model, work):
    """A model saved in 16 bits comes back in the same bits."""
    for dtype, kind in [("bf16", torch.bfloat16), ("fp16", torch.float16)]:
        source, middle, out = (os.path.join(work, f"{part}-{dtype}") for part in ["low", "low-ck", "low-out"])
        model.to(kind).save_pretrained(source)
        lockstep("import", "--model", source, "--out", middle)
        lockstep("export", "--model", middle, "--out", out, "--dtype", dtype)
        same_tensors(f"{what} saved in {dtype}", tensors(source), tensors(out))
        wide = {name: value.float() for name, value in tensors(source).items()}
        lockstep("export", "--model", middle, "--out", out + "-wide")
        same_tensors(f"{what} saved in {dtype}, widened", wide, tensors(out + "-wide"))


def bare(work):
    """A model without its head, as the first GPT-2 files are: names have no prefix."""
    model = fill(GPT2Model(GPT2Config(vocab_size=99, n_embd=24, n_layer=2, n_head=3, n_positions=17)), 7)
    source, middle, out = (os.path.join(work, part) for part in ["bare", "bare-ck", "bare-out"])
    model.save_pretrained(source)
    check("wte.weight" in tensors(source), "a bare model has a prefix")
    lockstep("import", "--model", source, "--out", middle)
    lockstep("export", "--model", middle, "--out", out)
    want = {"transformer." + name: value for name, value in tensors(source).items()}
    same_tensors("bare GPT-2", want, tensors(out))


def llmc(work, checkpoint, model):
    """llm.c's file, read by numpy-like means here: order, orientation and padding."""
    path, back = os.path.join(work, "model.bin"), os.path.join(work, "from-llmc")
    lockstep("export", "--model", checkpoint, "--format", "llmc", "--out", path)
    data = open(path, "rb").read()
    config = model.config
    header = struct.unpack("<256i", data[:1024])
    padded = (config.vocab_size + 127) // 128 * 128
    check(header[:8] == (20240326, 3, config.n_positions, config.vocab_size, config.n_layer, config.n_head,
                         config.n_embd, padded), f"llm.c header {header[:8]}")
    values = torch.frombuffer(bytearray(data[1024:]), dtype=torch.float32)
    state = model.state_dict()
    table = torch.zeros(padded, config.n_embd)
    table[: config.vocab_size] = state["transformer.wte.weight"]
    want = [table, state["transformer.wpe.weight"]]
    for name, turned in [("ln_1.weight", 0), ("ln_1.bias", 0), ("attn.c_attn.weight", 1), ("attn.c_attn.bias", 0),
                         ("attn.c_proj.weight", 1), ("attn.c_proj.bias", 0), ("ln_2.weight", 0), ("ln_2.bias", 0),
                         ("mlp.c_fc.weight", 1), ("mlp.c_fc.bias", 0), ("mlp.c_proj.weight", 1), ("mlp.c_proj.bias", 0)]:
        for layer in range(config.n_layer):
            tensor = state[f"transformer.h.{layer}.{name}"]
            want.append(tensor.t() if turned else tensor)
    want += [state["transformer.ln_f.weight"], state["transformer.ln_f.bias"]]
    flat = torch.cat([tensor.contiguous().view(-1) for tensor in want])
    check(same_bits(flat, values), "llm.c file")
    lockstep("import", "--model", path, "--out", back)
    lockstep("export", "--model", back, "--out", back + "-hf")
    same_tensors("llm.c and back", {n: v for n, v in state.items() if n != "lm_head.weight"}, tensors(back + "-hf"))
    lockstep("export", "--model", back, "--format", "llmc", "--dtype", "bf16", "--out", path + "16")
    half = torch.frombuffer(bytearray(open(path + "16", "rb").read()[1024:]), dtype=torch.bfloat16)
    check(same_bits(flat.to(torch.bfloat16), half), "llm.c file in bf16")


def byte_tokenizer(work, checkpoint):
    out = os.path.join(work, "bytes")
    lockstep("export", "--model", checkpoint, "--tokenizer", "bytes", "--out", out)
    tokenizer = AutoTokenizer.from_pretrained(out)
    for text in ["Hello, world!\n", "naïve  \t café\r\n\n", "日本語 🎉", " "]:
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        check(ids == list(text.encode()), f"bytes of {text!r}: {ids}")
        check(tokenizer.decode(ids) == text, f"{text!r} became {tokenizer.decode(ids)!r}")


def tokenizer_files(work, model):
    """vocab.json and merges.txt travel with the model."""
    source, middle, out = (os.path.join(work, part) for part in ["tok", "tok-ck", "tok-out"])
    model.save_pretrained(source)
    letters = {chr(c): i for i, c in enumerate(range(33, 127))}
    letters.update({"Ġ": 94, "th": 95, "the": 96, "<|endoftext|>": 97})
    json.dump(letters, open(os.path.join(source, "vocab.json"), "w"))
    open(os.path.join(source, "merges.txt"), "w").write("#version: 0.2\nt h\nth e\n")
    lockstep("import", "--model", source, "--out", middle)
    lockstep("export", "--model", middle, "--out", out)
    a, b = AutoTokenizer.from_pretrained(source), AutoTokenizer.from_pretrained(out)
    for text in ["the cat", "this thing", "a b c"]:
        check(a(text)["input_ids"] == b(text)["input_ids"], f"tokenizer on {text!r}")
    check(len(b("the")["input_ids"]) == 1, "the merges are not used")


def gpt2(tied, **changes):
    sizes = dict(vocab_size=101, n_embd=36, n_layer=3, n_head=3, n_positions=19, bos_token_id=100, eos_token_id=100)
    sizes.update(changes)
    return GPT2LMHeadModel(GPT2Config(tie_word_embeddings=tied, **sizes))


def llama(tied, **changes):
    sizes = dict(vocab_size=103, hidden_size=48, intermediate_size=67, num_hidden_layers=2, num_attention_heads=6,
                 num_key_value_heads=2, max_position_embeddings=64, bos_token_id=1, eos_token_id=[2, 3])
    sizes.update(changes)
    return LlamaForCausalLM(LlamaConfig(tie_word_embeddings=tied, **sizes))


LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32)


def rope3(base):
    """Newer transformers have everything in rope_parameters, older ones in rope_scaling and rope_theta."""
    if hasattr(LlamaConfig(), "rope_parameters"):
        return dict(rope_parameters=dict(LLAMA3, rope_theta=base))
    return dict(rope_theta=base, rope_scaling=LLAMA3)


def main():
    models = [
        ("GPT-2 tied", gpt2(True), None),
        ("GPT-2 untied, odd hidden", gpt2(False, n_inner=77), "20KB"),
        ("GPT-2 tied in shards", gpt2(True, vocab_size=257), "20KB"),
        ("Llama grouped", llama(False), None),
        ("Llama tied in shards", llama(True), "20KB"),
        ("Llama one kv head, own head size, biases", llama(False, num_key_value_heads=1, head_dim=10, attention_bias=True,
                                                           mlp_bias=True), "20KB"),
        ("Llama 3 rope", llama(True, rms_norm_eps=1e-5, **rope3(500000.0)), None),
    ]
    for number, (what, model, shard) in enumerate(models):
        with tempfile.TemporaryDirectory() as work:
            fill(model, number)
            _, checkpoint = round_trip(what, model, work, shard)
            if what == "GPT-2 tied":
                llmc(work, checkpoint, model)
                tokenizer_files(work, model)
                bare(work)
            if what == "GPT-2 tied in shards":
                byte_tokenizer(work, checkpoint)
            low_precision(what, model, work)
        print("done:", what, flush=True)
    print(f"{checks} checks, {failures} failed")
    sys.exit(1 if failures else 0)


main()
