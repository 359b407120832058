# The driver on emulated NVMe and virtio-fs functions: QEMU guests with Debian kernels. VM_ARGS="--only WORD --world NAME".
VM_DIR := $(BUILD)/vm

.PHONY: deps-vm e2e-vm
## deps-vm: what e2e-vm needs beyond `make deps` (QEMU with its virtiofsd, busybox, nvme-cli, cryptsetup)
deps-vm:
	$(Q)test/lib/apt-missing.sh qemu-system-x86 qemu-system-common busybox-static nvme-cli e2fsprogs xfsprogs btrfs-progs cpio kmod socat \
		cryptsetup-bin dmsetup xz-utils zstd python3-grpcio python3-protobuf protobuf-compiler

## e2e-vm: the node service on real NVMe and virtio-fs functions of QEMU guests (kernel 6.1, and backports where it can be had)
e2e-vm: deps-vm $(BIN) kill-build
	$(Q)test/vm/build.sh $(VM_DIR) stable
	$(Q)test/vm/build.sh $(VM_DIR) backports || [ $$? = 3 ]
	$(Q)/usr/bin/python3 test/vm/run.py --images $(VM_DIR) --binary $(BIN) --out $(VM_DIR)/py $(VM_ARGS)
