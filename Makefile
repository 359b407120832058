# snap-csi: `make help` is the menu.
#
# One flavour per folder: build/release, build/debug, build/asan, build/tsan, build/fuzz, build/kill. Everything but main.o goes into one
# archive, so that every test links the objects that ship. Suites add their targets in test/*/rules.mk.
# Variables: FLAVOUR, BUILD (another build folder), CC, V=1 (show the commands), ARCH=arm64 (cross-built, into build/arm64).

FLAVOUR ?= release
# The machine that is built for; empty is this one. What it needs more is in test/cross.
ARCH    ?=
ifeq ($(ARCH),$(shell dpkg --print-architecture 2>/dev/null))
override ARCH :=
endif
ifneq ($(filter-out arm64,$(ARCH)),)
$(error ARCH=$(ARCH) is neither arm64 nor this machine's)
endif
BUILD   ?= build$(ARCH:%=/%)
ifeq ($(ARCH),)
CC      := $(if $(filter default undefined,$(origin CC)),gcc,$(CC))
RUNNER  :=
else
# The environment's CC is this machine's; the command line's is taken.
SYSROOT := $(abspath $(BUILD))/sysroot
CC      := aarch64-linux-gnu-gcc
override CC += --sysroot=$(SYSROOT)
# How this machine starts a program of the other one.
RUNNER  ?= qemu-aarch64 -L $(SYSROOT)
endif
# The one place of the version: program, packages, images and manifests have it from here (make lint compares them).
VERSION := 1.0.0
# Of a clone; a tarball has it in a file.
COMMIT  ?= $(or $(shell test -e .git && git describe --always --exclude='*' --abbrev=12 --dirty=-changed 2>/dev/null),$(shell cat COMMIT 2>/dev/null))

MAKEFLAGS += --no-builtin-rules --no-builtin-variables
.SUFFIXES:
.DELETE_ON_ERROR:
# Object files of tests are intermediate files of pattern rules, which make would delete.
.SECONDARY:
.DEFAULT_GOAL := all

ifneq ($(V),1)
Q := @
say = @printf '  %-7s %s\n' $(1) $(2);
else
say =
endif

comma := ,
OUT := $(BUILD)/$(FLAVOUR)
GEN := $(BUILD)/gen
BIN := $(OUT)/snap-csi-plugin

# ---------------------------------------------------------------- flags
CSTD    := -std=gnu17 -D_GNU_SOURCE
# -Wcast-qual is left out: protobuf-c's initialisers cast const away (135 warnings from generated code).
WARN    := -Wall -Wextra -Wpedantic -Wshadow -Wvla -Wmissing-prototypes -Wstrict-prototypes -Wformat=2 \
           -Wpointer-arith -Wdeclaration-after-statement -Wwrite-strings -Wundef -Wswitch-enum -Wconversion -Wno-sign-conversion -Werror=implicit \
           -Werror=incompatible-pointer-types -Werror=int-conversion $(WERROR)
WERROR  ?=
LINKSEC := -pie -Wl,-z,relro,-z,now,-z,noexecstack -Wl,--as-needed

CFLAGS_release := -O2 -g -D_FORTIFY_SOURCE=3 -ffunction-sections -fdata-sections
CFLAGS_debug   := -O0 -g
CFLAGS_asan    := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined
CFLAGS_tsan    := -O1 -g -fno-omit-frame-pointer -fsanitize=thread
# The release driver that can be told where to die: test/killpoints.
CFLAGS_kill    := -O1 -g -DSNAP_CSI_KILL_POINTS
CFLAGS_fuzz    := -O1 -g -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
ifeq ($(filter $(FLAVOUR),release debug asan tsan fuzz kill),)
$(error FLAVOUR=$(FLAVOUR) is none of release debug asan tsan fuzz kill)
endif
ifeq ($(FLAVOUR),fuzz)
CC := clang
endif
# clang counts discarded qualifiers among the incompatible pointer types above, gcc does not. In tables, clang alone counts
# the fields that a row leaves zero.
ifeq ($(findstring clang,$(CC)),)
WARN   += -Werror=discarded-qualifiers
else
WARN   += -Wno-missing-field-initializers
endif
# A cross compiler has an ar of its own.
AR     := $(or $(shell $(CC) -print-prog-name=ar 2>/dev/null),ar)
# On arm64 return addresses are signed (PAC), which needs nobody's help. Landing pads (BTI), and on x86 IBT and shadow stacks,
# count only when every object of a program has them: Debian 12's gRPC, abseil and libstdc++ have not. So x86 does without
# -fcf-protection, which would promise what the binary has not; test/main says what it has.
HARDEN := -fstack-protector-strong -fstack-clash-protection -fPIE -fno-common \
          $(if $(filter aarch64-%,$(shell $(CC) -dumpmachine 2>/dev/null)),-mbranch-protection=standard)
LDFLAGS_asan := -fsanitize=address,undefined
LDFLAGS_tsan := -fsanitize=thread
LDFLAGS_fuzz := -fsanitize=address,undefined
# The map says which archives are in the program, for the bill of materials of the images (packaging/static-packages.sh).
LDFLAGS_release = -Wl,--gc-sections $(if $(filter $(BIN),$@),-Wl$(comma)-Map=$@.map)

# System headers of the libraries are not held to our warnings.
CPPFLAGS := -Isrc -isystem $(GEN) -DSNAP_CSI_VERSION='"$(VERSION)"'
ALL_CFLAGS = $(CSTD) $(WARN) $(HARDEN) $(CFLAGS_$(FLAVOUR)) $(CPPFLAGS) $(SAME_PATHS) $(CFLAGS)
# The same program wherever it is built.
SAME_PATHS = -ffile-prefix-map=$(CURDIR)=. -ffile-prefix-map=$(abspath $(BUILD))=build

# The release binary carries gRPC in itself: a third of the start time and 40 % less memory than
# with 51 shared files (measured). Other flavours link the shared one.
# gpr.pc of Debian names /usr/lib, so the compiler is asked where the archives are.
LIBDIR  = $(patsubst %/libgpr.a,%,$(realpath $(shell $(CC) -print-file-name=libgpr.a)))
# The static c-ares is libcares.a in Debian, libcares_static.a in Ubuntu 24.04.
CARES   = $(patsubst $(LIBDIR)/lib%.a,-l%,$(firstword $(wildcard $(LIBDIR)/libcares.a $(LIBDIR)/libcares_static.a)))
GRPC_STATIC = -Wl,-Bstatic -Wl,--start-group -lgrpc_unsecure -lgpr -laddress_sorting -lupb $(CARES) \
          $(patsubst $(LIBDIR)/lib%.a,-l%,$(wildcard $(LIBDIR)/libabsl_*.a)) -Wl,--end-group -lprotobuf-c -lstdc++ \
          -Wl,-Bdynamic -lz -lm -static-libgcc
GRPC_SHARED = -lgrpc_unsecure -lgpr -lprotobuf-c
GRPC_release = $(GRPC_STATIC)
GRPC_kill = $(GRPC_STATIC)
GRPC = $(or $(GRPC_$(FLAVOUR)),$(GRPC_SHARED))
LIBS = $(GRPC) -lcjson -lyaml -lmount -lblkid -lpthread -lm

# ---------------------------------------------------------------- files
SRCS     := $(shell find src -name '*.c' 2>/dev/null | sort)
LIB_SRCS := $(filter-out src/main.c,$(SRCS))
PROTOS   := csi/csi.proto csi/pluginregistration.proto csi/health.proto csi/driver.proto csi/sriovdp_control.proto
WKT      := google/protobuf/timestamp.proto google/protobuf/wrappers.proto
GEN_SRCS := $(PROTOS:%.proto=$(GEN)/%.pb-c.c) $(WKT:%.proto=$(GEN)/%.pb-c.c)
GEN_OBJS := $(GEN_SRCS:$(GEN)/%.c=$(OUT)/gen/%.o)
LIB_OBJS := $(LIB_SRCS:%.c=$(OUT)/%.o)
LIB      := $(OUT)/libsnapcsi.a

.PHONY: all help clean
## all: the driver, build/release/snap-csi-plugin (FLAVOUR=debug, asan, tsan: build/FLAVOUR; ARCH=arm64: build/arm64/FLAVOUR)
all: $(BIN)

## help: this list
help:
	@echo 'snap-csi $(VERSION): CSI driver for NVIDIA DPUs'
	@sed -n 's/^## \([a-z0-9_.-]*\): \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | sort -t'|' -k1,1 | awk -F'|' '{printf "%-28s %s\n", $$1, $$2}'

# How every program is linked: $(call link,its libraries). Objects come before archives, so that what a test brings along
# is taken instead of the archive's.
define link
$(call say,LINK,$@)
$(Q)$(CC) $(ALL_CFLAGS) $(LINKSEC) $(LDFLAGS_$(FLAVOUR)) $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(1)
$(if $(RUNNER),$(if $(filter $(BIN),$@),,$(Q)test/cross/runner.sh $@ $(RUNNER)))
endef

$(BIN): $(OUT)/src/main.o $(LIB)
	$(call link,$(LIBS))

$(LIB): $(LIB_OBJS) $(GEN_OBJS)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(OUT)/src/%.o: src/%.c | gen-headers
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D) && $(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# Only what is said of the build itself depends on it.
BUILD_INFO := $(OUT)/src/common/build_info.o
$(BUILD_INFO): CPPFLAGS += -DSNAP_CSI_COMMIT='"$(COMMIT)"' -DSNAP_CSI_FLAVOUR='"$(FLAVOUR)"'
$(BUILD_INFO): $(OUT)/commit
.PHONY: look-at-commit
## look-at-commit: writes the commit down for --version where it is another one than before
$(OUT)/commit: look-at-commit
	$(Q)echo '$(COMMIT)' | cmp -s - $@ || { mkdir -p $(@D) && echo '$(COMMIT)' >$@; }

$(OUT)/test/%.o: test/%.c | gen-headers
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D) && $(CC) $(ALL_CFLAGS) -I. -MMD -MP -c -o $@ $<

