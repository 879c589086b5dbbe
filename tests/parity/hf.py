"""hf.py: the models of transformers for our shapes and weights, and the way between their names and ours."""
import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import torch
from transformers import (AutoModelForCausalLM, GPT2Config, LlamaConfig, MistralConfig, Phi3Config, Qwen2Config, Qwen3Config, SmolLM3Config,
                          Starcoder2Config)
from transformers.utils import logging

import plain

logging.disable_progress_bar()

# Ours, theirs (the parts of a fused weight in order), and whether theirs is turned.
GPT2_NAMES = [("attn.norm", ["ln_1"], False), ("attn.qkv", ["attn.c_attn"], True), ("attn.out", ["attn.c_proj"], False),
              ("mlp.norm", ["ln_2"], False), ("mlp.in", ["mlp.c_fc"], True), ("mlp.out", ["mlp.c_proj"], False)]
LLAMA_NAMES = [("attn.norm", ["input_layernorm"], False),
               ("attn.qkv", ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"], False),
               ("attn.q_norm", ["self_attn.q_norm"], False), ("attn.k_norm", ["self_attn.k_norm"], False),
               ("attn.out", ["self_attn.o_proj"], True), ("mlp.norm", ["post_attention_layernorm"], False),
               ("mlp.in", ["mlp.gate_proj", "mlp.up_proj"], False), ("mlp.out", ["mlp.down_proj"], True)]
PHI3_NAMES = [("attn.norm", ["input_layernorm"], False), ("attn.qkv", ["self_attn.qkv_proj"], False), ("attn.out", ["self_attn.o_proj"], True),
              ("mlp.norm", ["post_attention_layernorm"], False), ("mlp.in", ["mlp.gate_up_proj"], False), ("mlp.out", ["mlp.down_proj"], True)]
STARCODER2_NAMES = LLAMA_NAMES[:-2] + [("mlp.in", ["mlp.c_fc"], False), ("mlp.out", ["mlp.c_proj"], True)]
NAMES = {"gpt2": GPT2_NAMES, "phi3": PHI3_NAMES, "starcoder2": STARCODER2_NAMES}  # all others: LLAMA_NAMES


def unrotated(shape):
    """What SmolLM3's file says of layers without rotation."""
    bases = shape.get("rope-bases", "1").split(",")
    return [int(float(bases[i % len(bases)]) > 0) for i in range(shape["layers"])]


# The configuration of each family with rotary positions, and the keys that only it has.
ROTARY_KINDS = {
    "llama": (LlamaConfig, lambda shape: {"attention_bias": shape["attention-bias"], "mlp_bias": shape["mlp-bias"]}),
    "qwen3": (Qwen3Config, lambda shape: {"attention_bias": shape["attention-bias"]}),
    "qwen2": (Qwen2Config, lambda shape: {}),
    "phi3": (Phi3Config, lambda shape: {"pad_token_id": None}),
    "smollm3": (SmolLM3Config, lambda shape: {"attention_bias": shape["attention-bias"], "mlp_bias": shape["mlp-bias"],
                                              "no_rope_layers": unrotated(shape), "pad_token_id": None}),
    "starcoder2": (Starcoder2Config, lambda shape: {"use_bias": shape["attention-bias"], "norm_epsilon": shape["eps"],
                                                    "hidden_act": "gelu_pytorch_tanh"}),
    "mistral": (MistralConfig, lambda shape: {"sliding_window": None}),
}


def rope(shape):
    out = {"rope_type": "default", "rope_theta": shape["rope-base"]}
    scaling = shape.get("rope-scaling")
    if "rope-share" in shape:
        out["partial_rotary_factor"] = shape["rope-share"]
    if scaling:
        out.update(rope_type="llama3", factor=float(scaling["factor"]), low_freq_factor=float(scaling["low"]),
                   high_freq_factor=float(scaling["high"]), original_max_position_embeddings=scaling["original"])
    return out


def config(shape):
    if shape["arch"] == "gpt2":
        return GPT2Config(vocab_size=shape["vocab"], n_embd=shape["width"], n_layer=shape["layers"],
                          n_head=shape["heads"], n_positions=shape["positions"], n_inner=shape["hidden"],
                          layer_norm_epsilon=shape["eps"], tie_word_embeddings=shape["tied"], resid_pdrop=0,
                          embd_pdrop=0, attn_pdrop=0, bos_token_id=0, eos_token_id=0)
    sizes = dict(vocab_size=shape["vocab"], hidden_size=shape["width"], num_hidden_layers=shape["layers"],
                 num_attention_heads=shape["heads"], num_key_value_heads=shape["kv-heads"],
                 head_dim=shape["head-size"], intermediate_size=shape["hidden"],
                 max_position_embeddings=shape["positions"], tie_word_embeddings=shape["tied"],
                 rms_norm_eps=shape["eps"], bos_token_id=0, eos_token_id=0,
                 hidden_act="gelu_pytorch_tanh" if shape.get("gelu-gate") else "silu")
    kind, own = ROTARY_KINDS[shape["arch"]]
    sizes.update(own(shape))
    if hasattr(kind(), "rope_parameters"):
        return kind(**sizes, rope_parameters=rope(shape))
    old = rope(shape)
    base = old.pop("rope_theta")
    return kind(**sizes, rope_theta=base, rope_scaling=old if "rope-scaling" in shape else None)


def names(shape):
    """(our name, their names, turned) of all parameters in model order."""
    is_llama = shape["arch"] != "gpt2"
    top, blocks = ("model.", "layers.") if is_llama else ("transformer.", "h.")
    of_layer = NAMES.get(shape["arch"], LLAMA_NAMES)
    table = {"tokens": [top + ("embed_tokens" if is_llama else "wte")], "positions": [top + "wpe"],
             "norm": [top + ("norm" if is_llama else "ln_f")], "head": ["lm_head"]}
    turned = {}
    for i in range(shape["layers"]):
        for ours, theirs, turn in of_layer:
            table[f"blocks.{i}.{ours}"] = [f"{top}{blocks}{i}.{name}" for name in theirs]
            turned[f"blocks.{i}.{ours}.weight"] = turn
    for name in plain.parameters(shape):
        stem, kind = name.rsplit(".", 1)
        yield name, [f"{part}.{kind}" for part in table[stem]], turned.get(name, False)


def ours_from(tensors, shape):
    """Tensors by their names → by ours."""
    out = {}
    for name, theirs, turned in names(shape):
        whole = torch.cat([tensors[part] for part in theirs]) if len(theirs) > 1 else tensors[theirs[0]]
        out[name] = (whole.T if turned else whole).contiguous()
    return out


def model(shape, weights):
    """A model of transformers in fp32 with these weights."""
    made = AutoModelForCausalLM.from_config(config(shape))
    tensors = dict(made.named_parameters())
    with torch.no_grad():
        for name, theirs, turned in names(shape):
            values = weights[name].T if turned else weights[name]
            rows = [tensors[part].shape[0] for part in theirs]
            for part, piece in zip(theirs, values.split(rows)):
                tensors[part].copy_(piece)
    return made.train()


def loss(made, tokens):
    logits = made(tokens[:, :-1], use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def gradients(shape, weights, tokens):
    """(loss, gradients by our names in float64) of transformers in fp32."""
    made = model(shape, weights)
    value = loss(made, tokens)
    value.backward()
    found = {name: tensor.grad.double() for name, tensor in made.named_parameters()}
    return value.item(), ours_from(found, shape)
