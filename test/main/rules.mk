.PHONY: main-test
## main-test: the program itself: flags, exit codes, signals, what it maps, an API server that is away
main-test: $(BIN) $(CSI_CALL)
	$(Q)DRIVER=$(BIN) CSI_CALL=$(CSI_CALL) test/main/main.sh
