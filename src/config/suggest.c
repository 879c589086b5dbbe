/* suggest.c: finds the nearest of several words, and lockstep's options for the names that other programs use. */
#include "config/suggest.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ---- slips ------------------------------------------------------------------------------------------------------- */

enum { WORD_MAX = 48, FAR = 1000 };

static int smaller(int a, int b) { return a < b ? a : b; }

int ls_suggest_distance(const char *a, const char *b) {
    size_t rows = strlen(a), columns = strlen(b);
    if (rows > WORD_MAX || columns > WORD_MAX) return FAR;
    int table[3][WORD_MAX + 1]; /* the row being filled and the two before it, in turn */
    for (size_t j = 0; j <= columns; j++) table[0][j] = (int)j;
    for (size_t i = 1; i <= rows; i++) {
        int *now = table[i % 3];
        const int *before = table[(i + 2) % 3], *earlier = table[(i + 1) % 3];
        now[0] = (int)i;
        for (size_t j = 1; j <= columns; j++) {
            int replaced = before[j - 1] + (a[i - 1] != b[j - 1]);
            now[j] = smaller(replaced, smaller(before[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                now[j] = smaller(now[j], earlier[j - 2] + 1);
            }
        }
    }
    return table[rows % 3][columns];
}

void ls_suggest_init(ls_suggest *suggest, const char *word) {
    *suggest = (ls_suggest){.word = word, .best = NULL, .distance = FAR};
}

void ls_suggest_offer(ls_suggest *suggest, const char *candidate) {
    size_t length = strlen(suggest->word);
    if (!length) return;
    int distance = ls_suggest_distance(suggest->word, candidate);
    int allowed = length < 4 ? 1 : (int)(length / 3) + 1;
    /* A prefix is a better guess than a word with typos. */
    if (length >= 2 && strncmp(suggest->word, candidate, length) == 0) distance = allowed = 1;
    if (distance <= allowed && distance < suggest->distance) {
        suggest->best = candidate;
        suggest->distance = distance;
    }
}

/* ---- names of other programs ------------------------------------------------------------------------------------- */

#define SHAPE "the shape of a model comes from --model: a preset or a shape file (docs/reference/models.md)"
#define LAUNCH "lockstep starts its workers itself (--workers N), or mpirun or srun starts them"

/* Names of Megatron-LM, DeepSpeed, torchrun, PyTorch Lightning, the Hugging Face Trainer, nanoGPT, llm.c and llama.cpp.
 * If commands have different options for one name, the first row whose option the command has is used. */
static const ls_foreign table[] = {
    /* optimizer */
    {"learning-rate initial-lr base-lr max-lr peak-lr", "lr", NULL},
    {"min-lr lr-end", "lr-min", NULL},
    {"lr-warmup-iters lr-warmup-steps warmup-steps warmup-iters num-warmup-steps", "warmup", NULL},
    {"warmup-ratio warmup-fraction lr-warmup-fraction", "warmup", "use --warmup N, a number of steps"},
    {"lr-scheduler lr-scheduler-type scheduler lr-decay-style", "lr-schedule", NULL},
    {"wd decay", "weight-decay", NULL},
    {"grad-clip gradient-clipping max-grad-norm gradient-clip-val", "clip", NULL},
    {"betas adam-betas", "beta1", "use --beta1 and --beta2"},
    {"adam-epsilon epsilon", "eps", NULL},
    {"optim", "optimizer", NULL},
    {"hidden-dropout attention-dropout embd-pdrop dropout-rate", "dropout", NULL},
    /* batch and length */
    {"batch batch-size train-batch-size total-batch-size", "global-batch",
     "use --global-batch N, sequences or images of a step (--micro-batch: at a time on one worker)"},
    {"batch batch-size eval-batch-size per-device-eval-batch-size", "micro-batch", NULL},
    {"per-device-train-batch-size per-device-batch-size train-micro-batch-size-per-gpu device-batch-size",
     "micro-batch", NULL},
    {"gradient-accumulation-steps grad-accum accumulate-grad-batches grad-accumulation-steps", "micro-batch",
     "--global-batch and --micro-batch say how many micro-batches a step has"},
    {"epochs num-epochs num-train-epochs max-epochs", "steps", "lockstep counts steps: use --steps N"},
    {"max-steps train-iters max-iters iterations iters num-iterations num-steps total-steps max-train-steps", "steps",
     NULL},
    {"block-size context-length context max-seq-length max-seq-len sequence-length seq-len max-length", "seq", NULL},
    /* model, data, output */
    {"model-name-or-path model-name model-path checkpoint ckpt load init-from", "model", NULL},
    {"num-layers n-layer n-layers num-hidden-layers hidden-size n-embd d-model num-attention-heads n-head n-heads "
     "num-heads ffn-hidden-size max-position-embeddings vocab-size",
     "model", SHAPE},
    {"input train-data train-data-path data-path data-dir dataset dataset-path train-file train-files input-file "
     "train-bin",
     "data", NULL},
    {"eval-data val-file validation-file validation-data valid-data-path val-data-path val-bin", "val-data", NULL},
    {"tokenizer-model tokenizer-name tokenizer-name-or-path tokenizer-path vocab-file merge-file", "tokenizer", NULL},
    {"output-dir output-path output save save-dir save-path checkpoint-dir out-dir run-dir default-root-dir", "out",
     NULL},
    {"resume-from resume-from-checkpoint resume-from-ckpt continue", "resume", "use --out RUN --resume"},
    {"save-interval save-steps save-freq checkpoint-every checkpoint-interval", "save-every", NULL},
    {"save-total-limit keep-last keep-checkpoints", "keep", NULL},
    {"log-interval logging-steps log-freq print-every log-steps", "log-every", NULL},
    {"eval-interval eval-steps eval-freq val-every val-check-interval val-loss-every", "eval-every", NULL},
    {"patience early-stopping early-stopping-patience", "early-stop", NULL},
    {"eval-iters val-max-steps limit-val-batches", "eval-batches", NULL},
    {"random-seed manual-seed", "seed", NULL},
    /* precision */
    {"fp16 half float16", "precision", "use --precision fp16"},
    {"bf16 bfloat16", "precision", "use --precision bf16"},
    {"fp32 float32", "precision", "use --precision fp32"},
    {"amp mixed-precision dtype", "precision", "use --precision bf16 or fp16"},
    /* workers and layout */
    {"num-gpus n-gpus ngpus devices world-size nproc", "gpus", NULL},
    {"gpus num-gpus n-gpus ngpus devices world-size nproc num-processes np", "workers",
     "use --workers N, or --dp, --tp and --pp"},
    {"nodes nnodes num-nodes node-rank local-rank master-addr master-port rdzv-endpoint", "workers", LAUNCH},
    {"num-workers dataloader-num-workers", "workers",
     "data needs no loader processes; --workers is the number of processes that train"},
    {"num-threads omp-num-threads", "threads", NULL},
    {"tensor-parallel tensor-parallel-size model-parallel-size tp-size", "tp", NULL},
    {"pipeline-parallel pipeline-parallel-size pp-size", "pp", NULL},
    {"data-parallel dp-size", "dp", NULL},
    {"fsdp sharding-strategy deepspeed deepspeed-config", "zero",
     "use --zero 1, 2 or 3 (3 divides parameters, as FSDP does)"},
    {"gradient-checkpointing activation-checkpointing checkpoint-activations recompute-activations", "recompute",
     "use --recompute selective or full"},
    /* generation and the rest */
    {"max-new-tokens n-predict num-tokens length", "max-tokens", NULL},
    {"text input-text input", "prompt", NULL},
    {"verbose quiet verbosity loglevel", "log-level", NULL},
};

const ls_foreign *ls_foreign_get(size_t i) { return i < sizeof table / sizeof *table ? &table[i] : NULL; }

/* Returns whether `word` is one of `words`, which spaces separate; false for an empty word. */
static bool has_word(const char *words, const char *word) {
    size_t length = strlen(word);
    for (const char *at = words; length > 0 && (at = strstr(at, word)); at += length)
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || !at[length])) return true;
    return false;
}

