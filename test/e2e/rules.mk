.PHONY: e2e
## e2e: kills, retries and many volumes at once, driver and snap-sim together (root, loop devices)
e2e: $(BIN) $(SIM) $(CSI_CALL)
	$(Q)BUILD=$(BUILD) FLAVOUR=$(FLAVOUR) test/e2e/run.sh

.PHONY: gate-test
## gate-test: the gate of --controlled-mode: streams that open it, end it, compete for it (root, loop devices)
gate-test: $(BIN) $(SIM) $(CSI_CALL)
	$(Q)BUILD=$(BUILD) FLAVOUR=$(FLAVOUR) test/e2e/gate.sh

.PHONY: errors
## errors: error paths of create, attach and stage through the program, as a table (root, loop devices)
errors: $(BIN) $(SIM) $(CSI_CALL)
	$(Q)BUILD=$(BUILD) FLAVOUR=$(FLAVOUR) test/e2e/errors.sh
