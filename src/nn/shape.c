/* shape.c: the families of models, from their table. */
#include "nn/shape.h"

const ls_family ls_families[LS_ARCH_COUNT] = {
#define LS_FAMILY(ID, NAME, ...) [LS_ARCH_##ID] = {.name = NAME, __VA_ARGS__},
#include "nn/families.def"
};
