/* elementary.h: elementary functions in double, for schedules, position tables and initialisation.
 *
 * The system's libm differs between systems; these give the same bits everywhere. They use IEEE operations and explicit
 * fma only. Formulas and errors are in docs/reference/arithmetic.md. A NaN that comes out is 0x7FF8000000000000.
 *
 * Any thread may call them; they keep nothing. */
#ifndef LS_NUMERICS_ELEMENTARY_H
#define LS_NUMERICS_ELEMENTARY_H

/* Subnormal results are kept. */
double ls_exp_f64(double x);
/* NaN below zero, -inf of either zero. */
double ls_log_f64(double x);
/* Any finite x, however large; NaN of infinities. */
double ls_sin_f64(double x);
double ls_cos_f64(double x);
double ls_tanh_f64(double x);
/* x^y for x >= 0, either zero being zero; NaN below zero. x^0 and 1^y are 1, whatever the other is. */
double ls_pow_f64(double x, double y);

#endif
