/* take.h: macros that copy the arguments of a call (the lists LS_ARGS_ of device/calls.h) to those of a kernel; for the
 * host code in ops/.
 *
 * The struct that a kernel takes (args/) has the arguments of the call under their own names, and its sizes in a part
 * that says how they are divided among threads (ls_cuda_flat, ls_cuda_rows). An argument that the struct lacks does not
 * compile. */
#ifndef LS_DEVICE_CUDA_OPS_TAKE_H
#define LS_DEVICE_CUDA_OPS_TAKE_H

#include "device/cuda/ops/drop.h"
#include "device/cuda/ops/pack.h"

/* Copies the call *c of this type to `args`, and its sizes to `part` of it. The code around it has both variables. */
#define LS_CUDA_TAKE(type, part)                                                                                       \
    do {                                                                                                               \
        __typeof__(part) *sizes = &(part);                                                                             \
        LS_ARGS_##type(LS_CUDA_TAKE_ARG)                                                                               \
    } while (0)

#define LS_CUDA_TAKE_ARG(kind, ...) LS_CUDA_TAKE_##kind(__VA_ARGS__)
#define LS_CUDA_TAKE_SIZE(name) sizes->name = c->name;
#define LS_CUDA_TAKE_STRIDE(name) args.name = c->name;
#define LS_CUDA_TAKE_VALUE(type, name) args.name = (__typeof__(args.name))c->name;
#define LS_CUDA_TAKE_DROP(name) args.name = ls_cuda_drop_of(&c->name);
#define LS_CUDA_TAKE_IN(type, name, step) args.name = c->name;
#define LS_CUDA_TAKE_OUT LS_CUDA_TAKE_IN
#define LS_CUDA_TAKE_IN_AS LS_CUDA_TAKE_IN
#define LS_CUDA_TAKE_OUT_AS LS_CUDA_TAKE_IN

/* Evaluates to whether every tensor of the call *c allows loads of the variable `width` elements (ls_cuda_fits). */
#define LS_CUDA_FITS(type) (true LS_ARGS_##type(LS_CUDA_FITS_ARG))

#define LS_CUDA_FITS_ARG(kind, ...) LS_CUDA_FITS_##kind(__VA_ARGS__)
#define LS_CUDA_FITS_SIZE(name)
#define LS_CUDA_FITS_STRIDE(name)
#define LS_CUDA_FITS_VALUE(type, name)
#define LS_CUDA_FITS_DROP(name)
#define LS_CUDA_FITS_IN(type, name, step) &&ls_cuda_fits(c->name, LS_F32, step, width)
#define LS_CUDA_FITS_OUT LS_CUDA_FITS_IN
#define LS_CUDA_FITS_IN_AS(dtype, name, step) &&ls_cuda_fits(c->name, dtype, step, width)
#define LS_CUDA_FITS_OUT_AS LS_CUDA_FITS_IN_AS

#endif
