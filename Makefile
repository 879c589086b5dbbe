# lockstep: `make` builds ./lockstep and liblockstep.a with what is installed; `make help` lists the targets.
#
# Variables: CC, BUILD (folder of the outputs), MPI=auto|no|<pkg-config name>, CUDA=auto|no|<folder of the toolkit>, CUDA_SMS="80 90" (architectures of
#            GPUs that nvcc compiles kernels for; left out: those of this machine's GPUs), SANITIZE=address,undefined, STRIP (of installed files),
#            WERROR=1, PREFIX and DESTDIR (install), TEST_DATA (folder of data files that some tests use),
#            TEST_OPT and TEST_LDFLAGS (of test programs; `make programs TEST_OPT='-O0 -g' TEST_LDFLAGS=` for a debugger).

CC       ?= cc
BUILD    ?= build
MPI      ?= auto
CUDA     ?= auto
# no: tests build without their libcuda, which emulates a GPU on the CPU.
CUDA_TESTS ?= yes
PREFIX   ?= /usr/local
PKG      ?= pkg-config
STRIP    ?= strip
MACHINE  := $(shell uname -m)
MAKEFLAGS += --no-print-directory
# Prints one short line for each file; V=1 shows the commands.
Q   := $(if $(V),,@)
say = $(if $(V),,@echo '  [$(count)]  $(1)  $(2)')
# "12/640": lines printed so far and in total. `make -n` counts the total when the first line is printed.
count = $(eval lines_said := $(lines_said) x)$(words $(lines_said))/$(lines_of_all)
lines_of_all = $(eval lines_of_all := $(shell MAKEFLAGS= $(MAKE) -n COUNTING=yes $(MAKEOVERRIDES) $(MAKECMDGOALS) 2>/dev/null | grep -c '^: a line'))$(lines_of_all)
ifdef COUNTING
say = @: a line
endif

.DEFAULT_GOAL := all
# The peer that a benchmark compares with: PEER=yes installs it, PEER=installed takes it where it is installed, PEER=no measures lockstep alone.
PEER ?= yes
PEER_PARTS = $(if $(filter yes,$(PEER)),$(1),bench)
# Measured runs for the planner: a file, or a folder of files.
RUNS ?=
# Targets in two steps, "target:part". The target needs no compiler and no library: it installs the part (tools/setup), then starts a make for
# target-run, which builds and runs.
TWO_STEPS := demo:build verify-all:build docs-plan:build bench-plan-search:build $(if $(RUNS),validate-plan:build fit-plan:build) \
             test:test test-long:test test-faults-count:test test-flips:test test-chaos:test test-slurm:slurm test-parity:parity fuzz:ci \
             bench-smoke:bench bench-recovery:bench bench-overhead:bench bench-goodput:bench bench-resume:bench bench-save:bench \
             bench-gpu:python bench-live:python bench-plan:python docs-pictures:python experiment-ratio:python experiment-precision:parity \
             bench-comm:$(call PEER_PARTS,bench-comm) bench-gemm:$(call PEER_PARTS,bench-gemm) \
             $(foreach name,train scale precision vision,bench-$(name):$(call PEER_PARTS,parity))
STARTED := $(foreach pair,$(TWO_STEPS),$(firstword $(subst :, ,$(pair))))
# Goals for which this make looks for no library.
BARE_GOALS := $(STARTED) validate-plan fit-plan setup test-mutations fresh dist clean help format check-format check-words ci
BARE := $(if $(MAKECMDGOALS),$(if $(filter-out $(BARE_GOALS),$(MAKECMDGOALS)),,yes))

# ---- libraries ---------------------------------------------------------------------------------------------------------

ifndef BARE
have = $(shell $(PKG) --exists $(1) 2>/dev/null && echo yes)
ifeq ($(shell command -v $(PKG) 2>/dev/null),)
$(error pkg-config is missing: `make setup` installs it)
endif
$(foreach lib,jansson libxxhash,$(if $(call have,$(lib)),,$(error the library $(lib) is missing: `make setup` installs it)))
LIBS := jansson libxxhash
ifeq ($(call have,yaml-0.1),yes)
LIBS += yaml-0.1
DEFS += -DLS_HAVE_YAML
endif
ifeq ($(call have,libpcre2-8),yes)
LIBS += libpcre2-8
DEFS += -DLS_HAVE_PCRE2
endif
ifeq ($(call have,hwloc),yes)
LIBS += hwloc
DEFS += -DLS_HAVE_HWLOC
endif
ifeq ($(call have,zlib),yes)
LIBS += zlib
DEFS += -DLS_HAVE_ZLIB
endif
ifeq ($(call have,libpng),yes)
LIBS += libpng
DEFS += -DLS_HAVE_PNG
endif
# The HTTP server of the live page is part of the program, not of the library.
ifeq ($(call have,libmicrohttpd),yes)
HTTP_CFLAGS := -DLS_HAVE_MICROHTTPD $(patsubst -I%,-isystem %,$(shell $(PKG) --cflags libmicrohttpd))
HTTP_LDLIBS := $(shell $(PKG) --libs libmicrohttpd)
endif
ifeq ($(MPI),auto)
MPI_PKG := $(firstword $(foreach p,mpi-c ompi-c mpich,$(if $(call have,$(p)),$(p))))
else ifneq ($(MPI),no)
MPI_PKG := $(MPI)
$(if $(call have,$(MPI)),,$(error pkg-config knows no MPI called $(MPI)))
endif
ifneq ($(MPI_PKG),)
MPI_CFLAGS := -DLS_HAVE_MPI $(patsubst -I%,-isystem %,$(shell $(PKG) --cflags $(MPI_PKG)))
endif
LIB_CFLAGS := $(patsubst -I%,-isystem %,$(shell $(PKG) --cflags $(LIBS)))
LIB_LDLIBS := $(shell $(PKG) --libs $(LIBS) $(MPI_PKG)) -lm
endif

