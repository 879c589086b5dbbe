/* elementary.h: exp, log, sin, cos, tanh and pow in double, for all host code that needs the same result on every
 * machine: learning-rate schedules, rotary tables, scales of attention and of initial values, sampling of text, guards,
 * the planner and reports. Kernels have fp32 versions of their own (device/cpu/simd/math.h).
 *
 * Unlike libm, which differs between systems, they return the same bits everywhere, because they use only IEEE
 * operations and explicit fma. Formulas and errors are in docs/reference/arithmetic.md. Every NaN result is
 * 0x7FF8000000000000.
 *
 * They have no state, so any thread may call them. */
#ifndef LS_NUMERICS_ELEMENTARY_H
#define LS_NUMERICS_ELEMENTARY_H

/* Returns e^x. Subnormal results are kept. */
double ls_exp_f64(double x);
/* Returns the natural logarithm: NaN below zero, -inf of either zero. */
double ls_log_f64(double x);
/* Returns the sine of x radians, however large a finite x is; NaN of infinities; it keeps -0. */
double ls_sin_f64(double x);
/* Returns the cosine of x radians, however large a finite x is; NaN of infinities. */
double ls_cos_f64(double x);
/* Returns the hyperbolic tangent; it keeps -0. */
double ls_tanh_f64(double x);
/* Returns x^y for x >= 0, either zero being zero; NaN below zero. x^0 and 1^y are 1, whatever the other is, even NaN.
 */
double ls_pow_f64(double x, double y);

#endif
