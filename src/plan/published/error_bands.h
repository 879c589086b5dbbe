/* error_bands.h: how far predicted step times were from published runs, by source and chip. The planner reports its own
 * error from this table. `lockstep plan --validate FILE --json` has the figures; docs/log/performance.md their
 * origin. */
#ifndef LS_PLAN_PUBLISHED_ERROR_BANDS_H
#define LS_PLAN_PUBLISHED_ERROR_BANDS_H

typedef struct ls_error_band {
    const char *source, *chip; /* the chip's name in the table of chips */
    int rows;                  /* runs that were compared */
    double mean, bias;         /* of |predicted/measured − 1|, and of predicted/measured − 1 */
} ls_error_band;

/* Returns row i; NULL after the last. */
const ls_error_band *ls_error_band_row(int i);
/* Returns the mean error of all rows, as a share. */
double ls_error_band_all(void);
/* Returns the error to expect for a chip, as a share: the mean of its rows if there are at least 10, else that of all
 * rows; twice that without any row, about the error for sources outside the fit. *rows: rows of this chip. */
double ls_error_band_of(const char *chip, int *rows);

#endif
