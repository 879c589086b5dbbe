/* error_bands.h: how far predicted step times were from published runs, by source and chip: what the planner says about
 * its own errors. `lockstep plan --validate FILE --json` has the figures; docs/log/performance.md says what they rest
 * on.
 */
#ifndef LS_PLAN_PUBLISHED_ERROR_BANDS_H
#define LS_PLAN_PUBLISHED_ERROR_BANDS_H

typedef struct ls_error_band {
    const char *source, *chip; /* the chip's name in the table of chips */
    int rows;
    double mean, bias; /* of |predicted/measured − 1|, and of predicted/measured − 1 */
} ls_error_band;

/* NULL behind the last. */
const ls_error_band *ls_error_band_row(int i);
/* Of all rows. */
double ls_error_band_all(void);
/* What to expect of a chip: the mean of its rows, where there are enough of them, or of all. Without a measured run
 * twice that: about as far as sources are off that the constants were not set with. *rows: of this chip. */
double ls_error_band_of(const char *chip, int *rows);

#endif