const ls_foreign *ls_foreign_find(ls_command command, const char *name) {
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        ls_option_id id =
            has_word(table[i].names, name) ? ls_option_find_of(command, table[i].option) : LS_OPTION_COUNT;
        if (id < LS_OPTION_COUNT && ls_option_info_get(id)->commands & (1u << command)) return &table[i];
    }
    return NULL;
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

enum { NAME_MAX_CHARS = 64 };

/* Writes the name in lower case, with dashes instead of underscores, cut to the room. */
static void spell_with_dashes(const char *name, char out[NAME_MAX_CHARS]) {
    size_t i = 0;
    for (; name[i] && i < NAME_MAX_CHARS - 1; i++)
        out[i] = name[i] == '_' ? '-' : (char)tolower((unsigned char)name[i]);
    out[i] = '\0';
}

/* Returns the name of the command's option that has this name or alias; NULL if the command has none. */
static const char *own_name(ls_command command, const char *name) {
    ls_option_id id = ls_option_find_of(command, name);
    if (id == LS_OPTION_COUNT || !(ls_option_info_get(id)->commands & (1u << command))) return NULL;
    return ls_option_info_get(id)->name;
}

/* Returns the name of the command's switch (a BOOL, which --no-name turns off) that has this name or alias; NULL if the
 * command has none. */
