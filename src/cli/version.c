/* version.c: --version: what was built, by what, with which libraries, and what this machine offers. The versions of
 * libraries are those at compile time, since MPI may not be asked before it is started. */
#include "cli/cli.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/cpu.h"
#include "device/cuda/cuda.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define DOTTED(major, minor, rest) TEXT(major) "." TEXT(minor) "." TEXT(rest)

#ifdef __clang__
#    define COMPILER "clang " __clang_version__
#else
#    define COMPILER "gcc " __VERSION__
#endif

#ifdef LS_HAVE_YAML
#    include <yaml.h>
#    define YAML yaml_get_version_string()
#else
#    define YAML "no (config files in JSON only)"
#endif

#ifdef LS_HAVE_PCRE2
#    define PCRE2_CODE_UNIT_WIDTH 8
#    include <pcre2.h>
#    define PCRE2 TEXT(PCRE2_MAJOR) "." TEXT(PCRE2_MINOR)
#else
#    define PCRE2 "no (only tokenizers with the patterns of GPT-2 and Llama 3)"
#endif

#ifdef LS_HAVE_HWLOC
#    include <hwloc.h>
#    define HWLOC hwloc
#else
#    define HWLOC "no (workers are pinned by the affinity mask)"
#endif

#ifdef LS_HAVE_ZLIB
#    include <zlib.h>
#    define ZLIB ZLIB_VERSION
#else
#    define ZLIB "no (no compressed images)"
#endif

#ifdef LS_HAVE_PNG
#    include <png.h>
#    define PNG PNG_LIBPNG_VER_STRING
#else
#    define PNG "no (only PPM and PGM pictures)"
#endif

#ifdef LS_HAVE_MICROHTTPD
#    include <microhttpd.h>
#    define HTTP MHD_get_version()
#else
#    define HTTP "no (no live page)"
#endif

#ifdef LS_HAVE_MPI
#    include <mpi.h>
#endif
#if defined LS_HAVE_MPI && defined OMPI_MAJOR_VERSION
#    define MPI "Open MPI " DOTTED(OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION)
#elif defined LS_HAVE_MPI && defined MPICH_VERSION
#    define MPI "MPICH " MPICH_VERSION
#elif defined LS_HAVE_MPI
#    define MPI "standard " TEXT(MPI_VERSION) "." TEXT(MPI_SUBVERSION)
#else
#    define MPI "no (one machine only)"
#endif

/* Writes the driver, each GPU with the state of its kernels, and cuBLASLt; or why there is no GPU. */
static void write_gpus(FILE *out) {
    static const char *const kernels[] = {[LS_GPU_KERNELS_NONE] = "no kernels: build with nvcc, or install NVRTC",
                                          [LS_GPU_KERNELS_BUILT_IN] = "kernels built in",
                                          [LS_GPU_KERNELS_NVRTC] = "kernels compiled by NVRTC on first use"};
    ls_gpu_survey survey;
    ls_status status = ls_cuda_survey(0, &survey);
    if (survey.driver)
        fprintf(out, "driver     NVIDIA, for CUDA %d.%d\n", survey.driver / 1000, survey.driver % 1000 / 10);
    if (status != LS_OK) {
        fprintf(out, "GPU        none (%s)\n", ls_status_message());
        return;
    }
    for (int i = 0; i < survey.count && i < LS_GPUS_LISTED; i++) {
        const ls_gpu *gpu = &survey.gpu[i];
        fprintf(out, "GPU %-6d %s, compute capability %d.%d, matrix unit %s, %.1f GiB; %s%s%d\n", i, gpu->name,
                gpu->capability / 10, gpu->capability % 10, ls_unit_name(ls_cuda_unit_of(gpu->capability)),
                (double)gpu->bytes / 0x1p30, kernels[gpu->kernels],
                gpu->kernels == LS_GPU_KERNELS_NONE ? ", sm_" : " for sm_", gpu->capability);
    }
    fprintf(out, "cuBLASLt   %s\n", ls_cuda_cublaslt());
}

