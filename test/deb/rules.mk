.PHONY: deb-test
## deb-test: the Debian package in a Debian made by debootstrap, with its systemd: install, attach, upgrade, boot, purge (root)
deb-test: $(BIN) $(SIM)
	$(Q)BUILD=$(BUILD) FLAVOUR=$(FLAVOUR) VERSION=$(VERSION) MAKE='$(MAKE)' test/deb/deb.sh
