.PHONY: bench
## bench: memory, start, calls per second, overhead of stage and create, beside the targets (root, loop devices)
bench: $(BIN) stripped $(SIM) $(CSI_CALL)
	$(Q)BUILD=$(BUILD) FLAVOUR=$(FLAVOUR) test/bench/bench.sh

.PHONY: bench-hung
## bench-hung: the calls of one healthy volume and the memory while 249 others hang (root, 250 loop devices, 3 minutes)
bench-hung: $(BIN) $(SIM) $(CSI_CALL)
	$(Q)BUILD=$(BUILD) FLAVOUR=$(FLAVOUR) test/bench/hung.sh
