/* error_bands.c: the figures, as make validate-plan prints them. */
#include "plan/published/error_bands.h"

#include <stddef.h>
#include <string.h>

static const ls_error_band rows[] = {
    {"Megatron-LM 2020", "V100-32GB-SXM", 4, .021, -.008},
    {"Megatron-LM 2020", "A100-40GB-SXM", 8, .026, .020},
    {"MosaicML", "A100-40GB-SXM", 44, .057, -.049},
    {"Megatron-LM 2021 (SC21)", "A100-80GB-SXM", 22, .027, -.012},
    {"BLOOM", "A100-80GB-SXM", 52, .043, -.009},
    {"MosaicML", "A100-80GB-SXM", 22, .067, -.055},
    {"llm.c", "A100-80GB-SXM", 3, .087, .087},
    {"vTrain", "A100-80GB-SXM", 199, .095, .032},
    {"torchtitan", "A100-80GB-SXM", 8, .124, -.124},
    {"MT-NLG", "A100-80GB-SXM", 3, .208, -.208},
    {"Megatron-Core", "H100-80GB-SXM", 9, .043, .002},
    {"MosaicML", "H100-80GB-SXM", 48, .081, -.055},
    {"llm.c", "H100-80GB-SXM", 1, .169, .169},
    {"torchtitan", "H100-96GB-HBM2e-500W", 33, .065, -.010},
    {"torchtitan", "H200-141GB-SXM", 2, .070, -.070},
};
enum { ROWS = sizeof rows / sizeof rows[0], ENOUGH = 10 };

const ls_error_band *ls_error_band_row(int i) { return i >= 0 && i < ROWS ? &rows[i] : NULL; }

/* Of the rows of a chip; NULL: of all. */
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
