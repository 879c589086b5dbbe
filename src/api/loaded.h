/* loaded.h: a model with weights, ready to run forward in this process: for the runs of eval and generate. */
#ifndef LS_API_LOADED_H
#define LS_API_LOADED_H

#include "api/generate.h"
#include "comm/placement.h"
#include "data/windows.h"
#include "run/inputs/inputs.h"

/* Tokens of a sequence where --seq does not say: all positions of the model, up to this. */
enum { LS_LOADED_T_MAX = 4096 };

typedef struct ls_loaded {
    ls_run_setup setup;
    const ls_options *options; /* the caller's */
    ls_start start;
    ls_tokenizer *tokenizer; /* NULL: none */
    ls_placement placement;
    ls_device *device;
    ls_model *model;
    ls_policy policy;
    ls_partition *partition;
    size_t T, micro;    /* tokens of a sequence, sequences at a time */
    ls_windows windows; /* of the last evaluation of text */
    int64_t right;      /* of the last evaluation of images */
} ls_loaded;

/* Precision and matrix unit are those of the options, else of the run that the weights come from, else fp32. On failure
 * *out is NULL. */
ls_status ls_loaded_open(const ls_run_setup *setup, ls_loaded **out);
void ls_loaded_close(ls_loaded *loaded);

/* Every token but the first is scored once, in windows that overlap where --stride is below --seq (data/windows.h); of
 * an image model the test images. The loss is exact: it does not depend on micro-batch or threads. */
ls_status ls_loaded_evaluate(ls_loaded *loaded, ls_evaluation *out);
ls_status ls_loaded_generate(ls_loaded *loaded, const char *prompt, ls_text_writer *writer, int64_t *tokens);

#endif
