/* calls.h: copies of calls that outlive the caller's: for this folder only. */
#ifndef LS_FAKE_CALLS_H
#define LS_FAKE_CALLS_H

#include "device/ops.h"

/* What a copy needs: where the queue finds memory of the device, and the owner of copied lists. */
typedef struct ls_fake_copier {
    void *(*translate)(const void *memory, const void *pointer);
    void *(*keep)(void *keeper, const void *host, size_t bytes); /* a copy; NULL for NULL */
    const void *memory;
    void *keeper;
} ls_fake_copier;

/* The operations of the list in ops.h, numbered. */
typedef enum ls_fake_op {
#define LS_FAKE_OP(name, call_type) LS_FAKE_##name,
    LS_OPS(LS_FAKE_OP)
#undef LS_FAKE_OP
        LS_FAKE_OPS
} ls_fake_op;

/* Makes *call, a plain copy, the queue's own: pointers to tensors are translated, lists of the host are kept. */
void ls_fake_own(ls_fake_op op, void *call, const ls_fake_copier *copier);
ls_status ls_fake_run(ls_fake_op op, ls_device *cpu, const void *call);

#endif
