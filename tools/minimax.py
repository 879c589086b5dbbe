#!/usr/bin/env python3
"""minimax.py [NAME...]: the polynomials of the elementary functions (src/device/cpu/simd/math.h, src/numerics/elementary.c).

Each job is a function on an interval, a weight and a degree. Remez exchange on a fixed grid finds the polynomial with the
smallest weighted error; its coefficients are rounded to the format. Prints hex floats, lowest power first, and the largest weighted error as a power of two. Needs mpmath."""
import sys
from mpmath import mp, mpf, atanh, cos, erf, erfc, exp, ldexp, log, log1p, lu_solve, matrix, nint, pi, sin, sqrt, tanh

mp.dps = 50
GRID = 1500
HALF_LN2 = log(mpf(2)) / 2 * (1 + mpf(2) ** -12)


def rounded(x, bits):
    """x rounded to `bits` significant bits."""
    if x == 0:
        return x
    shift = bits - 1 - int(mp.floor(mp.log(abs(x), 2)))
    return ldexp(nint(ldexp(x, shift)), -shift)


def fit(points, values, weights, degree):
    """Coefficients that make the largest |weight * (value - polynomial)| smallest."""
    n = degree + 2
    last = len(points) - 1
    at = [int(nint(last * (1 - cos(pi * i / (n - 1))) / 2)) for i in range(n)]
    for _ in range(40):
        rows = [[points[i] ** j for j in range(degree + 1)] + [(-1) ** k / weights[i]] for k, i in enumerate(at)]
        solved = lu_solve(matrix(rows), matrix([values[i] for i in at]))
        c = [solved[j] for j in range(degree + 1)]
        error = [w * (v - mp.polyval(c[::-1], p)) for p, v, w in zip(points, values, weights)]
        peaks = []
        for i, e in enumerate(error):
            if peaks and (e > 0) == (error[peaks[-1]] > 0):
                if abs(e) > abs(error[peaks[-1]]):
                    peaks[-1] = i
            else:
                peaks.append(i)
        while len(peaks) > n:
            peaks.pop(0 if abs(error[peaks[0]]) < abs(error[peaks[-1]]) else -1)
        if len(peaks) < n or peaks == at:
            break
        at = peaks
    return c


def fit_rounded(f, weight, low, high, degree, bits):
    points = [low + (high - low) * (1 - cos(pi * (i + mpf(1) / 2) / GRID)) / 2 for i in range(GRID)]
    values, weights = [f(p) for p in points], [abs(weight(p)) for p in points]
    fixed = [rounded(c, bits) for c in fit(points, values, weights, degree)]
    worst = max(w * abs(v - mp.polyval(fixed[::-1], p)) for p, v, w in zip(points, values, weights))
    return fixed, worst


def odd(f):
    """f(x)/x as a function of s = x*x."""
    return lambda s: f(sqrt(s)) / sqrt(s)


SQUARE_PI_4 = (pi / 4 * (1 + mpf(2) ** -12)) ** 2
ATANH_SQUARE = ((sqrt(mpf(2)) - 1) / (sqrt(mpf(2)) + 1) * (1 + mpf(2) ** -12)) ** 2
ERF_CUT, TANH_CUT = mpf("0.875"), mpf("0.5625")
tanh_odd, sin_odd, erf_odd = odd(tanh), odd(sin), odd(erf)
atanh_odd = odd(lambda s: 2 * atanh(s))

# name: function, weight, interval, degree, bits of the format
JOBS = {
    # exp(r) = 1 + r + r^2 q(r)
    "exp": (lambda r: (exp(r) - 1 - r) / r**2, lambda r: r**2 / exp(r), -HALF_LN2, HALF_LN2, 4, 24),
    # log(1+f) = f + f^2 (-1/2 + f p(f))
    "log": (lambda f: (log1p(f) - f + f**2 / 2) / f**3, lambda f: f**3 / log1p(f), 1 / sqrt(mpf(2)) - 1, sqrt(mpf(2)) - 1, 7, 24),
    # tanh(x) = x + x s p(s)
    "tanh": (lambda s: (tanh_odd(s) - 1) / s, lambda s: s / tanh_odd(s), mpf(0), TANH_CUT**2, 4, 24),
    # erf(x) = x + x p(s)
    "erf_small": (lambda s: erf_odd(s) - 1, lambda s: 1 / erf_odd(s), mpf(0), ERF_CUT**2, 6, 24),
    # erf(x) = 1 - exp(-p(x))
    "erf_large": (lambda x: -log(erfc(x)), lambda x: erfc(x) / erf(x), ERF_CUT, mpf(4), 8, 24),
    # sin(r) = r + r s p(s);  cos(r) = 1 + s (-1/2 + s p(s))
    "sin": (lambda s: (sin_odd(s) - 1) / s, lambda s: s / sin_odd(s), mpf(0), SQUARE_PI_4, 3, 24),
    "cos": (lambda s: (cos(sqrt(s)) - 1 + s / 2) / s**2, lambda s: s**2 / cos(sqrt(s)), mpf(0), SQUARE_PI_4, 2, 24),
    # pow in float goes through double: log(m) = s (2 + z p(z)), s = (m-1)/(m+1), z = s^2;  2^f = 1 + f p(f)
    "pow_log": (lambda z: (atanh_odd(z) - 2) / z, lambda z: z / atanh_odd(z), mpf(0), ATANH_SQUARE, 5, 53),
    "pow_exp2": (lambda f: (mpf(2) ** f - 1) / f, lambda f: f / mpf(2) ** f, -mpf(1) / 2, mpf(1) / 2, 7, 53),
    # double
    "exp_f64": (lambda r: (exp(r) - 1 - r) / r**2, lambda r: r**2 / exp(r), -HALF_LN2, HALF_LN2, 10, 53),
    # log(m) = 2s + s z p(z), as above
    "log_f64": (lambda z: (atanh_odd(z) - 2) / z, lambda z: z / atanh_odd(z), mpf(0), ATANH_SQUARE, 7, 53),
    # the logarithm inside pow: log(m) = s (2 + z (2/3 + z p(z)))
    "log_tail_f64": (lambda z: (atanh_odd(z) - 2 - 2 * z / 3) / z**2, lambda z: z**2 / atanh_odd(z), mpf(0), ATANH_SQUARE, 8, 53),
    "tanh_f64": (lambda s: (tanh_odd(s) - 1) / s, lambda s: s / tanh_odd(s), mpf(0), TANH_CUT**2, 10, 53),
    "sin_f64": (lambda s: (sin_odd(s) - 1) / s, lambda s: s / sin_odd(s), mpf(0), SQUARE_PI_4, 6, 53),
    "cos_f64": (lambda s: (cos(sqrt(s)) - 1 + s / 2) / s**2, lambda s: s**2 / cos(sqrt(s)), mpf(0), SQUARE_PI_4, 5, 53),
}

for name in sys.argv[1:] or JOBS:
    coefficients, worst = fit_rounded(*JOBS[name])
    print(f"{name}: error 2^{float(mp.log(worst, 2)):.1f}")
    for power, c in enumerate(coefficients):
        print(f"    c{power} = {float(c).hex()}")
