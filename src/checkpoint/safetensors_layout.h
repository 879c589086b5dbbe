/* safetensors_layout.h: where everything lies in a safetensors file that is to be written; for this folder only.
 *
 *     |length| JSON header, spaces |tensor 0|tensor 1| … |
 *     0      8                     begin[0] begin[1]     begin[count] = the whole file; begin[0] is a multiple of 64 */
#ifndef LS_CHECKPOINT_SAFETENSORS_LAYOUT_H
#define LS_CHECKPOINT_SAFETENSORS_LAYOUT_H

#include "checkpoint/safetensors_writer.h"

typedef struct ls_safetensors_layout {
    char *header; /* begin[0] bytes, the length among them */
    size_t *begin;
    unsigned char *elem_bytes;
    char **names;
    int count;
} ls_safetensors_layout;

/* LS_ERR_INPUT for a plan that cannot be; then nothing is left to release. */
ls_status ls_safetensors_layout_init(ls_safetensors_layout *layout, const ls_safetensors_plan *plan);
/* A zeroed layout is fine. */
void ls_safetensors_layout_fini(ls_safetensors_layout *layout);

static inline size_t ls_safetensors_layout_bytes(const ls_safetensors_layout *layout, int tensor) {
    return layout->begin[tensor + 1] - layout->begin[tensor];
}

#endif
