/* error_bands.c: looks up the errors of predictions, as `lockstep plan --fit` wrote them. */
#include "plan/published/error_bands.h"

#include <stddef.h>
#include <string.h>

static const ls_error_band rows[] = {
#include "plan/fitted/error_bands.inc"
};
enum { ROWS = sizeof rows / sizeof rows[0], ENOUGH = 10 };

const ls_error_band *ls_error_band_row(int i) { return i >= 0 && i < ROWS ? &rows[i] : NULL; }

/* Returns the mean error of the rows of a chip (NULL: of all), weighted by rows. */
static double mean_of(const char *chip, int *count) {
    double sum = 0;
    *count = 0;
    for (int i = 0; i < ROWS; i++) {
        if (chip && strcmp(rows[i].chip, chip) != 0) continue;
        sum += rows[i].rows * rows[i].mean;
        *count += rows[i].rows;
    }
    return *count > 0 ? sum / *count : 0;
}

double ls_error_band_all(void) {
    int count;
    return mean_of(NULL, &count);
}

double ls_error_band_of(const char *chip, int *count) {
    double mean = mean_of(chip, count), all = ls_error_band_all();
    return *count == 0 ? 2 * all : *count < ENOUGH ? all : mean;
}