enum { LIBRARIES = 10 };

typedef struct library {
    const char *name, *version;
} library;

/* Fills the list with the compiler, first, and each library's version, or "no (…)" for one that is not built in. */
static void list_libraries(library list[LIBRARIES]) {
#ifdef LS_HAVE_HWLOC
    static char hwloc[32];
    snprintf(hwloc, sizeof hwloc, "%d.%d.%d", HWLOC_API_VERSION >> 16, HWLOC_API_VERSION >> 8 & 0xff,
             HWLOC_API_VERSION & 0xff);
#endif
    const library all[LIBRARIES] = {{"compiler", COMPILER},
                                    {"jansson", JANSSON_VERSION},
                                    {"xxhash", DOTTED(XXH_VERSION_MAJOR, XXH_VERSION_MINOR, XXH_VERSION_RELEASE)},
                                    {"libyaml", YAML},
                                    {"PCRE2", PCRE2},
                                    {"hwloc", HWLOC},
                                    {"zlib", ZLIB},
                                    {"libpng", PNG},
                                    {"microhttpd", HTTP},
                                    {"MPI", MPI}};
    memcpy(list, all, sizeof all);
}

void ls_cli_write_version(FILE *out) {
    library libraries[LIBRARIES];
    list_libraries(libraries);
    fprintf(out, "lockstep %s\n", LS_VERSION);
    for (size_t i = 0; i < LIBRARIES; i++) fprintf(out, "%-10s %s\n", libraries[i].name, libraries[i].version);
    fprintf(out, "machine    %s, %d cores\nISAs      ", ls_cpu_detect()->model, ls_cpu_count());
    for (ls_isa isa = 0; isa < LS_ISA_COUNT; isa++) {
        if (ls_cpu_use(isa)) fprintf(out, " %s", ls_isa_name(isa));
    }
    fputc('\n', out);
    fprintf(out, "cubins     %s\n", ls_cuda_built_in());
    write_gpus(out);
}

/* Returns an object of library versions, with null for libraries that are not built in. The caller owns it. */
static json_t *libraries_json(void) {
    library libraries[LIBRARIES];
    json_t *json = json_object();
    list_libraries(libraries);
    for (size_t i = 1; i < LIBRARIES; i++) {
        bool is_in = strncmp(libraries[i].version, "no (", 4) != 0;
        (void)json_object_set_new(json, libraries[i].name, is_in ? json_string(libraries[i].version) : json_null());
    }
    return json;
}

/* Returns a list of the machine's GPUs, empty if there are none. The caller owns it. */
static json_t *gpus_json(void) {
    ls_gpu_survey survey;
    json_t *list = json_array();
    if (ls_cuda_survey(0, &survey) != LS_OK) return list;
    for (int i = 0; i < survey.count && i < LS_GPUS_LISTED; i++) {
        const ls_gpu *gpu = &survey.gpu[i];
        (void)json_array_append_new(list, json_pack("{s:s, s:i, s:I}", "name", gpu->name, "capability", gpu->capability,
                                                    "bytes", (json_int_t)gpu->bytes));
    }
    return list;
}

void ls_cli_write_version_json(FILE *out) {
    json_t *isas = json_array();
    for (ls_isa isa = 0; isa < LS_ISA_COUNT; isa++)
        if (ls_cpu_use(isa)) (void)json_array_append_new(isas, json_string(ls_isa_name(isa)));
    json_t *json = json_pack("{s:s, s:s, s:o, s:s, s:i, s:o, s:s, s:o}", "version", LS_VERSION, "compiler", COMPILER,
                             "libraries", libraries_json(), "machine", ls_cpu_detect()->model, "cores", ls_cpu_count(),
                             "isas", isas, "cubins", ls_cuda_built_in(), "gpus", gpus_json());
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    if (text) fprintf(out, "%s\n", text);
    free(text);
    json_decref(json);
}
