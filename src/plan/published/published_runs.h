/* published_runs.h: reads published runs (measured, from papers) from CSV files as tasks and layouts to predict.
 *
 * Columns that a table must have: layers, hidden, heads, kv_heads, ffn_hidden, vocab, seq_len, gpu_type, n_gpus,
 * gpus_per_node, dp, tp, pp, interleave_v, micro_batch, global_batch_seqs, zero_stage, recompute, sequence_parallel,
 * precision, measured_metric, value. That it may have: id, source, source_group, model, program, link_inside,
 * link_between_gbps_per_gpu, context_parallel, attention, overlap, gather_8bit, fp8_scaling, memory_metric; empty is
 * not known. Others are ignored. Order does not matter.
 *
 * Nothing is predicted from id, source, source_group, model and value. A knob that a row leaves empty is chosen as the
 * planner would. A chip, link, program or type that is not known makes a row that cannot be predicted, with its reason;
 * it is no error. */
#ifndef LS_PLAN_PUBLISHED_PUBLISHED_RUNS_H
#define LS_PLAN_PUBLISHED_PUBLISHED_RUNS_H

#include "plan/plan.h"

typedef enum ls_row_metric {
    LS_ROW_SECONDS,
    LS_ROW_HW_TFLOPS,    /* per chip and second, with full recomputation counted */
    LS_ROW_MODEL_TFLOPS, /* without */
    LS_ROW_MFU,          /* per cent */
    LS_ROW_TOKENS,       /* of a chip and second */
    LS_ROW_MEMORY,       /* GiB */
    LS_ROW_METRICS
} ls_row_metric;

typedef struct ls_row {
    char *id, *source, *group, *model; /* owned; group: runs of one publisher and cluster */
    ls_row_metric metric;
    double value; /* measured, in the unit of the metric; 0: left blank */
    ls_plan_task task;
    ls_knobs layout;
    bool free_micro, free_virtual, free_recompute,
        free_zero;     /* the row leaves the knob open: ls_row_predict() chooses */
    bool with_context; /* memory is as nvidia-smi shows it, not the allocator */
    char reason[160];  /* why it cannot be predicted; empty: it can */
} ls_row;

typedef struct ls_rows {
    size_t count;
    ls_row *row;
} ls_rows;

/* Reads a file, or all files of a folder that end in .csv, in the order of their names; the caller frees *out with
 * ls_rows_free(). The message of LS_ERR_INPUT names the file, the line and the column. */
ls_status ls_rows_read(const char *path, ls_rows *out);
/* Parses a text likewise; `name` is for messages. */
ls_status ls_rows_parse(const char *name, const char *text, size_t bytes, ls_rows *out);
/* Frees the rows and their texts; zeros are fine. */
void ls_rows_free(ls_rows *rows);

/* Returns the measured value converted to seconds per step; for memory, to bytes. The row must have a value. */
double ls_row_measured(const ls_row *row);
/* Returns the predicted value to compare with it, in the same unit. */
double ls_row_predicted(const ls_row *row, const ls_prediction *p);
/* Predicts the row. Knobs that it leaves open are searched: the fastest layout that fits is chosen, or, if none fits,
 * the fastest. A layout counts as fitting if it needs up to 8 % more memory than there is, the error of predictions.
 * Only layouts that divide the batch are tried; if none does, the row's own layout is predicted. `chosen` receives the
 * layout and may be NULL; both outputs are unchanged on failure. LS_ERR_INPUT if row->reason says why the row cannot be
 * predicted. */
ls_status ls_row_predict(const ls_row *row, ls_knobs *chosen, ls_prediction *out);

#endif
