# csi-sanity, pinned by test/sanity/go.mod, against the real binary and snap-sim on loop devices.
CSI_SANITY := $(BUILD)/tools/csi-sanity

$(CSI_SANITY): test/sanity/go.mod test/sanity/go.sum
	$(call say,GO,$@)
	$(Q)mkdir -p $(@D) && cd test/sanity && CGO_ENABLED=0 go build -mod=readonly -trimpath -o $(abspath $@) \
		github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity

.PHONY: sanity
## sanity: csi-sanity with filesystems, raw block and virtio-fs (root, loop devices)
sanity: $(BIN) $(SIM) $(CSI_CALL) $(CSI_SANITY)
	$(Q)BUILD=$(BUILD) FLAVOUR=$(FLAVOUR) test/sanity/run.sh
