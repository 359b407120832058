# Programs of the unit tests, linked so that each error text and log line is written down (record.c). rows.txt names the tests.
comma := ,
TROUBLE_BINS := $(patsubst %,$(OUT)/test/troubleshooting/%,$(shell sed -nE 's/^[^\#].* \| unit ([^:]+):.*/\1/p' test/troubleshooting/rows.txt | sort -u))
TROUBLE_WRAP := $(patsubst %,-Wl$(comma)--wrap=%,err_set err_sys err_wrap node_volume_health node_storage_health volume_health holders_find holders_describe log_redirect)
$(OUT)/test/troubleshooting/%: $(OUT)/test/unit/%.o $(OUT)/test/troubleshooting/record.o $(TEST_LIB) $(LIB)
	$(Q)mkdir -p $(@D)
	$(call link,$(TROUBLE_WRAP) $(LIBS) $(CHECK_LIBS))
$(foreach file,$(UNIT_SHARED),$(eval $(filter $(OUT)/test/troubleshooting/$(patsubst test/unit/%,%,$(dir $(file)))%,$(TROUBLE_BINS)): $(OUT)/$(file:.c=.o)))

# As their unit tests, they serve folders as virtio-fs devices.
$(filter $(OUT)/test/troubleshooting/node/%,$(TROUBLE_BINS)): | $(SHARE)

.PHONY: troubleshooting
## troubleshooting: each row of docs/troubleshoot/by-symptom.md and error-texts.md provoked, its text compared with what is printed (root, loop devices)
troubleshooting:
	$(Q)$(MAKE) --no-print-directory FLAVOUR=debug troubleshooting-built
.PHONY: troubleshooting-built
## troubleshooting-built: the same in one FLAVOUR
troubleshooting-built: $(BIN) $(TROUBLE_BINS)
	$(Q)OUT=$(OUT) test/troubleshooting/run.py
