# What is made of the program for hosts without Kubernetes: a Debian package and a tarball. Of another machine's program
# when ARCH says so.
PACKAGE_ARCH = $(or $(ARCH),$(shell dpkg --print-architecture))
# Beside those of other machines: a name has the machine in it.
DEB_DIR  ?= $(if $(ARCH),$(patsubst %/$(ARCH),%,$(BUILD)),$(BUILD))/deb
DIST_DIR ?= $(DEB_DIR:%/deb=%/dist)
MAINTAINER ?= snap-csi maintainers <snap-csi@localhost>
package_quote = '$(subst ','\'',$(1))'
package = VERSION='$(VERSION)' ARCH='$(PACKAGE_ARCH)' BIN='$(BIN)' CC='$(CC)' MAINTAINER=$(call package_quote,$(MAINTAINER)) OUT_DIR='$(1)' $(2)

.PHONY: deb dist man
## deb: a Debian package, build/deb/snap-csi_VERSION_ARCH.deb (MAINTAINER='Name <address>')
deb: $(BIN)
	$(Q)$(call package,$(DEB_DIR),packaging/deb.sh)

## dist: a tarball that runs from any folder, build/dist/snap-csi-VERSION-linux-ARCH.tar.gz
dist: $(BIN)
	$(Q)$(call package,$(DIST_DIR),packaging/dist.sh)

## man: write the options that --help lists into the man page and the completion for bash
man:
	$(Q)$(MAKE) --no-print-directory FLAVOUR=debug $(BUILD)/debug/snap-csi-plugin
	$(Q)packaging/tables.sh $(BUILD)/debug/snap-csi-plugin --write
