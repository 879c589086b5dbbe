/* version.c: --version: what was built, by what, with which libraries, and what this machine offers. The versions of
 * libraries are those at compile time, since MPI may not be asked before it is started. */
#include "cli/cli.h"

#include <jansson.h>
#include <xxhash.h>
#ifdef LS_HAVE_YAML
#    include <yaml.h>
#endif
#ifdef LS_HAVE_PCRE2
#    define PCRE2_CODE_UNIT_WIDTH 8
#    include <pcre2.h>
#endif
#ifdef LS_HAVE_HWLOC
#    include <hwloc.h>
#endif
#ifdef LS_HAVE_ZLIB
#    include <zlib.h>
#endif
#ifdef LS_HAVE_PNG
#    include <png.h>
#endif
#ifdef LS_HAVE_MPI
#    include <mpi.h>
#endif

#include "base/cpu.h"

static void write_compiler(FILE *out) {
#ifdef __clang__
    fprintf(out, "compiler   clang %s\n", __clang_version__);
#else
    fprintf(out, "compiler   gcc %s\n", __VERSION__);
#endif
}

static void write_yaml(FILE *out) {
#ifdef LS_HAVE_YAML
    fprintf(out, "libyaml    %s\n", yaml_get_version_string());
#else
    fprintf(out, "libyaml    no (config files in JSON only)\n");
#endif
}

static void write_pcre2(FILE *out) {
#ifdef LS_HAVE_PCRE2
    fprintf(out, "PCRE2      %d.%d\n", PCRE2_MAJOR, PCRE2_MINOR);
#else
    fprintf(out, "PCRE2      no (only tokenizers with the patterns of GPT-2 and Llama 3)\n");
#endif
}

static void write_hwloc(FILE *out) {
#ifdef LS_HAVE_HWLOC
    fprintf(out, "hwloc      %d.%d.%d\n", HWLOC_API_VERSION >> 16, HWLOC_API_VERSION >> 8 & 0xff,
            HWLOC_API_VERSION & 0xff);
#else
    fprintf(out, "hwloc      no (workers are pinned by the affinity mask)\n");
#endif
}

static void write_zlib(FILE *out) {
#ifdef LS_HAVE_ZLIB
    fprintf(out, "zlib       %s\n", ZLIB_VERSION);
#else
    fprintf(out, "zlib       no (no compressed images)\n");
#endif
}

static void write_png(FILE *out) {
#ifdef LS_HAVE_PNG
    fprintf(out, "libpng     %s\n", PNG_LIBPNG_VER_STRING);
#else
    fprintf(out, "libpng     no (only PPM and PGM pictures)\n");
#endif
}

static void write_mpi(FILE *out) {
#if defined LS_HAVE_MPI && defined OMPI_MAJOR_VERSION
    fprintf(out, "MPI        Open MPI %d.%d.%d\n", OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION);
#elif defined LS_HAVE_MPI && defined MPICH_VERSION
    fprintf(out, "MPI        MPICH %s\n", MPICH_VERSION);
#elif defined LS_HAVE_MPI
    fprintf(out, "MPI        standard %d.%d\n", MPI_VERSION, MPI_SUBVERSION);
#else
    fprintf(out, "MPI        no (one machine only)\n");
#endif
}

static void write_machine(FILE *out) {
    fprintf(out, "machine    %s, %d cores\nISAs      ", ls_cpu_detect()->model, ls_cpu_count());
    for (ls_isa isa = 0; isa < LS_ISA_COUNT; isa++) {
        if (ls_cpu_use(isa)) fprintf(out, " %s", ls_isa_name(isa));
    }
    fputc('\n', out);
}

void ls_cli_write_version(FILE *out) {
    fprintf(out, "lockstep %s\n", LS_VERSION);
    write_compiler(out);
    fprintf(out, "jansson    %s\n", JANSSON_VERSION);
    fprintf(out, "xxhash     %d.%d.%d\n", XXH_VERSION_MAJOR, XXH_VERSION_MINOR, XXH_VERSION_RELEASE);
    write_yaml(out);
    write_pcre2(out);
    write_hwloc(out);
    write_zlib(out);
    write_png(out);
    write_mpi(out);
    write_machine(out);
}