# Generated code: no warnings of ours, the same hardening.
$(OUT)/gen/%.o: $(GEN)/%.c | gen-headers
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D) && $(CC) $(CSTD) -w $(HARDEN) $(CFLAGS_$(FLAVOUR)) -isystem $(GEN) $(SAME_PATHS) $(CFLAGS) -MMD -MP -c -o $@ $<

.PHONY: gen-headers
## gen-headers: C files from the .proto files, into build/gen
gen-headers: $(GEN_SRCS) $(if $(ARCH),sysroot)
$(GEN)/csi/%.pb-c.c: csi/%.proto
	$(call say,PROTO,$<)
	$(Q)mkdir -p $(GEN) && protoc-c -I. -I/usr/include --c_out=$(GEN) $<
$(GEN)/google/protobuf/%.pb-c.c: /usr/include/google/protobuf/%.proto
	$(call say,PROTO,$<)
	$(Q)mkdir -p $(GEN) && protoc-c -I/usr/include --c_out=$(GEN) $<

-include $(shell find $(OUT) -name '*.d' 2>/dev/null)

# ---------------------------------------------------------------- tests
# Programs that more than one suite runs. A suite's own programs have their names in its rules.mk.
SIM      := $(OUT)/snap-sim
CSI_CALL := $(OUT)/csi-call
SHARE    := $(OUT)/snap-share
KILL_BIN := $(BUILD)/kill/snap-csi-plugin

