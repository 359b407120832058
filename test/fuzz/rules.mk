# Fuzzing by libFuzzer (clang): each fuzz_*.c is one target. Seeds are committed (seeds/<target>/), corpora stay in
# build/fuzz-corpus; a finding ends the run and its input is kept there.
FUZZ_SECONDS ?= 60
FUZZERS      := $(patsubst test/fuzz/%.c,%,$(wildcard test/fuzz/fuzz_*.c))

build/fuzz/test/fuzz/%: build/fuzz/test/fuzz/%.o build/fuzz/test/fuzz/check.o $(TEST_LIB) $(LIB)
	$(call link,-fsanitize=fuzzer $(FUZZ_LINK) $(LIBS))
build/fuzz/test/fuzz/fuzz_tools: FUZZ_LINK := -Wl,--wrap=spawn_run,--wrap=spawn_run_fd

.PHONY: fuzz fuzz-run
## fuzz: each fuzzer (libFuzzer, clang) for FUZZ_SECONDS (60)
fuzz:
	$(Q)$(MAKE) --no-print-directory FLAVOUR=fuzz BUILD=build fuzz-run
## fuzz-run: each fuzzer of a build with FLAVOUR=fuzz; `make fuzz` gives that
fuzz-run: $(FUZZERS:%=build/fuzz/test/fuzz/%)
	$(Q)test/fuzz/run.sh $(FUZZ_SECONDS) $(FUZZERS)
