.PHONY: demo demo-built demo-svg
## demo: a volume's life on a simulated DPU, told step by step (root, loop devices)
demo: deps
	$(Q)$(MAKE) --no-print-directory demo-built

## demo-built: the story of make demo, without installing what it needs
demo-built: $(BIN) $(SIM) $(CSI_CALL)
	$(Q)BUILD=$(BUILD) FLAVOUR=$(FLAVOUR) test/demo/demo.sh

## demo-svg: the same as a picture that moves, build/release/demo.svg; with UPDATE_DOCS=1 docs/demo.svg
demo-svg: $(BIN) $(SIM) $(CSI_CALL)
	$(Q)BUILD=$(BUILD) FLAVOUR=$(FLAVOUR) test/demo/record.py $(OUT)/demo.svg 'make demo' test/demo/demo.sh
	$(Q)[ -z "$${UPDATE_DOCS-}" ] || cp $(OUT)/demo.svg docs/demo.svg
