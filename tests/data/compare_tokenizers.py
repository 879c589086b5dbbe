#!/usr/bin/env python3
"""compare_tokenizers.py: `lockstep tokenize` beside Hugging Face `tokenizers` and tiktoken: the same ids, and how fast.
With `tokenizers` also the tokens around each text that a post_processor asks for (add_special_tokens=True is --bos auto).

    pip install tokenizers tiktoken numpy
    TEST_DATA=FOLDER LOCKSTEP=./lockstep tests/data/compare_tokenizers.py [--cases N] [--seed N]

FOLDER has gpt2-bpe/vocab.json, gpt2-bpe/merges.txt and tinyshakespeare.txt. Other tokenizers are made of the same vocabulary with
other patterns, added tokens and post-processors. Texts are the corpus and random ones: every script, marks, emoji, blanks of all kinds,
digits, NULs (in JSONL, which can hold them); for round trips also bytes that are not UTF-8. Exit status 0: everything was equal.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

import numpy as np  # noqa: E402
import tiktoken  # noqa: E402
from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers, processors  # noqa: E402

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
EOT = 50256
ROUNDS = 5


def folder():
    path = os.environ.get("TEST_DATA")
    if not path or not os.path.exists(os.path.join(path, "gpt2-bpe", "vocab.json")):
        print("compare_tokenizers.py: skipped: TEST_DATA names no folder with gpt2-bpe/vocab.json")
        sys.exit(77)
    return path


# ---- tokenizers -----------------------------------------------------------------------------------------------------


def bpe(data, **options):
    base = os.path.join(data, "gpt2-bpe")
    vocab, merges = models.BPE.read_file(os.path.join(base, "vocab.json"), os.path.join(base, "merges.txt"))
    tokenizer = Tokenizer(models.BPE(vocab, merges, **options))
    tokenizer.add_special_tokens([AddedToken("<|endoftext|>", normalized=False, special=True)])
    tokenizer.encode_special_tokens = True
    return tokenizer


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def variants(data):
    """name, tokenizer, whether special tokens are looked for, whether Unicode newer than that of PCRE2 may be in the text"""
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer = bpe(data)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    yield "gpt2 as tokenizer.json", tokenizer, False, True
    tokenizer = bpe(data, ignore_merges=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split(LLAMA3), byte_level])
    yield "llama 3 pattern", tokenizer, False, True
    yield from framed(data, byte_level)
    tokenizer = bpe(data)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split(LLAMA3.replace("{1,3}", "")), byte_level])
    yield "qwen pattern", tokenizer, False, True
    tokenizer = bpe(data)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split(O200K), byte_level])
    yield "gpt-4o pattern (PCRE2)", tokenizer, False, False
    tokenizer = bpe(data)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    yield "digits, then byte level", tokenizer, False, True
    tokenizer = bpe(data)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    yield "prefix space", tokenizer, True, True
    tokenizer = bpe(data)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False, special=True)])
    tokenizer.add_special_tokens([AddedToken("<|end|>", rstrip=True, normalized=False, special=True)])
    tokenizer.add_tokens([AddedToken("<|endoftext", normalized=False), AddedToken("    ", normalized=True)])
    tokenizer.add_tokens([AddedToken("ing", normalized=True), AddedToken("<think>", normalized=False)])
    yield "added tokens, plain text", tokenizer, False, True
    yield "added tokens, special", tokenizer, True, True


def framed(data, byte_level):
    """The kinds of post_processor that byte-level BPE comes with."""
    plain = processors.ByteLevel(trim_offsets=False)
    for name, make in (
        ("BOS in front, as Llama 3", lambda bos, x: processors.Sequence([plain, template("<s> $A", bos, x)])),
        ("BOS in front, without a sequence", lambda bos, x: template("<s> $A", bos, x)),
        ("BOS in front, EOS behind", lambda bos, x: template("<s> $A <|endoftext|>", bos, x)),
        ("two in front, one behind", lambda bos, x: template("<s> <x> $A <x> <|endoftext|>", bos, x)),
        ("as RoBERTa", lambda bos, x: processors.RobertaProcessing(("<|endoftext|>", EOT), ("<s>", bos), add_prefix_space=False)),
    ):
        tokenizer = bpe(data)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split(LLAMA3), byte_level])
        tokenizer.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in ("<s>", "<x>")])
        bos, x = tokenizer.token_to_id("<s>"), tokenizer.token_to_id("<x>")
        tokenizer.post_processor = make(bos, x)
        yield name, tokenizer, False, True


def template(single, bos, x):
    tokens = [("<s>", bos), ("<x>", x), ("<|endoftext|>", EOT)]
    return processors.TemplateProcessing(single=single, special_tokens=[token for token in tokens if token[0] in single])


def tiktoken_gpt2(data, pattern):
    """The ranks of tiktoken are the ids: bytes first, in the order of GPT-2's alphabet, then the merges."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    order = printable + [b for b in range(256) if b not in printable]
    letters = {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(order[len(printable) :])}
    ranks = {bytes([b]): i for i, b in enumerate(order)}
    with open(os.path.join(data, "gpt2-bpe", "merges.txt"), encoding="utf-8") as file:
        for line in file.read().split("\n")[1:-1]:
            ranks[bytes(letters[c] for c in line.replace(" ", ""))] = len(ranks)
    return tiktoken.Encoding("gpt2", pat_str=pattern, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": EOT})


# ---- texts ----------------------------------------------------------------------------------------------------------


def random_text(rng, newest):
    blanks = " \t\n\r\x0b\x0c\x85\xa0\u1680\u2000\u2003\u2009\u2028\u2029\u202f\u205f\u3000\u200b\u180e\ufeff"
    words = ["'s", "'S", "'re", "'LL", "'\u017f", "'d", "don't", "I'VE", "\u2019s", "''", "'", "hello", " world", "ing", "<mask>"]
    words += ["<|endoftext|>", "<|endoftext", "<|end|>", "<|end", "<think>", "123456", "1\u0660\u0967\u2167\u00bd", "\x00", "\x00\x01", "naïve"]
    words += ["e\u0301\u0323", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "\u0e01\u0e33", "\ud55c\uad6d", "日本語"]
    scripts = [(0x20, 0x7F), (0xA0, 0x250), (0x300, 0x370), (0x370, 0x600), (0x600, 0xE00), (0xE00, 0x1100), (0x1E00, 0x2C00)]
    scripts += [(0x3000, 0x3200), (0x4E00, 0x9FFF), (0xAC00, 0xD7A4), (0xFB00, 0xFFFE), (0x10000, 0x12000), (0x1D400, 0x1D800)]
    scripts += [(0x1F300, 0x1FB00), (0x20000, 0x20100)]
    if newest:
        scripts += [(0, 0xD800), (0xE000, 0x110000)]
    out = []
    for _ in range(rng.randint(1, 12)):
        kind = rng.random()
        if kind < 0.25:
            out.append(rng.choice(words))
        elif kind < 0.45:
            out.append(rng.choice(blanks) * rng.choice((1, 1, 1, 2, 3, 4, 5, 8, 40)))
        elif kind < 0.55:
            out.append("".join(rng.choice(" \n\r\t") for _ in range(rng.randint(1, 8))))
        elif kind < 0.7:
            out.append("".join(chr(rng.randint(0x20, 0x7E)) for _ in range(rng.randint(1, 20))))
        else:
            low, high = rng.choice(scripts)
            out.append("".join(chr(rng.randrange(low, high)) for _ in range(rng.randint(1, 10))))
    text = "".join(out)
    # PCRE2 counts U+180E among the blanks and may not know the characters of the last versions of Unicode.
    return text if newest else "".join(c for c in text if c != "\u180e" and known_to_pcre2(c))


def known_to_pcre2(character):
    import unicodedata

    return unicodedata.category(character) != "Cn"


# ---- comparison -----------------------------------------------------------------------------------------------------


def run_lockstep(work, tokenizer, path, special):
    out = os.path.join(work, "tokens")
    shard = out + "_000001.bin"
    if os.path.exists(shard):
        os.unlink(shard)
    program = os.environ.get("LOCKSTEP", "./lockstep")
    command = [program, "tokenize", "--tokenizer", tokenizer, "--data", path, "--out", out, "--json"]
    done = subprocess.run(command + ["--special-tokens"] * special, check=True, capture_output=True, text=True)
    head = np.fromfile(shard, dtype=np.uint32, count=256)
    ids = np.fromfile(shard, dtype=np.uint16 if head[0] == 20240520 else np.uint32, offset=1024)
    assert len(ids) == head[2]
    return ids.astype(np.int64), json.loads(done.stdout)


def write_jsonl(work, docs):
    path = os.path.join(work, "docs.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        for doc in docs:
            file.write(json.dumps({"text": doc}, ensure_ascii=doc.startswith("a")) + "\n")
    return path


def compare(name, docs, got, expected_of, special=False):
    """One document after another, each with the end-of-text token behind it, once; tells the first that differs."""
    at = 0
    for doc in docs:
        expected = expected_of(doc)
        if special or expected[-1:] != [EOT]:  # else the post_processor has put it there
            expected = expected + [EOT]
        mine = got[at : at + len(expected)].tolist()
        if mine != expected:
            print(f"DIFFERENT  {name}: {doc[:200]!r}\n  expected {expected[:60]}\n  lockstep {mine[:60]}")
            return False
        at += len(expected)
    same = at == len(got)
    print(f"{'equal     ' if same else 'DIFFERENT '} {name}: {len(docs)} texts, {at} tokens")
    return same


def compare_all(data, work, corpus, cases, seed):
    ok = True
    rng = random.Random(seed)
    hard = [random_text(rng, True) for _ in range(cases)]
    base = os.path.join(data, "gpt2-bpe")
    for name, pattern in (("GPT-2", GPT2), ("Llama 3", LLAMA3)):
        peer = tiktoken_gpt2(data, pattern)
        path = base
        if name != "GPT-2":
            tokenizer = bpe(data)
            tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
                [split(LLAMA3), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
            )
            path = os.path.join(work, "tokenizer.json")
            tokenizer.save(path)
        for kind, docs in (("corpus", [corpus]), ("random", hard)):
            got, _ = run_lockstep(work, path, write_jsonl(work, docs), False)
            ok &= compare(f"tiktoken, {name} pattern, {kind}", docs, got, peer.encode_ordinary)
    for name, tokenizer, special, newest in variants(data):
        docs = [corpus] + (hard if newest else [random_text(rng, False) for _ in range(cases)])
        path = os.path.join(work, "tokenizer.json")
        tokenizer.encode_special_tokens = True
        tokenizer.save(path)
        tokenizer.encode_special_tokens = not special
        got, _ = run_lockstep(work, path, write_jsonl(work, docs), special)
        ok &= compare(f"tokenizers, {name}", docs, got, lambda doc: tokenizer.encode(doc).ids, special)
    return ok


def round_trips(data, work, seed):
    """Bytes of all kinds through GPT-2's tokenizer and back; decoded here, with tiktoken's table."""
    rng = random.Random(seed)
    peer = tiktoken_gpt2(data, GPT2)
    path = os.path.join(work, "bytes.txt")
    texts = [bytes(rng.randrange(256) for _ in range(200000)), bytes(range(256)) * 50, b"\xed\xa0\x80\xed\xb0\x80" * 99]
    texts += [b"a" * 1000000, b" " * 300000, b"\xf0\x9f\x91" * 1000 + b"x", b"\x01" * 5000 + b"\n\r" * 5000]
    for i, text in enumerate(text.replace(b"\0", b"") for text in texts):  # a file with NULs is no text
        with open(path, "wb") as file:
            file.write(text)
        got, _ = run_lockstep(work, os.path.join(data, "gpt2-bpe"), path, False)
        if got[-1] != EOT or peer.decode_bytes(got[:-1].tolist()) != text:
            print(f"DIFFERENT  round trip of text {i}")
            return False
    print(f"equal      round trips of {sum(map(len, texts))} bytes, most of them not UTF-8")
    return True


# ---- speed ----------------------------------------------------------------------------------------------------------


def best_of(function):
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def speed(data, work, corpus):
    """One thread each, the whole corpus several times over, as one document and as many."""
    text = corpus * 8
    docs = [corpus[i : i + 2000] for i in range(0, len(corpus), 2000)] * 8
    mega = len(text.encode()) / 1e6
    huggingface = bpe(data)
    huggingface.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    peer = tiktoken_gpt2(data, GPT2)
    path = os.path.join(work, "speed.txt")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    base = os.path.join(data, "gpt2-bpe")

    def own(data_path):
        return min(run_lockstep(work, base, data_path, False)[1]["seconds"] for _ in range(ROUNDS))

    rows = [
        ("lockstep, one document, file to file", own(path)),
        ("lockstep, many documents, JSONL to file", own(write_jsonl(work, docs))),
        ("tokenizers, one document", best_of(lambda: huggingface.encode(text, add_special_tokens=False))),
        ("tokenizers, many documents", best_of(lambda: huggingface.encode_batch_fast(docs, add_special_tokens=False))),
        ("tiktoken, one document", best_of(lambda: peer.encode_ordinary(text))),
        ("tiktoken, many documents", best_of(lambda: [peer.encode_ordinary(doc) for doc in docs])),
    ]
    for name, seconds in rows:
        print(f"speed      {name}: {mega / seconds:8.1f} MB/s")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-speed", action="store_true")
    args = parser.parse_args()
    data = folder()
    with open(os.path.join(data, "tinyshakespeare.txt"), encoding="utf-8", newline="") as file:
        corpus = file.read()
    with tempfile.TemporaryDirectory() as work:
        ok = compare_all(data, work, corpus, args.cases, args.seed)
        ok &= round_trips(data, work, args.seed)
        if not args.no_speed:
            speed(data, work, corpus)
    sys.exit(0 if ok else 1)


main()
