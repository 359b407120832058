# What `inspect` says of prepared incidents: the report with its real Kubernetes client against snap-sim.
INSPECT_TEST := $(OUT)/test/inspect/test_incidents
$(INSPECT_TEST): $(OUT)/test/inspect/test_incidents.o $(TEST_LIB) $(LIB)
	$(call link,$(LIBS) $(CHECK_LIBS))

.PHONY: inspect-test
## inspect-test: what `snap-csi-plugin inspect` says of prepared incidents, against snap-sim, one FLAVOUR, with counts
inspect-test: $(INSPECT_TEST) $(SIM)
	$(Q)CK_FORK=no SNAP_SIM=$(SIM) test/lib/run-suites.sh "inspect $(FLAVOUR)" $(INSPECT_TEST)
