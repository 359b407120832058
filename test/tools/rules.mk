# csi-call: a CSI client for the shell.
CSI_CALL := $(OUT)/csi-call
CSI_CALL_OBJS := $(patsubst %.c,$(OUT)/%.o,test/tools/csi_call.c test/lib/message_json.c test/rpc/rpc_client.c)

$(CSI_CALL): $(CSI_CALL_OBJS) $(LIB)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(LINKSEC) $(LDFLAGS_$(FLAVOUR)) $(LDFLAGS) -o $@ $^ $(LIBS)

.PHONY: tools
## tools: csi-call, a CSI client for the shell
tools: $(CSI_CALL)
