/* args.h: macros that declare the arguments of an operation once, as a list.
 *
 * LS_ARGS_type(X) is an X-macro: it lists the arguments of struct `type` (calls.h). The list generates the struct, the
 * deep copy of a call for a device that runs it later (tests/fake/calls.c), the functions that move a call to later
 * rows (calls.c), and the parameters of GPU kernels (cuda/ops/take.h). So a new argument is one line, and code that
 * would lose it does not compile.
 *
 *     X(SIZE, name)                     how much there is: rows, columns, elements (size_t)
 *     X(STRIDE, name)                   elements from one row, or head, to the next (size_t)
 *     X(VALUE, type, name)              a number, a flag, or a struct without tensors
 *     X(DROP, name)                     what dropout drops (ls_drop)
 *     X(IN, type, name, step)           a tensor that is only read
 *     X(OUT, type, name, step)          a tensor that an operation with this call writes; others may read it
 *     X(IN_AS, dtype, name, step)       such tensors, whose element type the call names
 *     X(OUT_AS, dtype, name, step)
 *     X(INS, type, name, most, count)   an array of `most` tensors, of which `count` are there
 *     X(OUTS, type, name, most, count)
 *     X(TENSORS, type, name, count)     a host list of tensors that are read
 *     X(LIST, type, name, count)        a host list of values
 *     X(PIECES, type, name, count)      a host list of structs that have a list of arguments of their own
 *     X(STRUCT, type, name)             such a struct inside this one
 *
 * `step` is how many elements are from one row of the call to the next, LS_WHOLE where rows do not divide the tensor.
 * dtype, step and count are expressions, in which the call is `c`. A tensor or a host list may be NULL. */
#ifndef LS_DEVICE_ARGS_H
#define LS_DEVICE_ARGS_H

#include <stddef.h>

enum { LS_WHOLE = 0 }; /* the step of a tensor without rows of the call, such as a weight: all rows share it */

/* Expand one line of a list to the declaration of a member of the struct. */
#define LS_ARG_MEMBER(kind, ...) LS_ARG_MEMBER_##kind(__VA_ARGS__)
#define LS_ARG_MEMBER_SIZE(name) size_t name;
#define LS_ARG_MEMBER_STRIDE(name) size_t name;
#define LS_ARG_MEMBER_VALUE(type, name) type name;
#define LS_ARG_MEMBER_DROP(name) ls_drop name;
#define LS_ARG_MEMBER_IN(type, name, step) const type *name;
#define LS_ARG_MEMBER_OUT(type, name, step) type *name;
#define LS_ARG_MEMBER_IN_AS(dtype, name, step) const void *name;
#define LS_ARG_MEMBER_OUT_AS(dtype, name, step) void *name;
#define LS_ARG_MEMBER_INS(type, name, most, count) const type *name[most];
#define LS_ARG_MEMBER_OUTS(type, name, most, count) type *name[most];
#define LS_ARG_MEMBER_TENSORS(type, name, count) const type *const *name;
#define LS_ARG_MEMBER_LIST(type, name, count) const type *name;
#define LS_ARG_MEMBER_PIECES(type, name, count) const type *name;
#define LS_ARG_MEMBER_STRUCT(type, name) type name;

/* Defines the struct `type` of the arguments LS_ARGS_type. */
#define LS_DECLARE_ARGS(type)                                                                                          \
    typedef struct type {                                                                                              \
        LS_ARGS_##type(LS_ARG_MEMBER)                                                                                  \
    } type

/* Fails to compile when `type` has more or fewer arguments than here: stands before code that handles them one by one,
 * which must then be reviewed. */
#define LS_ARG_ONE(...) +1
#define LS_ASSERT_ARGS(type, arguments)                                                                                \
    _Static_assert(0 LS_ARGS_##type(LS_ARG_ONE) == (arguments), "handle the new argument of " #type " here")

#endif
