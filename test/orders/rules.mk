# Other orchestrators than Kubernetes, in a mount namespace of its own: no other test sees its mounts.
HCL_JSON := $(BUILD)/tools/hcl-json

$(HCL_JSON): test/orders/hcl_json.go test/orders/go.mod test/orders/go.sum
	$(call say,GO,$@)
	$(Q)mkdir -p $(@D) && cd test/orders && CGO_ENABLED=0 go build -mod=readonly -trimpath -o $(abspath $@) .

.PHONY: orders-test
## orders-test: the calls of Nomad and of Mesos in their order, against one process for both roles (root, loop devices)
orders-test: $(BIN) $(SIM) $(HCL_JSON)
	$(Q)unshare --mount --propagation private /usr/bin/python3 test/orders/orders.py --out $(OUT) --build $(BUILD) $(ORDERS_ARGS)
