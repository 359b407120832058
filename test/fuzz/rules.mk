# Fuzzing by libFuzzer (clang): each fuzz_*.c is one target. Corpora stay in build/fuzz-corpus; a finding ends the run.
FUZZ_SECONDS ?= 60
FUZZERS      := $(patsubst test/fuzz/%.c,%,$(wildcard test/fuzz/fuzz_*.c))

build/fuzz/test/fuzz/%: build/fuzz/test/fuzz/%.o $(LIB)
	$(call say,LINK,$@)
	$(Q)$(CC) -fsanitize=fuzzer $(LDFLAGS_fuzz) -o $@ $^ $(LIBS)

.PHONY: fuzz fuzz-run
## fuzz: each fuzzer for FUZZ_SECONDS (60)
fuzz:
	$(Q)$(MAKE) --no-print-directory FLAVOUR=fuzz BUILD=build fuzz-run
fuzz-run: $(FUZZERS:%=build/fuzz/test/fuzz/%)
	$(Q)for f in $(FUZZERS); do \
		mkdir -p build/fuzz-corpus/$$f && echo "fuzz: $$f, $(FUZZ_SECONDS) s" && \
		build/fuzz/test/fuzz/$$f -max_total_time=$(FUZZ_SECONDS) -max_len=4096 -verbosity=0 -print_final_stats=1 \
			-artifact_prefix=build/fuzz-corpus/$$f- build/fuzz-corpus/$$f || exit 1; \
	done
