# csi-call: a CSI client for the shell.
$(CSI_CALL): $(OUT)/test/tools/csi_call.o $(TEST_LIB) $(LIB)
	$(call link,$(LIBS))

# curl-floor: what libcurl alone takes, for make bench-kube.
$(OUT)/curl-floor: $(OUT)/test/tools/curl_floor.o $(LIB)
	$(call link,-lcurl $(LIBS))

.PHONY: tools
## tools: csi-call, a CSI client for the shell
tools: $(CSI_CALL)
