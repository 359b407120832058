# Building for another machine, and its tests in QEMU's user mode. `make ARCH=arm64 ...` builds anything into build/arm64.
CROSS_PACKAGES := gcc-aarch64-linux-gnu g++-aarch64-linux-gnu qemu-user
# Of the packages that the Makefile names below, the libraries: those are the other machine's, the programs this one's.
CROSS_LIBRARIES = $(filter-out libc6-dev libprotobuf-dev libclang-rt-dev,$(filter lib%-dev zlib1g-dev check,$(BUILD_PACKAGES) $(TEST_PACKAGES)))

# How the driver is started there; the program itself is what ships.
CROSS_DRIVER := $(OUT)/run/snap-csi-plugin
$(CROSS_DRIVER): $(BIN)
	$(Q)mkdir -p $(@D) && ln -f $< $@ && test/cross/runner.sh $@ $(RUNNER)

.PHONY: cross-deps sysroot cross-tests arm64-test
## cross-deps: the cross compiler and QEMU's user mode
cross-deps:
	$(Q)test/lib/apt-missing.sh $(CROSS_PACKAGES)
## sysroot: the other machine's libraries, into build/arm64/sysroot (with ARCH=arm64)
sysroot:
	$(Q)$(if $(ARCH),test/cross/sysroot.sh $(ARCH) $(SYSROOT) $(CROSS_LIBRARIES))
## cross-tests: the unit and RPC tests, built and not run (with ARCH=arm64)
cross-tests: $(UNIT_BINS) $(patsubst %.c,$(OUT)/%,$(wildcard test/rpc/test_*.c)) $(OUT)/test/rpc/stub_server
## arm64-test: everything cross-built for arm64, its unit, RPC and main tests in QEMU's user mode (CROSS_ROOT=1: those with mounts too)
arm64-test: cross-deps
	$(Q)$(MAKE) --no-print-directory ARCH=arm64 FLAVOUR=release arm64-release
	$(Q)$(MAKE) --no-print-directory ARCH=arm64 FLAVOUR=debug cross-tests
	$(Q)$(MAKE) --no-print-directory ARCH=arm64 FLAVOUR=debug arm64-run
.PHONY: arm64-release arm64-run
## arm64-release: driver, snap-sim and csi-call of arm64-test
arm64-release: $(BIN) $(CROSS_DRIVER) $(SIM) $(CSI_CALL)
## arm64-run: the tests of arm64-test that have been built
arm64-run:
	$(Q)OBJDUMP=aarch64-linux-gnu-objdump test/cross/run.sh arm64 $(BUILD)/debug $(BUILD)/release $(UNIT_LONG) $(filter-out $(UNIT_LONG),$(UNIT_BINS)) $(RPC_TESTS)
