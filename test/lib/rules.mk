# snap-share: what a virtio-fs device is to the host, played by FUSE.
$(SHARE): $(OUT)/test/lib/share/snap_share.o
	$(call link,-lfuse3)
