/* dry_types.c: which numbers a run keeps in which type, and why; docs/precision.md has it at length. */
#include "cli/train/dry.h"

/* Everything is as it is in fp32. */
static bool is_plain(const ls_policy *p) { return p->act == LS_F32 && p->reduce == LS_F32 && p->accumulate == LS_F32; }

static void add(ls_dry_types *types, const char *what, const char *type, const char *why) {
    types->row[types->count++] = (ls_dry_type){what, type, why};
}

static void add_weights(const ls_policy *p, ls_dry_types *types) {
    add(types, "weights in products", ls_dtype_word(p->act),
        ls_policy_is_16(p) ? "half the bytes to read, to gather and to publish; rounded anew after every update"
                           : "there is no other copy");
    if (!ls_policy_is_16(p)) return;
    if (p->no_master)
        add(types, "master weights", "none", "--no-master-weights: an update below half a step of the weight is lost");
    else
        add(types, "master weights", "fp32",
            "most updates are smaller than a 16-bit step of the weight, and would be lost");
    add(types, "vectors and positions", "fp32", "norms, biases, position rows: few numbers, and in no product");
}

static void add_gradients(const ls_policy *p, ls_dry_types *types) {
    if (p->accumulate == LS_F32)
        add(types, "weight gradients", "fp32", "sums over all tokens of a group, and over groups");
    else
        add(types, "weight gradients", ls_dtype_word(p->accumulate),
            "--accumulate-dtype: rounded after every sequence; small ones are lost");
    add(types, "leaves on the wire", ls_dtype_word(p->reduce),
        p->reduce == LS_F32 ? "a finished gradient of a group; --reduce-dtype bf16 would send it in half the bytes"
                            : "a finished gradient of a group, rounded once on every layout; sums of groups are fp32");
}

ls_dry_types ls_dry_types_of(const ls_policy *p) {
    ls_dry_types types = {.precision = ls_dtype_word(p->act), .unit = ls_unit_name(p->unit)};
    if (is_plain(p)) {
        add(&types, "everything", "fp32", "--precision fp32");
        return types;
    }
    add_weights(p, &types);
    add(&types, "activations", ls_dtype_word(p->act),
        ls_policy_is_16(p) ? "operands and results of products, and their gradients; rounded once, after sum and bias"
                           : "operands and results of products, and their gradients");
    add(&types, "residual stream", "fp32",
        "every block adds to it and its gradient: roundings would add up over the layers");
    add(&types, "softmax, norms, loss", "fp32",
        "sums and exponentials of a whole row; logits and attention scores too");
    add_gradients(p, &types);
    add(&types, "sums between workers", "fp32",
        "parts of one sum are never rounded, or the bits would depend on the layout");
    add(&types, "optimizer state", "fp32", "averages over many steps of numbers far apart in size");
    return types;
}
