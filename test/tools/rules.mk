# csi-call: a CSI client for the shell.
CSI_CALL := $(OUT)/csi-call
TOOL_OBJS := $(patsubst %.c,$(OUT)/%.o,$(wildcard test/tools/*.c) test/lib/message_json.c)

$(CSI_CALL): $(TOOL_OBJS) $(LIB)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(LINKSEC) $(LDFLAGS_$(FLAVOUR)) $(LDFLAGS) -o $@ $^ $(LIBS)

.PHONY: tools
tools: $(CSI_CALL)
