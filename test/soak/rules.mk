# Lives of volumes under faults of everything at once. In a mount namespace of its own: no other test sees its mounts.
SOAK_SECONDS ?= 7200
.PHONY: soak
## soak: SOAK_SECONDS (7200) of lives under all faults at once, memory and threads flat, a plot in build/soak (root, loop devices)
soak: $(BIN) $(SIM)
	$(Q)unshare --mount --propagation private /usr/bin/python3 test/soak/soak.py --out $(OUT) --build $(BUILD) --seconds $(SOAK_SECONDS) $(SOAK_ARGS)
