# snap-csi: `make help` is the menu.
#
# One flavour per folder: build/release, build/debug, build/asan, build/tsan, build/fuzz, build/kill. Everything but main.o goes into one
# archive, so that every test links the objects that ship. Suites add their targets in test/*/rules.mk.
# Variables: FLAVOUR, BUILD (another build folder), CC, V=1 (show the commands).

FLAVOUR ?= release
BUILD   ?= build
CC      := $(if $(filter default undefined,$(origin CC)),gcc,$(CC))
VERSION := 1.0.0

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

CFLAGS_release := -O2 -g -D_FORTIFY_SOURCE=2 -ffunction-sections -fdata-sections
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
# A cross compiler has an ar of its own, and x86 alone has -fcf-protection: the compiler is asked for both.
AR     := $(or $(shell $(CC) -print-prog-name=ar 2>/dev/null),ar)
HARDEN := -fstack-protector-strong -fstack-clash-protection -fPIE -fno-common \
          $(if $(filter x86_64-% i386-% i486-% i586-% i686-%,$(shell $(CC) -dumpmachine 2>/dev/null)),-fcf-protection)
LDFLAGS_asan := -fsanitize=address,undefined
LDFLAGS_tsan := -fsanitize=thread
LDFLAGS_fuzz := -fsanitize=address,undefined
LDFLAGS_release := -Wl,--gc-sections

# System headers of the libraries are not held to our warnings.
CPPFLAGS := -Isrc -isystem $(GEN) -DSNAP_CSI_VERSION='"$(VERSION)"'
ALL_CFLAGS = $(CSTD) $(WARN) $(HARDEN) $(CFLAGS_$(FLAVOUR)) $(CPPFLAGS) $(CFLAGS)

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
PROTOS   := csi/csi.proto csi/pluginregistration.proto csi/health.proto
WKT      := google/protobuf/timestamp.proto google/protobuf/wrappers.proto
GEN_SRCS := $(PROTOS:%.proto=$(GEN)/%.pb-c.c) $(WKT:%.proto=$(GEN)/%.pb-c.c)
GEN_OBJS := $(GEN_SRCS:$(GEN)/%.c=$(OUT)/gen/%.o)
LIB_OBJS := $(LIB_SRCS:%.c=$(OUT)/%.o)
LIB      := $(OUT)/libsnapcsi.a

.PHONY: all help clean
## all: the driver, build/release/snap-csi-plugin (FLAVOUR=debug, asan, tsan: build/FLAVOUR)
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
endef

$(BIN): $(OUT)/src/main.o $(LIB)
	$(call link,$(LIBS))

$(LIB): $(LIB_OBJS) $(GEN_OBJS)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(OUT)/src/%.o: src/%.c | gen-headers
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D) && $(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

$(OUT)/test/%.o: test/%.c | gen-headers
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D) && $(CC) $(ALL_CFLAGS) -I. -MMD -MP -c -o $@ $<

# Generated code: no warnings of ours, the same hardening.
$(OUT)/gen/%.o: $(GEN)/%.c | gen-headers
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D) && $(CC) $(CSTD) -w $(HARDEN) $(CFLAGS_$(FLAVOUR)) -isystem $(GEN) $(CFLAGS) -MMD -MP -c -o $@ $<

.PHONY: gen-headers
## gen-headers: C files from the .proto files, into build/gen
gen-headers: $(GEN_SRCS)
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
KILL_BIN := $(BUILD)/kill/snap-csi-plugin

# Where suites in Python find what they share; they leave no compiled modules in the tree.
export PYTHONPATH := $(CURDIR)/test/lib/py
export PYTHONDONTWRITEBYTECODE := 1

# What a test program is linked with beside the driver's libraries.
CHECK_LIBS := -lcheck -lsubunit -lrt -lm
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
UNIT_SHARED := $(shell find test/unit -name '*.c' ! -name 'test_*' 2>/dev/null)
$(foreach file,$(UNIT_SHARED),$(eval $(filter $(OUT)/$(dir $(file))%,$(UNIT_BINS)): $(OUT)/$(file:.c=.o)))

# They wait more than they work: begun first, they end beside the others.
UNIT_LONG := $(filter %/node/test_unstage %/kube/test_kube_wait %/node/test_stage %/node/test_format,$(UNIT_BINS))

.PHONY: unit
## unit: the unit tests of one FLAVOUR, with counts
unit: $(UNIT_BINS)
	$(Q)RUN_JOBS=3 test/lib/run-suites.sh "unit $(FLAVOUR)" $(UNIT_LONG) $(filter-out $(UNIT_LONG),$(UNIT_BINS))

-include $(wildcard test/*/rules.mk)

# ---------------------------------------------------------------- packages, checks, image
# What the driver is built with, and what only its tests and tools need. `make deps` installs what is missing. No name has a
# version, since each release of Debian and Ubuntu has another: g++ brings the libstdc++.a of its gcc, which the static gRPC needs.
BUILD_PACKAGES := gcc g++ make libc6-dev pkg-config protobuf-compiler libprotobuf-dev protobuf-c-compiler libprotobuf-c-dev \
	libgrpc-dev zlib1g-dev libcurl4-openssl-dev libcjson-dev libyaml-dev libmount-dev libblkid-dev
TEST_PACKAGES := check libsubunit-dev libmicrohttpd-dev clang libclang-rt-dev clang-format cppcheck shellcheck \
	yamllint jq openssl nghttp2-proxy python3-grpcio e2fsprogs xfsprogs btrfs-progs fdisk buildah debootstrap

.PHONY: deps build-deps check asan tsan install image compile_commands.json
## deps: install the missing Debian packages and fetch the Go modules of the tests
deps:
	$(Q)test/lib/apt-missing.sh $(BUILD_PACKAGES) $(TEST_PACKAGES)
	$(Q)test/lib/go-modules.sh
## build-deps: install the missing Debian packages that the driver is built with, none for tests
build-deps:
	$(Q)test/lib/apt-missing.sh $(BUILD_PACKAGES)

## check: all suites that need neither QEMU nor Kubernetes, with counts (about ten minutes; root for the parts with mounts)
check: deps
	$(Q)test/check.sh

## asan: the unit and RPC tests under AddressSanitizer and UndefinedBehaviorSanitizer
asan:
	$(Q)test/check.sh unit-asan rpc-asan
## tsan: the unit and RPC tests under ThreadSanitizer
tsan:
	$(Q)test/check.sh unit-tsan rpc-tsan

## install: the driver into DESTDIR/PREFIX/bin (PREFIX is /usr/local)
PREFIX ?= /usr/local
install: $(BIN)
	install -D -m 0755 $(BIN) $(DESTDIR)$(PREFIX)/bin/snap-csi-plugin

## image: a container image by buildah (BASE=image to build from, IMAGE=name)
BASE  ?= docker.io/library/debian:bookworm-slim
IMAGE ?= localhost/snap-csi:$(VERSION)
image:
	buildah bud --build-arg BASE=$(BASE) -t $(IMAGE) .

## compile_commands.json: how each C file is compiled, for clangd and other tools (from `make --dry-run`)
COMPILED := $(SRCS) $(shell find test -name '*.c' ! -path '*/data/*' 2>/dev/null | sort)
compile_commands.json: gen-headers
	$(call say,JSON,$@)
	$(Q)$(MAKE) --no-print-directory --always-make --dry-run V=1 FLAVOUR=debug $(COMPILED:%.c=$(BUILD)/debug/%.o) | \
		test/tools/compile-commands.sh >$@

## clean: remove the build folder and compile_commands.json
clean:
	rm -rf $(BUILD) compile_commands.json
