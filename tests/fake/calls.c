/* calls.c: copies of calls: tensors of the device are translated, lists of the host copied, by the lists of arguments.
 */
#include "calls.h"

#include <string.h>

/* A member is a pointer of any type, so it is read and written as bytes. */
static void own_tensor(const ls_fake_copier *copier, void *member) {
    void *pointer;
    memcpy(&pointer, member, sizeof pointer);
    pointer = copier->translate(copier->memory, pointer);
    memcpy(member, &pointer, sizeof pointer);
}

/* Returns the copy, for what its elements point to; NULL: there is no list. */
static void *own_list(const ls_fake_copier *copier, void *member, size_t bytes) {
    void *pointer;
    memcpy(&pointer, member, sizeof pointer);
    pointer = copier->keep(copier->keeper, pointer, bytes);
    memcpy(member, &pointer, sizeof pointer);
    return pointer;
}

#define OWN(kind, ...) OWN_##kind(__VA_ARGS__)
#define OWN_SIZE(name)
#define OWN_STRIDE(name)
#define OWN_VALUE(type, name)
#define OWN_DROP(name)
#define OWN_IN(type, name, step) own_tensor(copier, &c->name);
#define OWN_OUT OWN_IN
#define OWN_IN_AS OWN_IN
#define OWN_OUT_AS OWN_IN
#define OWN_INS(type, name, most, count)                                                                               \
    for (int i = 0; i < (count); i++) own_tensor(copier, &c->name[i]);
#define OWN_OUTS OWN_INS
#define OWN_TENSORS(type, name, count)                                                                                 \
    {                                                                                                                  \
        const type **own = own_list(copier, &c->name, (count) * sizeof *own);                                          \
        for (size_t i = 0; own && i < (count); i++) own_tensor(copier, &own[i]);                                       \
    }
#define OWN_LIST(type, name, count) (void)own_list(copier, &c->name, (count) * sizeof *c->name);
#define OWN_PIECES(type, name, count)                                                                                  \
    {                                                                                                                  \
        type *own = own_list(copier, &c->name, (count) * sizeof *own);                                                 \
        for (size_t i = 0; own && i < (count); i++) own_##type(copier, &own[i]);                                       \
    }
#define OWN_STRUCT(type, name) own_##type(copier, &c->name);

#define OWN_CALL(type)                                                                                                 \
    static void own_##type(const ls_fake_copier *copier, type *c) { LS_ARGS_##type(OWN) }
LS_CALLS(OWN_CALL)

void ls_fake_own(ls_fake_op op, void *call, const ls_fake_copier *copier) {
    switch (op) {
#define OWN_OP(name, call_type)                                                                                        \
    case LS_FAKE_##name: own_##call_type(copier, call); break;
        LS_OPS(OWN_OP)
#undef OWN_OP
    case LS_FAKE_OPS: break;
    }
}

ls_status ls_fake_run(ls_fake_op op, ls_device *cpu, const void *call) {
    switch (op) {
#define RUN(name, call_type)                                                                                           \
    case LS_FAKE_##name: return cpu->ops->name(cpu, call);
        LS_OPS(RUN)
#undef RUN
    case LS_FAKE_OPS: break;
    }
    return LS_OK;
}