# ---- flags -------------------------------------------------------------------------------------------------------------

# The arithmetic needs contraction off and no relaxed floating point, ever: docs/reference/arithmetic.md. Leaving errno alone changes no
# value; it makes a square root one instruction.
WARN   := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wpointer-arith -Wcast-qual \
          -Wundef -Wformat=2 -Werror=implicit-function-declaration -Wimplicit-fallthrough -Wdouble-promotion -Wwrite-strings $(if $(findstring clang,$(CC)),-Wno-pass-failed) $(if $(WERROR),-Werror)
OPT    ?= -O3 -g
# The program, the archive and the shared library share one set of objects. No symbol is meant to be interposed, hence the second flag.
PIC    := -fPIC -fno-semantic-interposition
CFLAGS_ALL := -std=c11 -D_GNU_SOURCE $(OPT) -ffp-contract=off -fno-math-errno -fvisibility=hidden $(PIC) -pthread $(WARN) -Iinclude -Isrc \
              $(DEFS) $(LIB_CFLAGS) $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-omit-frame-pointer -fno-sanitize-recover=all) $(CFLAGS)
LDFLAGS_ALL := -pthread $(if $(SANITIZE),-fsanitize=$(SANITIZE)) $(LDFLAGS)

# Test programs are many and run for moments: what counts is how soon they are built.
TEST_OPT     ?= -O1 $(if $(SANITIZE),,-g0)
TEST_LDFLAGS ?= $(if $(SANITIZE),,-Wl,-S)
# The conformance test computes long reference sums and is too slow at -O1.
$(BUILD)/tests/comm/conformance.o: TEST_OPT := -O2 $(if $(SANITIZE),,-g0)

ISA_FLAGS = $(if $(findstring /avx2/,$<),-mavx2 -mfma,$(if $(findstring /avx512/,$<),-mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma)) \
            $(if $(findstring /avx512/gemm_bf16.c,$<),-mavx512bf16) $(if $(findstring /avx512/gemm_amx.c,$<),-mamx-tile -mamx-bf16) \
            $(if $(findstring /portable/kernels.c,$<),$(PORTABLE_FLAGS))
# All portable kernels are in one file, so gcc's growth limits, which apply per file, are raised: it then inlines as if each kernel had its own.
PORTABLE_FLAGS := $(if $(findstring clang,$(CC)),,--param inline-unit-growth=200 --param ipa-cp-unit-growth=200)

# Fuzzing builds leave the kernels uninstrumented: no parser calls them, and instrumenting their memory accesses takes most of the build time.
UNFUZZED = $(if $(findstring fuzzer,$(SANITIZE)),$(if $(filter src/device/%,$<),-fno-sanitize=all))

# ---- sources -----------------------------------------------------------------------------------------------------------

