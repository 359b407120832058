.PHONY: monitoring
## monitoring: a real Prometheus on a driver under faults: do alerts fire and end, has each panel data? (root, a minute)
monitoring: $(BIN) $(SIM) $(CSI_CALL)
	$(Q)BUILD=$(BUILD) FLAVOUR=$(FLAVOUR) test/monitoring/run.sh
