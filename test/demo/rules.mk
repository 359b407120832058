.PHONY: demo demo-built
## demo: a volume's life on a simulated DPU, told step by step (root, loop devices)
demo: deps
	$(Q)$(MAKE) --no-print-directory demo-built

## demo-built: the story of make demo, without installing what it needs
demo-built: $(BIN) $(SIM) $(CSI_CALL)
	$(Q)BUILD=$(BUILD) FLAVOUR=$(FLAVOUR) test/demo/demo.sh
