# csi-call: a CSI client for the shell.
CSI_CALL_OBJS := $(patsubst %.c,$(OUT)/%.o,test/tools/csi_call.c test/lib/message_json.c test/rpc/rpc_client.c)

$(CSI_CALL): $(CSI_CALL_OBJS) $(LIB)
	$(call link,$(LIBS))

.PHONY: tools
## tools: csi-call, a CSI client for the shell
tools: $(CSI_CALL)
