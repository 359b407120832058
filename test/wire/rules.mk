# The interface: identical to the official one, and secrets stay out of logs. Needs Go to fetch the official file.
MARKERS := $(OUT)/test/wire/markers
$(MARKERS): $(OUT)/test/wire/markers.o $(TEST_LIB) $(LIB)
	$(call link,$(LIBS) $(CHECK_LIBS))

.PHONY: wire-test
## wire-test: csi.proto against the official file; secrets in no log line and no error
wire-test: $(MARKERS) $(BIN) $(SIM)
	$(Q)test/wire/wire.sh $(MARKERS) $(BIN) $(SIM)
