/* overlap.c: which part of reductions and gathers overlaps with computing on GPUs. */
#include "plan/native/overlap.h"

ls_native_run ls_native_run_of(const ls_layout *layout, const ls_action *action, int stage) {
    int number = action->chunk * layout->pp + stage;
    ls_native_run run = {layout->chunk_first[number], layout->chunk_first[number + 1] - 1, false};
    if (number < ls_layout_chunks(layout) - 1) return run;
    run.has_head = action->kind != LS_ACTION_BACKWARD_WEIGHTS;
    run.last -= !run.has_head;
    return run;
}

/* Counts a tied table once for each of its uses, because they are reduced separately. */
double ls_native_grad_elems(const ls_model *model, int block) {
    ls_block *b = &model->blocks[block];
    double elems = 0;
    for (int i = 0; i < b->nparams; i++)
        elems += (double)ls_grad_rows_elems(ls_param_grad_rows(&b->param[i], model->S, 0, model->S, false));
    return ls_block_borrows_table(b) ? elems + (double)ls_param_local_elems(b->table) : elems;
}

bool ls_native_makes(ls_action_kind kind, const ls_native_run *run, int block) {
    if (kind == LS_ACTION_BACKWARD_INPUT) return run->has_head && block == run->last;
    return kind != LS_ACTION_FORWARD;
}

double ls_native_reduce_end(const ls_layout *layout, const ls_schedule *schedule, int stage,
                            const ls_micro_list *micros, const ls_native_grads *grads, double seconds,
                            const double *begin, const double *end) {
    const ls_action *actions = schedule->actions[stage];
    const bool in_rounds = layout->zero >= 2;
    double all = 0, now = 0;
    for (int c = 0; c < layout->virtual_stages; c++)
        for (int b = layout->chunk_first[c * layout->pp + stage]; b < layout->chunk_first[c * layout->pp + stage + 1];
             b++)
            all += grads->elems[b] * (in_rounds ? micros->rounds : 1);
    for (int i = 0; i < schedule->count[stage] && all > 0; i++) {
        const ls_native_run run = ls_native_run_of(layout, &actions[i], stage);
        bool ends = in_rounds ? micros->micro[actions[i].micro].ends_round : actions[i].micro == micros->count - 1;
        for (int b = run.last; ends && b >= run.first; b--) {
            double made = begin[i] + grads->made[b] * (end[i] - begin[i]);
            if (!ls_native_makes(actions[i].kind, &run, b)) continue;
            now = (made > now ? made : now) + seconds * grads->elems[b] / all;
        }
    }
    return now;
}

double ls_native_gather_seen(int blocks, double gather, double work) {
    double each = gather / blocks, left = gather - each, hidden = work - work / blocks;
    return each + (left > hidden ? left - hidden : 0);
}
