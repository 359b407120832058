.PHONY: bench
## bench: memory, start, calls per second, overhead of stage and create, beside the targets (root, loop devices)
bench: $(BIN) $(SIM) $(CSI_CALL)
	$(Q)BUILD=$(BUILD) FLAVOUR=$(FLAVOUR) test/bench/bench.sh
