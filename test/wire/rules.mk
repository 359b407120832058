# The interface itself: identical to the official one, and its secrets stay secret. Needs Go (for fetching, not for running).
MARKERS := $(OUT)/test/wire/markers
$(MARKERS): $(OUT)/test/wire/markers.o $(TEST_LIB) $(LIB)
	$(call link,$(LIBS) $(CHECK_LIBS))

.PHONY: wire-test
## wire-test: csi.proto against the official file; secrets in no log line and no error
wire-test: $(MARKERS) $(BIN) $(SIM)
	$(Q)test/wire/wire.sh $(MARKERS) $(BIN) $(SIM)
