# The driver on another release than the one that it is developed on. Neither part of `make check` nor of CI. Ubuntu 24.04:
# test/portable/build.sh noble MIRROR main,universe gutsy, with the address of an Ubuntu mirror
# (two tests differ there: its mke2fs makes no journal in 4 MiB, its libblkid has another text for a read error).
.PHONY: debian13
## debian13: build the driver and run its unit tests on Debian 13, in a root folder made by debootstrap (root; five minutes)
debian13:
	$(Q)test/portable/build.sh trixie
