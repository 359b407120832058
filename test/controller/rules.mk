# The controller's real handlers and Kubernetes client against snap-sim, a process of its own on loopback.
CONTROLLER_TEST := $(OUT)/test/controller/test_against_sim
$(CONTROLLER_TEST): $(OUT)/test/controller/test_against_sim.o $(TEST_LIB) $(LIB)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(LINKSEC) $(LDFLAGS_$(FLAVOUR)) -o $@ $^ $(LIBS) -lcheck -lsubunit -lrt -lm

.PHONY: controller-test
## controller-test: the controller against snap-sim and its faults, one FLAVOUR, with counts
controller-test: $(CONTROLLER_TEST) $(OUT)/snap-sim
	$(Q)CK_FORK=no SNAP_SIM=$(OUT)/snap-sim test/lib/run-suites.sh "controller $(FLAVOUR)" $(CONTROLLER_TEST)