static const char *own_switch(ls_command command, const char *name) {
    const char *own = own_name(command, name);
    return own && ls_option_info_get(ls_option_find_of(command, own))->kind == LS_OPTION_BOOL ? own : NULL;
}

/* Writes the command's option `name` in the form of `origin`: LS_NAME, name, or --name with `no` ("no-" or "") in front
 * of the name. */
static void write_name(ls_command command, const char *name, ls_option_origin origin, const char *no,
                       char out[NAME_MAX_CHARS]) {
    if (origin == LS_ORIGIN_ENV)
        ls_option_env_name(ls_option_info_get(ls_option_find_of(command, name)), out);
    else
        snprintf(out, NAME_MAX_CHARS, "%s%s%s", origin == LS_ORIGIN_FLAG ? "--" : "", no, name);
}

_Static_assert(NAME_MAX_CHARS == (int)LS_OPTION_ENV_MAX, "a name has room for that of a variable");

bool ls_foreign_answer(ls_command command, const char *name, ls_option_origin origin,
                       char answer[LS_FOREIGN_ANSWER_MAX]) {
    char spelled[NAME_MAX_CHARS], ours[NAME_MAX_CHARS];
    spell_with_dashes(name, spelled);
    const ls_foreign *foreign = ls_foreign_find(command, spelled);
    const char *near = own_name(command, spelled);
    if (!near && foreign) {
        write_name(command, foreign->option, origin, "", ours);
        if (foreign->advice)
            snprintf(answer, LS_FOREIGN_ANSWER_MAX, "%s", foreign->advice);
        else
            snprintf(answer, LS_FOREIGN_ANSWER_MAX, "lockstep calls it %s", ours);
        return true;
    }
    bool is_no = origin == LS_ORIGIN_FLAG && strncmp(spelled, "no-", 3) == 0;
    if (!near && is_no) near = own_switch(command, spelled + 3);
    bool keeps_no = near && is_no;
    if (!near) near = ls_option_nearest(command, spelled);
    if (!near && is_no) {
        near = ls_option_nearest(command, spelled + 3);
        keeps_no = true;
    }
    if (!near) return false;
    const char *no = keeps_no ? "no-" : "";
    write_name(command, near, origin, no, ours);
    snprintf(answer, LS_FOREIGN_ANSWER_MAX, "did you mean %s?", ours);
    return true;
}