SRC := $(sort $(wildcard src/*/*.c src/*/*/*.c src/*/*/*/*.c))
ifneq ($(MACHINE),x86_64)
SRC := $(filter-out src/device/cpu/avx2/% src/device/cpu/avx512/%,$(SRC))
endif
ifneq ($(MACHINE),aarch64)
SRC := $(filter-out src/device/cpu/neon/%,$(SRC))
endif
# GPU kernels: a cubin for each architecture of CUDA_SMS if nvcc is installed. The sources are always embedded as text (src/device/cuda/images.h).
# CUDA_SMS is exported so that a make inside this one does not query the driver again.
ifndef BARE
CU := $(sort $(wildcard src/device/cuda/kernels/*.cu))
NVCC := $(shell CUDA=$(CUDA) tools/nvcc)
ifneq ($(NVCC),)
ifeq ($(origin CUDA_SMS),undefined)
export CUDA_SMS := $(shell tools/cuda-sms $(NVCC))
endif
endif
CUBINS := $(if $(NVCC),$(foreach sm,$(CUDA_SMS),$(patsubst src/device/cuda/kernels/%.cu,$(BUILD)/cuda/%.$(sm).cubin,$(CU))))
IMAGES := $(BUILD)/cuda/images
endif
CLI_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(filter src/cli/%,$(SRC)))
LIB_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(filter-out src/cli/%,$(SRC))) $(if $(IMAGES),$(IMAGES).o)
LIB     := $(BUILD)/liblockstep.a
BIN     := $(BUILD)/lockstep
# The version in the SONAME changes whenever the interface may: in 0.x with each x.
VERSION := $(shell sed -n 's/^\#define LS_VERSION "\(.*\)"/\1/p' include/lockstep.h)
SOVERSION := $(basename $(VERSION))
SONAME  := liblockstep.so.$(SOVERSION)
SHARED  := $(BUILD)/liblockstep.so.$(VERSION)

# Test programs: tests/unit/test_*.c use cmocka; tests/comm and tests/faults hold programs that start workers.
UNIT_BIN := $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard tests/unit/test_*.c)))
SPOILED  := $(BUILD)/tests/spoil/lockstep
# A device without hardware: linked into the programs that ask for it.
FAKE     := $(BUILD)/tests/fake/fake.a
FAKE_OBJ := $(BUILD)/tests/fake/fake.o $(BUILD)/tests/fake/calls.o
FUZZ_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
PROG_BIN := $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard tests/comm/*.c tests/faults/*.c tests/parity/*.c)))
# The program that draws the charts of documents.
CHART    := $(BUILD)/tools/chart

.PHONY: all programs install uninstall shared pages wheel check-layers $(BARE_GOALS) $(STARTED:%=%-run)

all: $(BIN) $(LIB)
ifeq ($(BUILD),build)
	@cmp -s $(BIN) lockstep || cp -f $(BIN) lockstep
lockstep: all
endif

# Objects are rebuilt when the compiler, the flags or the libraries found have changed; for an MPI only those that ask for it, since
# `make test` finds one after `make demo` has built everything without. The + is for `make -n`, which could not know otherwise whether they have.
FLAGS_NOW := $(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL)
MPI_FLAGS_NOW := $(MPI_CFLAGS) $(LIB_LDLIBS)
$(BUILD)/flags: FORCE
	+@mkdir -p $(BUILD); echo '$(FLAGS_NOW)' | cmp -s - $@ || echo '$(FLAGS_NOW)' > $@
$(BUILD)/flags-mpi: FORCE
	+@mkdir -p $(BUILD); echo '$(MPI_FLAGS_NOW)' | cmp -s - $@ || echo '$(MPI_FLAGS_NOW)' > $@
$(BUILD)/flags-http: FORCE
	+@mkdir -p $(BUILD); echo '$(HTTP_CFLAGS) $(HTTP_LDLIBS)' | cmp -s - $@ || echo '$(HTTP_CFLAGS) $(HTTP_LDLIBS)' > $@
$(BUILD)/flags-tests: FORCE
	+@mkdir -p $(BUILD); echo '$(TEST_OPT) $(TEST_LDFLAGS)' | cmp -s - $@ || echo '$(TEST_OPT) $(TEST_LDFLAGS)' > $@
ifndef BARE
MPI_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(shell grep -l LS_HAVE_MPI $(SRC)))
$(MPI_OBJ): $(BUILD)/flags-mpi
HTTP_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(shell grep -l LS_HAVE_MICROHTTPD $(SRC)))
$(HTTP_OBJ): $(BUILD)/flags-http
TEST_OBJ := $(addsuffix .o,$(UNIT_BIN) $(PROG_BIN) $(CHART)) $(BUILD)/tests/spoil/spoil.o $(FAKE_OBJ) $(FUZZ_OBJ)
$(TEST_OBJ): $(BUILD)/flags-tests
endif
.PHONY: FORCE
FORCE:

$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS_ALL) $(ISA_FLAGS) $(UNFUZZED) $(if $(filter tests/%,$<),$(TEST_OPT)) $(if $(filter $@,$(MPI_OBJ)),$(MPI_CFLAGS)) $(if $(filter $@,$(HTTP_OBJ)),$(HTTP_CFLAGS)) -MMD -MP -c $< -o $@
$(BUILD)/src/cli/watch/assets.o: src/cli/watch/live.js src/cli/watch/live.css

CUDA_HEADERS := $(wildcard src/device/cuda/kernels/*.cuh src/device/cuda/args/*.h src/device/cuda/common/*)
define cubins_of # SM, its name for the compiler
$(BUILD)/cuda/%.$(1).cubin: src/device/cuda/kernels/%.cu
	@mkdir -p $$(@D)
	$$(call say,NVCC,$$@)
	$$(Q)$$(NVCC) -std=c++17 -O3 --fmad=false -Werror all-warnings -gencode=arch=compute_$(2),code=sm_$(2) -cubin -Isrc -MMD -MP -MF $$(@:.cubin=.d) -MT $$@ $$< -o $$@
endef
$(foreach sm,$(CUDA_SMS),$(eval $(call cubins_of,$(sm),$(if $(filter 90,$(sm)),90a,$(sm)))))
-include $(CUBINS:.cubin=.d)

# Printed once for each build folder and choice of architectures.
KERNELS_OF := $(if $(NVCC),$(if $(CUDA_SMS),GPU kernels: nvcc compiles those of $(addprefix sm_,$(CUDA_SMS)); other GPUs compile theirs on first use (CUDA_SMS="80 90" to choose; CUDA=no: none now),GPU kernels: nvcc is here and the driver reports no GPU: none are compiled now, a GPU compiles its own on first use (CUDA_SMS=90 compiles those of H100 and H200 now)))
$(BUILD)/cuda/wanted: FORCE
	+@mkdir -p $(@D); echo '$(CUBINS)' | cmp -s - $@ || $(if $(COUNTING),true,{ echo '$(CUBINS)' > $@; $(if $(KERNELS_OF),echo '  $(KERNELS_OF)',true); })
$(IMAGES).c: $(CUBINS) $(CU) $(CUDA_HEADERS) tools/cuda-images $(BUILD)/cuda/wanted
	$(Q)tools/cuda-images $(IMAGES) src/device/cuda/kernels $(CUBINS)
$(IMAGES).o: $(IMAGES).c $(BUILD)/flags
	$(Q)$(CC) $(CFLAGS_ALL) -c $< -o $@

$(LIB): $(LIB_OBJ)
	@rm -f $@
	$(call say,AR,$@)
	$(Q)ar rcs $@ $(LIB_OBJ)

# Exports what include/lockstep.h declares, and nothing else (tools/lockstep.map).
$(SHARED): $(LIB_OBJ) tools/lockstep.map
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS_ALL) -shared -Wl,-soname,$(SONAME) -Wl,--version-script,tools/lockstep.map -Wl,--no-undefined-version $(LIB_OBJ) $(LIB_LDLIBS) -o $@
	@ln -sf $(notdir $@) $(BUILD)/$(SONAME)
	@ln -sf $(SONAME) $(BUILD)/liblockstep.so
shared: $(SHARED)

$(BIN): $(CLI_OBJ) $(LIB)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS_ALL) $(CLI_OBJ) $(LIB) $(LIB_LDLIBS) $(HTTP_LDLIBS) -o $@

CMOCKA = $(eval CMOCKA := $(shell $(PKG) --libs cmocka))$(CMOCKA)
$(UNIT_BIN): $(BUILD)/%: $(BUILD)/%.o $(FAKE) $(LIB)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS_ALL) $(TEST_LDFLAGS) $^ $(LIB_LDLIBS) $(CMOCKA) -o $@

# A libcuda that runs the kernels of src/device/cuda/kernels on the CPU.
LIBCUDA := $(BUILD)/tests/cuda/libcuda.so.1
CXX ?= c++
CU_ON_CPU := $(patsubst src/device/cuda/kernels/%.cu,$(BUILD)/tests/cuda/%.o,$(CU)) $(BUILD)/tests/cuda/libcuda.o
# It only runs on the machine that builds it, so -mfma is used if the CPU has it: fma() as a library call is slow.
CXXFLAGS_CUDA := -std=c++17 -Og -g0 $(if $(shell grep -m 1 -ow fma /proc/cpuinfo 2>/dev/null),-mfma) -ffp-contract=off -fPIC -pthread -Wall -Wextra -Wno-unknown-pragmas -Wno-unused-but-set-parameter -Wno-enum-compare \
                 $(if $(WERROR),-Werror) -Isrc -Itests/cuda
$(BUILD)/tests/cuda/%.o: src/device/cuda/kernels/%.cu tests/cuda/on_cpu.h tests/cuda/wgmma_on_cpu.h $(CUDA_HEADERS)
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(CXX) $(CXXFLAGS_CUDA) -include tests/cuda/on_cpu.h -x c++ -c $< -o $@
$(BUILD)/tests/cuda/libcuda.o: tests/cuda/libcuda.cpp tests/cuda/on_cpu.h
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(CXX) $(CXXFLAGS_CUDA) -c $< -o $@
LIBNVRTC := $(BUILD)/tests/cuda/libnvrtc.so.13
$(LIBNVRTC): tests/cuda/libnvrtc.c
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE -O1 -fPIC -shared -Wall -Wextra -Wl,-soname,libnvrtc.so.13 $< -o $@
# A libcublasLt for that emulated GPU, and a second one that lacks a call.
LIBCUBLASLT := $(BUILD)/tests/cuda/libcublasLt.so.13 $(BUILD)/tests/cuda/without/libcublasLt.so.13
$(LIBCUBLASLT): tests/cuda/libcublaslt.c src/device/cpu/portable/hgmma.h
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -O2 -fPIC -shared -Wall -Wextra -Isrc $(if $(findstring without,$@),-DWITHOUT_GUESSES) -Wl,-soname,libcublasLt.so.13 $< -ldl -lm -o $@
$(LIBCUDA): $(CU_ON_CPU)
	$(call say,LD,$@)
	$(Q)$(CXX) -shared -Wl,-soname,libcuda.so.1 -pthread $^ -o $@
# A libnccl between emulated GPUs, and a second one that lacks a call.
LIBNCCL := $(BUILD)/tests/nccl/libnccl.so.2 $(BUILD)/tests/nccl/without/libnccl.so.2
$(LIBNCCL): tests/nccl/libnccl.c
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -O1 -fPIC -shared -Wall -Wextra $(if $(findstring without,$@),-DWITHOUT_RECV) -Wl,-soname,libnccl.so.2 $< -ldl -lrt -o $@

$(FAKE): $(FAKE_OBJ)
	@rm -f $@
	$(Q)ar rcs $@ $^

# The program plus code that corrupts numbers where LS_SPOIL says, and the fake device: for tests alone.
$(SPOILED): $(BUILD)/tests/spoil/spoil.o $(CLI_OBJ) $(FAKE) $(LIB)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS_ALL) $(TEST_LDFLAGS) $^ $(LIB_LDLIBS) $(HTTP_LDLIBS) -o $@

$(PROG_BIN) $(CHART): $(BUILD)/%: $(BUILD)/%.o $(FAKE) $(LIB)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS_ALL) $(TEST_LDFLAGS) $^ $(LIB_LDLIBS) -o $@

-include $(patsubst %.o,%.d,$(CLI_OBJ) $(LIB_OBJ)) $(patsubst %,%.d,$(UNIT_BIN) $(PROG_BIN) $(CHART)) $(BUILD)/tests/spoil/spoil.d $(FAKE_OBJ:.o=.d)

# ---- set-up, main job, tests -------------------------------------------------------------------------------------------

setup:
	@tools/setup build

# The build uses all cores unless the caller gave -j.
JOBS_FLAG = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc 2>/dev/null || echo 1))

$(STARTED):
	@tools/setup $(patsubst $@:%,%,$(filter $@:%,$(TWO_STEPS)))
	@$(MAKE) $(JOBS_FLAG) $(SETTINGS) $@-run
fuzz: SETTINGS = BUILD=build-fuzz CC=clang SANITIZE=fuzzer-no-link,address,undefined OPT='-O1 -g1'

demo-run: all
	@BUILD=$(BUILD) tools/demo $(DEMO_FLAGS)

# Mutation tests: each deliberate error in a copy of the sources must make a test fail.
test-mutations:
	@tools/setup parity
	@tests/mutations/run $(MUTATIONS)

VERIFY_PARTS ?= 8
# Number types. The initial loss scale of fp16 overflows on purpose.
VERIFY_TYPES ?= '--precision bf16' '--precision bf16 --reduce-dtype bf16' '--precision bf16 --matrix-unit auto' \
    '--precision fp16 --loss-scale-initial 16777216 --loss-scale-window 2 --loss-scale-hysteresis 1'
VERIFY_IMAGES ?= '--model lenet' '--model lenet-sigmoid' '--model mlp' '--quick --model resnet18' '--quick --model resnet18 --bn sync'
verify-all-run: all
	@for i in $$(seq $(VERIFY_PARTS)); do ./lockstep verify --all --part $$i/$(VERIFY_PARTS) --out $(BUILD)/verify --resume || exit 1; done
	@for types in $(VERIFY_TYPES) $(VERIFY_IMAGES); do echo "$$types"; ./lockstep verify $$types --out $(BUILD)/verify --resume || exit 1; done

# The fuzz targets are compiled here too, so that an interface change that breaks them fails the ordinary build.
programs: all $(UNIT_BIN) $(PROG_BIN) $(CHART) $(SPOILED) $(FUZZ_OBJ) $(if $(filter no,$(CUDA_TESTS)),,$(LIBCUDA) $(LIBNVRTC) $(LIBNCCL) $(LIBCUBLASLT))

test-run: programs
	@BUILD=$(BUILD) tests/run short

test-long-run: programs
	@BUILD=$(BUILD) tests/run long

# Counts which planted faults the guards and doctor detect in real runs.
test-faults-count-run: all $(SPOILED)
	@BUILD=$(BUILD) TIER=long tests/faults/count.sh

# Flips a thousand bits in the memory of running workers; FLIPS=n SEED=n.
test-flips-run: all $(SPOILED)
	@BUILD=$(BUILD) TIER=long tests/faults/flips.sh

# Kills, stops and resizes workers and kills parents, a thousand times; KILLS=n SEED=n LANES=n.
test-chaos-run: all
	@BUILD=$(BUILD) TIER=long tests/train/chaos.sh

# Runs under a private Slurm installation, with Open MPI and with MPICH.
test-slurm-run: all
	@if $(PKG) --exists mpich; then \
	    tools/copy-build $(BUILD) $(BUILD)-mpich && $(MAKE) BUILD=$(BUILD)-mpich MPI=mpich CUDA_TESTS=no all; \
	fi
	@BUILD=$(BUILD) tests/tools/slurm || [ $$? -eq 77 ]

# Time until a lost worker is detected and its step is retried, on one machine and over MPI.
bench-recovery-run: all
	@LOCKSTEP=$(BUILD)/lockstep bench/recovery.sh

# Cost of supervision, heartbeats, hashes and copies of the state in an undisturbed run.
bench-overhead-run: all
	@LOCKSTEP=$(BUILD)/lockstep bench/overhead.sh

# Goodput of a run that loses a worker every 30 s, compared with plan's prediction.
bench-goodput-run: all
	@LOCKSTEP=$(BUILD)/lockstep bench/goodput.sh

# How long --resume takes with a million lines of metrics.
bench-resume-run: all
	@LOCKSTEP=$(BUILD)/lockstep bench/resume.sh

# Comparisons with PyTorch, transformers, tokenizers and tiktoken, which a virtual environment in the build folder holds.
PYTHON := $(BUILD)/venv/bin/python
test-parity-run: programs
	@tools/venv $(BUILD)/venv
	@BUILD=$(BUILD) PYTHON=$(PYTHON) tests/parity/run

# Every parser, with libFuzzer and the sanitizers of clang, for FUZZ_SECONDS each, as many at a time as there are cores.
FUZZ_SECONDS ?= 20
FUZZ_BIN := $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
fuzz-run: $(FUZZ_BIN)
	@printf '%s\n' $(FUZZ_BIN) | xargs -P "$$(nproc)" -I TARGET tools/fuzz TARGET $(FUZZ_SECONDS)

$(FUZZ_BIN): $(BUILD)/fuzz/%: $(BUILD)/tests/fuzz/%.o $(LIB)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -fsanitize=fuzzer $(LDFLAGS_ALL) $< $(LIB) $(LIB_LDLIBS) -o $@

# Runs the two commands of the README on a fresh Debian system made with debootstrap.
fresh:
	@tools/fresh

check-layers:
	@tools/check-layers
	@CC='$(CC)' CFLAGS='$(CFLAGS_ALL)' tools/check-headers
	@$(MAKE) $(LIB)
	@tools/check-symbols $(LIB)

check-words:
	@tools/check-words

format:
	@tools/setup format
	@tools/format write

check-format:
	@tools/setup format
	@tools/format check

ci:
	@bash .ci/run

# ---- benchmarks --------------------------------------------------------------------------------------------------------

VENV := $(if $(filter yes,$(PEER)),tools/venv $(BUILD)/venv,:)
BENCH_PYTHON := $(if $(filter yes,$(PEER))$(wildcard $(BUILD)/venv/complete),$(PYTHON),python3)
NO_PEER := $(if $(filter no,$(PEER)),--no-peer)
ifndef BARE
COMM_PEER := $(if $(or $(filter yes,$(PEER)),$(and $(filter installed,$(PEER)),$(MPI_PKG))),$(BUILD)/bench/comm_openmpi)
GEMM_PEER := $(if $(or $(filter yes,$(PEER)),$(and $(filter installed,$(PEER)),$(call have,openblas))),$(BUILD)/bench/gemm_openblas)
endif

# Every benchmark at toy size, with its peer where that is installed. It shows that each one runs; the figures mean nothing.
bench-smoke-run: all $(CHART) $(BUILD)/bench/fma_ceiling $(BUILD)/bench/gpu_products $(BUILD)/bench/gpu_kernels $(LIBCUDA) $(LIBNVRTC)
	@BUILD=$(BUILD) bench/smoke

# The peer of bench-comm is a plain MPI program; it is built for benchmarks only.
$(BUILD)/bench/comm_openmpi: bench/comm_openmpi.c $(BUILD)/flags-mpi
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE -O3 $(WARN) $(MPI_CFLAGS) $< $(LIB_LDLIBS) -o $@

# The peer of bench-gemm is OpenBLAS. lockstep itself uses no BLAS.
$(BUILD)/bench/gemm_openblas: bench/gemm_openblas.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE -O3 $(WARN) $(shell $(PKG) --cflags openblas) $< $(shell $(PKG) --libs openblas) -o $@

bench-gemm-run: all $(GEMM_PEER)
	$(BIN) bench kernels $(GEMM_PEER:%=--peer %) $(BENCH_ARGS)

bench-comm-run: all $(COMM_PEER)
	$(BIN) bench comm $(COMM_PEER:%=--peer %) $(BENCH_ARGS)

# Training is compared with PyTorch in a virtual environment of the build folder.
bench-train-run: all
	@$(VENV)
	$(BENCH_PYTHON) bench/train.py --lockstep $(BIN) $(NO_PEER) $(BENCH_ARGS)

$(BUILD)/bench/fma_ceiling: $(BUILD)/bench/fma_ceiling.o $(LIB)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS_ALL) $< $(LIB) $(LIB_LDLIBS) -o $@

# Rates of a GPU's kernels, and of 16-bit GEMMs.
$(BUILD)/bench/gpu_products: $(BUILD)/bench/gpu_products.o $(LIB)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS_ALL) $< $(LIB) $(LIB_LDLIBS) -o $@

$(BUILD)/bench/gpu_kernels: $(BUILD)/bench/gpu_kernels.o $(BUILD)/bench/gpu_memory.o $(LIB)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS_ALL) $(BUILD)/bench/gpu_kernels.o $(BUILD)/bench/gpu_memory.o $(LIB) $(LIB_LDLIBS) -o $@

# Two workers are compared with PyTorch's DDP.
bench-scale-run: all $(BUILD)/bench/fma_ceiling
	@$(VENV)
	$(BENCH_PYTHON) bench/scale.py --lockstep $(BIN) $(NO_PEER) --ceiling $(BUILD)/bench/fma_ceiling $(BENCH_ARGS)

# fp32 and 16 bit beside each other, and PyTorch's autocast.
bench-precision-run: all
	@$(VENV)
	$(BENCH_PYTHON) bench/precision.py --lockstep $(BIN) $(NO_PEER) $(BENCH_ARGS)

# LeNet and ResNet-18 beside PyTorch, and two workers beside one.
bench-vision-run: all
	@$(VENV)
	$(BENCH_PYTHON) bench/vision.py --lockstep $(BIN) $(NO_PEER) $(BENCH_ARGS)

# Small models under good and bad policies; TEST_DATA names the folder of the text. The runs stay in the build folder.
experiment-precision-run: all $(CHART)
	python3 bench/quality.py --lockstep $(BIN) --runs $(BUILD)/quality $(EXPERIMENT_ARGS)

# Whether more workers help LeNet and ResNet-18 on this machine, and over which links; results of other machines stay in the page.
experiment-ratio-run: all $(CHART)
	python3 bench/ratio.py --lockstep $(BIN) $(EXPERIMENT_ARGS)

# The python3 of the machine, which has a PyTorch for its GPU or none; ROW= picks rows of the table.
bench-gpu-run: all $(BUILD)/bench/gpu_kernels $(BUILD)/bench/gpu_products
	@python3 bench/gpu.py --lockstep $(BIN) --kernels $(BUILD)/bench/gpu_kernels --products $(BUILD)/bench/gpu_products --row "$(ROW)" $(NO_PEER) $(BENCH_ARGS)

bench-save-run: all
	LOCKSTEP=$(BUILD)/lockstep bench/save $(BENCH_ARGS)

bench-live-run: all
	python3 bench/live.py $(BUILD)/lockstep $(BENCH_ARGS)

# Probes this machine, predicts layouts of this program and measures them.
bench-plan-run: all
	@python3 bench/plan.py --lockstep $(BIN) $(BENCH_ARGS)

# How long whole searches take, on one core.
bench-plan-search-run: all
	@LOCKSTEP=$(BIN) bench/plan_search $(BENCH_ARGS)

# Compares predictions with the measured runs of a file, or of each file of a folder: uncalibrated, with one factor fitted for each
# cluster, and cross-validated (all constants fitted without the group that is predicted).
ifeq ($(RUNS),)
validate-plan fit-plan:
	@echo '$@: skipped: no measured runs; name a file as plan --validate reads it, or a folder of such files: make $@ RUNS=runs.csv'
endif

validate-plan-run: all
	@for file in $(if $(wildcard $(RUNS)/*.csv),$(RUNS)/*.csv,'$(RUNS)'); do \
	    echo "== $$file: as predicted"; ./lockstep plan --validate "$$file" || exit; \
	    echo "== $$file: calibrated"; ./lockstep plan --validate "$$file" --calibrate || exit; \
	done
	@echo "== $(RUNS): every group left out of the fit in turn"; ./lockstep plan --validate '$(RUNS)' --leave-out

# Fits the planner's constants to the measured runs of a file or a folder; prints the remaining errors and the best MFUs.
fit-plan-run: all
	@./lockstep plan --validate '$(RUNS)' --fit src/plan/fitted

# Rewrites the planner's answers in the documents with the output of this program.
docs-plan-run: all $(SPOILED)
	@LOCKSTEP=$(BIN) tools/refresh-examples docs/reference/planner-examples.md docs/reference/doctor-times.md

# Redraws the pictures of the documents with this program; PICTURES="ratio order" redraws some.
docs-pictures-run: all $(CHART)
	@tools/refresh-pictures $(BUILD) $(PICTURES)

# ---- install -----------------------------------------------------------------------------------------------------------

# Pages of the manual and completions, by the program itself from its table of options.
PAGES := $(BUILD)/share/complete
$(PAGES): $(BIN) tools/pages
	$(call say,MAN,$(BUILD)/share)
	$(Q)tools/pages $(BIN) $(BUILD)/share
	@touch $@
pages: $(PAGES)

MANDIR  := $(DESTDIR)$(PREFIX)/share/man/man1
BASHDIR := $(DESTDIR)$(PREFIX)/share/bash-completion/completions
ZSHDIR  := $(DESTDIR)$(PREFIX)/share/zsh/site-functions
FISHDIR := $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d

# Without debug information: that stays in the build folder.
install: all $(SHARED) $(PAGES)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/include $(DESTDIR)$(PREFIX)/lib/pkgconfig $(MANDIR) $(BASHDIR) $(ZSHDIR) $(FISHDIR)
	install -m 755 $(BIN) $(DESTDIR)$(PREFIX)/bin/lockstep
	install -m 644 include/lockstep.h $(DESTDIR)$(PREFIX)/include/lockstep.h
	install -m 644 $(LIB) $(DESTDIR)$(PREFIX)/lib/liblockstep.a
	install -m 755 $(SHARED) $(DESTDIR)$(PREFIX)/lib/$(notdir $(SHARED))
	$(STRIP) --strip-debug $(DESTDIR)$(PREFIX)/bin/lockstep $(DESTDIR)$(PREFIX)/lib/liblockstep.a $(DESTDIR)$(PREFIX)/lib/$(notdir $(SHARED))
	ln -sf $(notdir $(SHARED)) $(DESTDIR)$(PREFIX)/lib/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(PREFIX)/lib/liblockstep.so
	install -m 644 $(BUILD)/share/man/*.1 $(MANDIR)
	install -m 644 $(BUILD)/share/lockstep.bash $(BASHDIR)/lockstep
	install -m 644 $(BUILD)/share/lockstep.zsh $(ZSHDIR)/_lockstep
	install -m 644 $(BUILD)/share/lockstep.fish $(FISHDIR)/lockstep.fish
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' \
	    -e 's|@REQUIRES@|$(LIBS) $(MPI_PKG)|' -e 's|@SANITIZE@|$(if $(SANITIZE),-fsanitize=$(SANITIZE))|' tools/lockstep.pc.in > $(DESTDIR)$(PREFIX)/lib/pkgconfig/lockstep.pc

uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/lockstep $(DESTDIR)$(PREFIX)/include/lockstep.h $(DESTDIR)$(PREFIX)/lib/liblockstep.a \
	      $(DESTDIR)$(PREFIX)/lib/liblockstep.so $(DESTDIR)$(PREFIX)/lib/liblockstep.so.[0-9]* $(DESTDIR)$(PREFIX)/lib/pkgconfig/lockstep.pc \
	      $(MANDIR)/lockstep.1 $(MANDIR)/lockstep-*.1 $(BASHDIR)/lockstep $(ZSHDIR)/_lockstep $(FISHDIR)/lockstep.fish

# The sources that git knows, as they are here, in one file with a name and dates of its own.
dist:
	@tools/dist $(BUILD) $(VERSION)

# The Python package with the shared library in it.
wheel: all $(SHARED)
	@mkdir -p $(BUILD)/stripped
	@for file in $(SHARED) $(BIN); do $(STRIP) --strip-debug -o $(BUILD)/stripped/$${file##*/} $$file || exit; done
	@python3 tools/wheel $(BUILD) $(VERSION) $(BUILD)/stripped/$(notdir $(SHARED)) $(BUILD)/stripped/$(notdir $(BIN))

clean:
	rm -rf $(BUILD) lockstep

help:
	@echo 'make              build ./lockstep and $(LIB)'
	@echo 'make demo         set up, build, train a small model on a book for about a minute, twice, under two layouts; DEMO_FLAGS=--check: and judge what it learned'
	@echo 'make test         set up, build, and run the tests (under five minutes on two cores)'
	@echo 'make test-long    the tests that take longer: hundreds of kills, resuming at every step, every disk size, valgrind'
	@echo 'make test-slurm   jobs of a real Slurm are signalled, preempted and meet their time limit, with Open MPI and MPICH; needs root'
	@echo 'make test-chaos       workers die or stop, runs are resized, parents are killed, a thousand times; KILLS=100 SEED=1'
	@echo 'make bench-recovery   time until a lost worker is detected and its step retried; MODEL= WORKERS= KILLS= RELAUNCHES='
	@echo 'make bench-overhead  what supervision, heartbeats, hashes and copies of the state cost an undisturbed run; OLD=COMMIT: everything added since'
	@echo 'make bench-goodput   goodput of a run that loses a worker every 30 s, compared with plan; MINUTES= EVERY= WORKERS='
	@echo 'make bench-resume    how long --resume takes with a million lines of metrics beside a few; LINES= ROUNDS='
	@echo 'make test-faults-count  faults planted in real runs: what guards and doctor catch, in figures'
	@echo 'make bench-smoke  every benchmark at toy size: whether they run; each alone: PEER=no without its peer, PEER=installed if that is there'
	@echo 'make bench-comm   collectives beside Open MPI, in one run; BENCH_ARGS="--workers 4 --json"'
	@echo 'make bench-gemm   kernels beside OpenBLAS and beside plain loops, in one run'
	@echo 'make bench-live   what looking at a run costs, and how soon large runs open (LIVE_SECONDS=60, LIVE_MODEL=llama-160m)'
	@echo 'make bench-save   what checkpoints cost: in the background, waited for; BENCH_ARGS="--model tiny --workers 2"'
	@echo 'make bench-train  training beside PyTorch, in one run; BENCH_ARGS="--only gpt2 --rounds 3"'
	@echo 'make bench-scale  layouts, scaling and PyTorch DDP beside one worker; BENCH_ARGS="--tables two --rounds 3"'
	@echo 'make bench-precision  16 bit beside fp32: step, GEMMs, memory, traffic, PyTorch; BENCH_ARGS="--tables step --rounds 1"'
	@echo 'make bench-vision  LeNet and ResNet-18 beside PyTorch, two workers beside one; BENCH_ARGS="--only lenet --rounds 2"'
	@echo 'make experiment-precision  what 16 bit does to learning, with and without its safeguards; TEST_DATA=FOLDER'
	@echo 'make experiment-ratio  whether more workers help LeNet and ResNet-18, measured and predicted; EXPERIMENT_ARGS="--seconds 240"'
	@echo 'make bench-gpu    training, GEMMs and memory-bound kernels on a GPU beside PyTorch, cuBLAS and a copy; ROW=gpt2,memory,gpt2-bf16 … for some rows'
	@echo 'make bench-plan   what plan predicts of this machine beside what is measured; BENCH_ARGS="--rounds 1 --rows 1,4"'
	@echo 'make bench-plan-search  how long plan takes for 175B on 1,024 chips, and for 16,384'
	@echo 'make validate-plan  predictions of the planner beside measured runs: RUNS=runs.csv or a folder, columns as docs/reference/planner.md says'
	@echo 'make fit-plan     fit the planner'\''s constants to measured runs: writes src/plan/fitted; RUNS as above'
	@echo 'make docs-plan    rewrite the answers in docs/reference/planner-examples.md and docs/reference/doctor-times.md with this program'\''s output'
	@echo 'make docs-pictures  redraw the pictures of the documents from their results and with this program; PICTURES="ratio order"'
	@echo 'make verify-all   every legal layout of up to 16 workers against one worker, then 16-bit types; goes on where it was stopped'
	@echo 'make test-mutations  deliberate errors in a copy of the sources must be caught; MUTATIONS="clip-norm wrong-tag"'
	@echo 'make test-parity  loss, gradients, logits and tokens beside PyTorch, transformers and tokenizers'
	@echo 'make fuzz         every parser with libFuzzer; FUZZ_SECONDS=20 each'
	@echo 'make fresh        make demo and make test on a bare Debian system, made with debootstrap; needs root and a network'
	@echo 'make setup        install the compiler and the libraries the build needs'
	@echo 'make install      program, libraries, header, manual and completions to PREFIX=$(PREFIX); make uninstall takes them away'
	@echo 'make shared       the shared library $(notdir $(SHARED))'
	@echo 'make dist         the sources as build/lockstep-VERSION.tar.gz'
	@echo 'make wheel        the Python package, with the shared library and the program in it, as build/lockstep-VERSION-….whl'
	@echo 'make format       lay the sources out as .clang-format says; check-format only looks'
	@echo 'make check-layers includes, headers and symbols follow the rules of the layers'
	@echo 'make check-words  comments and messages use the field'\''s terms (tools/words.txt): no file may have more exceptions than it has now'
	@echo 'make ci           everything a change must pass'
