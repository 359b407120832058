.PHONY: bench
## bench: memory, start, calls per second, overhead of stage and create, beside the targets (root, loop devices)
bench: $(BIN) $(OUT)/snap-sim $(OUT)/csi-call
	$(Q)BUILD=$(BUILD) FLAVOUR=$(FLAVOUR) test/bench/bench.sh
