/* init.h: initial values of parameters and tables that follow from a shape. Host memory; the same on every machine. */
#ifndef LS_NN_INIT_H
#define LS_NN_INIT_H

#include "nn/param.h"
#include "nn/shape.h"

/* Canonical elements first … first + count − 1 of the parameter. */
void ls_init_param(const ls_param *param, uint64_t seed, size_t first, size_t count, float *out);

/* Tables [T][head size / 2] of the rotary embedding. */
void ls_init_rope(const ls_shape *shape, size_t T, float *cos, float *sin);

#endif
