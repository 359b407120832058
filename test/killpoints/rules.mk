# Kills the driver at every step. The driver is a build of its own in which the environment names the step.
# KILL_ARGS="--only WORD".
.PHONY: killpoints kill-build
## kill-build: the driver that can be told where to die, build/kill/snap-csi-plugin
kill-build:
	$(Q)$(MAKE) --no-print-directory FLAVOUR=kill $(KILL_BIN)
## killpoints: the driver killed at every step, and what kubelet's retry finds (root, loop devices); UPDATE_DOCS=1 writes the table
killpoints: $(BIN) $(SIM) kill-build
	$(Q)unshare --mount --propagation private /usr/bin/python3 test/killpoints/walk.py --out $(OUT) --kill-out $(BUILD)/kill --messages $(BUILD)/kill/py $(KILL_ARGS)
