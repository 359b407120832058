# The interface itself: identical to the official one, and its secrets stay secret. Needs Go (for fetching, not for running).
MARKERS := $(OUT)/test/wire/markers
$(MARKERS): $(OUT)/test/wire/markers.o $(RPC_SHARED) $(TEST_LIB_OBJS) $(LIB)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(LINKSEC) $(LDFLAGS_$(FLAVOUR)) -o $@ $^ $(LIBS) -lcheck -lsubunit -lrt -lm

.PHONY: wire-test
## wire-test: csi.proto against the official file; secrets in no log line and no error
wire-test: $(MARKERS) $(BIN) $(OUT)/snap-sim
	$(Q)$(RPC_ENV) test/wire/wire.sh $(MARKERS) $(BIN) $(OUT)/snap-sim
