# csi-call: a CSI client for the shell.
$(CSI_CALL): $(OUT)/test/tools/csi_call.o $(TEST_LIB) $(LIB)
	$(call link,$(LIBS))

.PHONY: tools
## tools: csi-call, a CSI client for the shell
tools: $(CSI_CALL)
