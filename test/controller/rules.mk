# The controller's real handlers and Kubernetes client against snap-sim, a process of its own on loopback.
CONTROLLER_TEST := $(OUT)/test/controller/test_against_sim
$(CONTROLLER_TEST): $(OUT)/test/controller/test_against_sim.o $(TEST_LIB) $(LIB)
	$(call link,$(LIBS) $(CHECK_LIBS))

.PHONY: controller-test
## controller-test: the controller against snap-sim and its faults, one FLAVOUR, with counts
controller-test: $(CONTROLLER_TEST) $(SIM)
	$(Q)CK_FORK=no SNAP_SIM=$(SIM) test/lib/run-suites.sh "controller $(FLAVOUR)" $(CONTROLLER_TEST)