# Where suites in Python find what they share; they leave no compiled modules in the tree.
export PYTHONPATH := $(CURDIR)/test/lib/py
export PYTHONDONTWRITEBYTECODE := 1

# What a test program is linked with beside the driver's libraries; test/lib/assert_failed.c says what is wrapped.
CHECK_LIBS := -Wl,--wrap=_ck_assert_failed -lcheck -lsubunit -lrt -lm
TEST_LIB_OBJS := $(patsubst %.c,$(OUT)/%.o,$(wildcard test/lib/*.c))
# As an archive: a test that stands in for a part of the driver must not be handed that part by a helper it does not use.
TEST_LIB := $(OUT)/test/libtest.a
$(TEST_LIB): $(TEST_LIB_OBJS)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

# Unit tests: test/unit/<room>/test_<file>.c, one program each, linked with the archive and test/lib. Any other file of
# such a folder is linked with each test of the folder.
UNIT_SRCS := $(shell find test/unit -name 'test_*.c' 2>/dev/null | sort)
UNIT_BINS := $(UNIT_SRCS:%.c=$(OUT)/%)
$(OUT)/test/unit/%: $(OUT)/test/unit/%.o $(TEST_LIB) $(LIB)
	$(call link,$(LIBS) $(CHECK_LIBS))
# Tests of the node serve folders as virtio-fs devices; order-only, because they run it and are not linked with it.
$(filter $(OUT)/test/unit/node/%,$(UNIT_BINS)): | $(SHARE)
UNIT_SHARED := $(shell find test/unit -name '*.c' ! -name 'test_*' 2>/dev/null)
$(foreach file,$(UNIT_SHARED),$(eval $(filter $(OUT)/$(dir $(file))%,$(UNIT_BINS)): $(OUT)/$(file:.c=.o)))

# They wait more than they work: begun first, they end beside the others.
UNIT_LONG := $(filter %/test_plugin_dir %/test_kube_wait %/test_stage %/test_staged_disk %/test_share %/test_attachment_index \
	%/test_web_server %/test_unstage %/test_few_descriptors %/test_health_probes,$(UNIT_BINS))

UNIT_JOBS ?= 8
.PHONY: unit
## unit: the unit tests of one FLAVOUR, UNIT_JOBS (8) programs at a time, with counts
unit: $(UNIT_BINS)
	$(Q)RUN_JOBS=$(UNIT_JOBS) $(if $(filter tsan,$(FLAVOUR)),ONLY_CALLING=pthread_create) test/lib/run-suites.sh "unit $(FLAVOUR)" $(UNIT_LONG) $(filter-out $(UNIT_LONG),$(UNIT_BINS))

# The programs that ask malloc() for its use: a sanitizer's allocator answers 0, so only these prove more without sanitizers.
MEMORY_BINS := $(patsubst %.c,$(OUT)/%,$(shell grep -l 'mallinfo2()' $(UNIT_SRCS)))
.PHONY: unit-memory
## unit-memory: the unit tests that measure the heap, of one FLAVOUR without sanitizers, with counts
unit-memory: $(MEMORY_BINS)
	$(Q)RUN_JOBS=8 test/lib/run-suites.sh "unit memory" $(MEMORY_BINS)

-include $(wildcard test/*/rules.mk) packaging/rules.mk packaging/images.mk

# ---------------------------------------------------------------- packages, checks, image
# What the driver is built with, and what only its tests and tools need. `make deps` installs what is missing. No name has a
# version, since each release of Debian and Ubuntu has another: g++ brings the libstdc++.a of its gcc, which the static gRPC needs.
# Of libcryptsetup-dev only the header is used: the driver loads the library with dlopen() when a volume is encrypted.
# Of the driver's, the last line is for the libcurl of the images (packaging/libcurl.sh).
BUILD_PACKAGES := gcc g++ make libc6-dev pkg-config protobuf-compiler libprotobuf-dev protobuf-c-compiler libprotobuf-c-dev \
	libgrpc-dev zlib1g-dev libcurl4-openssl-dev libcjson-dev libyaml-dev libmount-dev libblkid-dev libcryptsetup-dev \
	dpkg-dev patch libssl-dev libnghttp2-dev
# libfuse3 plays virtio-fs devices (test/lib/share); prometheus has promtool, which tests the alerts, and scrapes the driver (test/monitoring).
TEST_PACKAGES := check libsubunit-dev libmicrohttpd-dev libfuse3-dev clang libclang-rt-dev clang-format cppcheck shellcheck \
	yamllint jq openssl nghttp2-proxy python3-grpcio e2fsprogs xfsprogs btrfs-progs fdisk buildah debootstrap prometheus mandoc lintian

.PHONY: deps build-deps upgrade-deps check asan tsan install compile_commands.json
## deps: install the missing Debian packages and fetch the Go modules of the tests (ARCH=arm64: and what cross-building takes)
deps: $(if $(ARCH),cross-deps sysroot)
	$(Q)test/lib/apt-missing.sh $(BUILD_PACKAGES) $(TEST_PACKAGES)
	$(Q)test/lib/go-modules.sh
## build-deps: install the missing Debian packages that the driver is built with, none for tests
build-deps: $(if $(ARCH),cross-deps sysroot)
	$(Q)test/lib/apt-missing.sh $(BUILD_PACKAGES)

## upgrade-deps: security updates of the packages of make deps and of all that they depend on; then make clean (docs/install/images.md)
upgrade-deps:
	$(Q)packaging/upgrade-deps.sh $(BUILD_PACKAGES) $(TEST_PACKAGES) $(CROSS_PACKAGES)

# What the suites of test/check.sh run, by flavour: built at once, before the first suite.
CHECK_PROGRAMS_release := $(BIN) $(SIM) $(CSI_CALL) $(RPC_TESTS) $(STUB_SERVER) $(MARKERS) $(CSI_SANITY) $(HCL_JSON) $(KUBECLIENT_PEER)
CHECK_PROGRAMS_debug   := $(BIN) $(SIM) $(MEMORY_BINS) $(API_FAULTS_TEST) $(TROUBLE_BINS) $(OUT)/test/lint/flags_table
CHECK_PROGRAMS_tsan    := $(SIM) $(UNIT_BINS) $(RPC_TESTS) $(STUB_SERVER) $(KUBECLIENT_TESTS) $(CONTROLLER_TEST) $(LISTS_TEST) $(STARTUP_TAINT_TEST)
CHECK_PROGRAMS_asan    := $(CHECK_PROGRAMS_tsan) $(SIM_TEST_BINS) $(INSPECT_TEST)
.PHONY: check-programs
## check-programs: the programs of make check in one FLAVOUR
check-programs: $(CHECK_PROGRAMS_$(FLAVOUR))

## check: all suites that need neither QEMU nor Kubernetes, with counts (about ten minutes on two processors; root for the parts with mounts)
check: deps
	$(Q)test/check.sh

## asan: the unit and RPC tests under AddressSanitizer and UndefinedBehaviorSanitizer
asan:
	$(Q)test/check.sh unit-asan rpc-asan
## tsan: the unit and RPC tests under ThreadSanitizer
tsan:
	$(Q)test/check.sh unit-tsan rpc-tsan

## install: the driver and the plug-in of kubectl into DESTDIR/PREFIX/bin (PREFIX is /usr/local)
PREFIX ?= /usr/local
install: $(BIN)
	install -D -m 0755 $(BIN) $(DESTDIR)$(PREFIX)/bin/snap-csi-plugin
	install -D -m 0755 packaging/kubectl-snapcsi $(DESTDIR)$(PREFIX)/bin/kubectl-snapcsi

## compile_commands.json: how each C file is compiled, for clangd and other tools (from `make --dry-run`)
COMPILED := $(SRCS) $(shell find test -name '*.c' ! -path '*/data/*' 2>/dev/null | sort)
compile_commands.json: gen-headers
	$(call say,JSON,$@)
	$(Q)$(MAKE) --no-print-directory --always-make --dry-run V=1 FLAVOUR=debug $(COMPILED:%.c=$(BUILD)/debug/%.o) | \
		test/tools/compile-commands.sh >$@

## clean: remove the build folder and compile_commands.json
clean:
	rm -rf $(BUILD) compile_commands.json
