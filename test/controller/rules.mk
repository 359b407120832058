# The controller's real handlers and Kubernetes client against snap-sim, a process of its own on loopback.
CONTROLLER_TEST := $(OUT)/test/controller/test_against_sim
$(CONTROLLER_TEST): $(OUT)/test/controller/test_against_sim.o $(TEST_LIB) $(LIB)
	$(call link,$(LIBS) $(CHECK_LIBS))
LISTS_TEST := $(OUT)/test/controller/test_lists
$(LISTS_TEST): $(OUT)/test/controller/test_lists.o $(TEST_LIB) $(LIB)
	$(call link,$(LIBS) $(CHECK_LIBS))
STARTUP_TAINT_TEST := $(OUT)/test/controller/test_startup_taint
$(STARTUP_TAINT_TEST): $(OUT)/test/controller/test_startup_taint.o $(TEST_LIB) $(LIB)
	$(call link,$(LIBS) $(CHECK_LIBS))

.PHONY: controller-test
## controller-test: the controller against snap-sim and its faults, one FLAVOUR, with counts
controller-test: $(CONTROLLER_TEST) $(LISTS_TEST) $(STARTUP_TAINT_TEST) $(SIM)
	$(Q)CK_FORK=no SNAP_SIM=$(SIM) RUN_JOBS=3 test/lib/run-suites.sh "controller $(FLAVOUR)" $(CONTROLLER_TEST) $(LISTS_TEST) \
		$(STARTUP_TAINT_TEST)

API_FAULTS_TEST := $(OUT)/test/controller/test_api_faults
$(API_FAULTS_TEST): $(OUT)/test/controller/test_api_faults.o $(TEST_LIB) $(LIB)
	$(call link,$(LIBS) $(CHECK_LIBS))

.PHONY: api-faults
## api-faults: every fault of the API server at every request of the controller; test/reports/api-faults.md
api-faults: $(API_FAULTS_TEST) $(SIM)
	$(Q)CK_FORK=no SNAP_SIM=$(SIM) test/lib/run-suites.sh "api-faults $(FLAVOUR)" $(API_FAULTS_TEST)
