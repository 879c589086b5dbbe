/* libnvrtc.c: a libnvrtc.so.13 for tests on machines without one, beside the libcuda that plays a GPU: what it
 * "compiles" is not looked at there.
 *
 * LS_NVRTC_GATE=FILE: to compile takes until the file exists. LS_NVRTC_COUNT=FILE: a line there for each program that
 * is compiled. LS_NVRTC_FAIL=1: nothing can be compiled; 2: the compiler crashes. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define API __attribute__((visibility("default"))) int
static const char image[] = "not a cubin";

API nvrtcVersion(int *major, int *minor);
API nvrtcCreateProgram(void **out, const char *text, const char *name, int headers, const char *const *header,
                       const char *const *header_name);
API nvrtcCompileProgram(void *program, int count, const char *const *flags);
API nvrtcGetCUBINSize(void *program, size_t *bytes);
API nvrtcGetCUBIN(void *program, char *out);
API nvrtcGetProgramLogSize(void *program, size_t *bytes);
API nvrtcGetProgramLog(void *program, char *out);
API nvrtcDestroyProgram(void **program);

int nvrtcVersion(int *major, int *minor) {
    *major = *minor = 0; /* no real one: nothing of it is found in a cache */
    return 0;
}
int nvrtcCreateProgram(void **out, const char *text, const char *name, int headers, const char *const *header,
                       const char *const *header_name) {
    (void)name, (void)headers, (void)header, (void)header_name;
    *out = (void *)1;
    return text && strstr(text, "LS_KERNEL") ? 0 : 1;
}
int nvrtcCompileProgram(void *program, int count, const char *const *flags) {
    const char *gate = getenv("LS_NVRTC_GATE"), *list = getenv("LS_NVRTC_COUNT"), *fails = getenv("LS_NVRTC_FAIL");
    FILE *file = list ? fopen(list, "a") : NULL;
    (void)program, (void)count, (void)flags;
    while (gate && access(gate, F_OK) != 0) (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    if (file) {
        (void)fputs("compiled\n", file);
        (void)fclose(file);
    }
    if (fails && *fails == '2') abort();
    return fails != NULL;
}
int nvrtcGetCUBINSize(void *program, size_t *bytes) {
    (void)program;
    *bytes = sizeof image;
    return 0;
}
int nvrtcGetCUBIN(void *program, char *out) {
    (void)program;
    memcpy(out, image, sizeof image);
    return 0;
}
int nvrtcGetProgramLogSize(void *program, size_t *bytes) {
    (void)program;
    *bytes = 0;
    return 0;
}
int nvrtcGetProgramLog(void *program, char *out) {
    (void)program;
    *out = '\0';
    return 0;
}
int nvrtcDestroyProgram(void **program) {
    *program = NULL;
    return 0;
}
