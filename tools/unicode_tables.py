#!/usr/bin/env python3
"""unicode_tables.py: writes src/data/tokenizer/unicode_table.c, the classes of all characters that tokenizers ask for.

Run from the top of the tree with the version of Unicode that Hugging Face `tokenizers` and tiktoken have in them:

    pip install unicodedata2==16.0.0 && tools/unicode_tables.py > src/data/tokenizer/unicode_table.c && make format
"""
import sys

try:
    import unicodedata2 as unicodedata
except ImportError:
    sys.exit("unicode_tables.py: unicodedata2 is missing: pip install unicodedata2==16.0.0")

BLOCK = 256
# The property White_Space, which is what \s means; it has been the same since Unicode 6.3.
SPACES = {0x9, 0xA, 0xB, 0xC, 0xD, 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}


def class_of(code):
    if code in SPACES:
        return 3
    kind = unicodedata.category(chr(code))[0]
    return {"L": 1, "N": 2}.get(kind, 0)


def rows(items, per_line):
    for i in range(0, len(items), per_line):
        print("    " + " ".join(item + "," for item in items[i : i + per_line]))


classes = [class_of(code) for code in range(0x110000)]
end = max(code for code, kind in enumerate(classes) if kind) // BLOCK + 1
index, blocks = [], []
for i in range(end):
    block = tuple(classes[i * BLOCK : (i + 1) * BLOCK])
    if block not in blocks:
        blocks.append(block)
    index.append(blocks.index(block))
assert len(blocks) <= 256

words = []
for block in blocks:
    for i in range(0, BLOCK, 32):
        words.append(sum(kind << (2 * j) for j, kind in enumerate(block[i : i + 32])))

print(f"""/* unicode_table.c: classes of characters in Unicode {unicodedata.unidata_version}, two bits each. Made by tools/unicode_tables.py; do not
 * edit. Block i of 256 characters is row index[i] of the classes, 8 words, the first character in the lowest bits. */
#include "data/tokenizer/unicode.h"

_Static_assert(LS_UNICODE_BLOCKS == {end}, "the table and its size in unicode.h belong together");

const uint8_t ls_unicode_index[LS_UNICODE_BLOCKS] = {{""")
rows([str(i) for i in index], 28)
print("};\n\nconst uint64_t ls_unicode_classes[][8] = {")
for i in range(0, len(words), 8):
    print("    {" + ", ".join("0" if w == 0 else f"0x{w:x}" for w in words[i : i + 8]) + "},")
print("};")
