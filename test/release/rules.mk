# The parts of a release, each by a target of its own; packaging/release.sh puts them together. docs/reference/release.md.
.PHONY: release release-test set-version
## release: tarballs, packages, images, chart, sums and notes of VERSION, from the commit that is checked out (docs/reference/release.md)
release:
	$(Q)BUILD=$(BUILD) packaging/release.sh $(VERSION) $(PARTS)
## release-test: is a release made twice the same, and refused where it would be wrong? FULL=1 makes every part twice
release-test:
	$(Q)FULL=$(FULL) test/release/release.sh
## set-version: write VERSION=X into the Makefile and all that repeats it
set-version:
	$(Q)packaging/version.sh set $(VERSION)
