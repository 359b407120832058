# What is shipped: the driver without what a debugger reads, and the two images (Dockerfile).
STRIP    = $(shell $(CC) -print-prog-name=strip)
STRIPPED := $(or $(SHIP),$(OUT)/stripped)

.PHONY: stripped image image-list
## stripped: the driver as it is shipped, which packages are linked into it, their copyrights, and its libcurl (build/release/stripped)
stripped: $(STRIPPED)/snap-csi-plugin $(STRIPPED)/kubectl-snapcsi $(STRIPPED)/snap-csi-plugin.packages $(STRIPPED)/libcurl.so.4
# A program for another machine is a script for its tests and the file beside it.
$(STRIPPED)/snap-csi-plugin: $(BIN)
	$(call say,STRIP,$@)
	$(Q)mkdir -p $(@D) && $(STRIP) -o $@ $(BIN)$$(test ! -e $(BIN).elf || echo .elf)
$(STRIPPED)/snap-csi-plugin.packages: $(BIN) packaging/static-packages.sh
	$(call say,LIST,$@)
	$(Q)mkdir -p $(@D) && packaging/static-packages.sh $(BIN).map $(@D)/copyright $(SYSROOT) >$@.new
	$(Q)printf 'snap-csi-plugin\t%s\t%s\t\t%s\t\n' '$(VERSION)' '$(DEB_ARCH)' '$(COMMIT)' | cat - $@.new >$@ && rm $@.new
$(STRIPPED)/kubectl-snapcsi: packaging/kubectl-snapcsi
	$(Q)install -D -m 0755 $< $@
# -fPIE is for programs.
$(STRIPPED)/libcurl.so.4: packaging/libcurl.sh
	$(call say,BUILD,$@)
	$(Q)mkdir -p $(@D) && SYSROOT='$(SYSROOT)' SNAPSHOT='$(SNAPSHOT)' packaging/libcurl.sh $@ $(shell $(CC) -dumpmachine) '$(CC)' $(filter-out -fPIE,$(HARDEN))

DEB_ARCH = $(or $(ARCH),$(shell dpkg --print-architecture))
# A build of the same commit has the same time in all its files.
SOURCE_DATE_EPOCH ?= $(or $(shell git log -1 --format=%ct 2>/dev/null),0)
IMAGE    ?= localhost/snap-csi:$(VERSION)
CONTROLLER_IMAGE ?= localhost/snap-csi-controller:$(VERSION)
BASE     ?= docker.io/library/debian:bookworm-slim
SNAPSHOT ?=
IMAGE_ARGS = --layers --timestamp $(SOURCE_DATE_EPOCH) --identity-label=false --platform linux/$(DEB_ARCH) \
	--build-context driver=$(STRIPPED) --build-arg BUILDPLATFORM=linux/$(shell dpkg --print-architecture) \
	--build-arg ARCH=$(DEB_ARCH) --build-arg BASE=$(BASE) --build-arg SNAPSHOT=$(SNAPSHOT) --build-arg VERSION=$(VERSION) \
	--build-arg COMMIT=$(COMMIT) --build-arg SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH)
## image: the image of both roles, and one of the controller alone, by buildah (IMAGE=, CONTROLLER_IMAGE=, BASE=, SNAPSHOT=; docs/install/images.md)
image: stripped
	$(Q)buildah bud $(IMAGE_ARGS) $(IMAGE_FLAGS) --target controller -t $(CONTROLLER_IMAGE) .
	$(Q)buildah bud $(IMAGE_ARGS) $(IMAGE_FLAGS) --target node -t $(IMAGE) .

# One name for several machines: who pulls it gets the image of the own machine.
IMAGE_ARCHES ?= amd64 arm64
NATIVE_ARCH   = $(shell dpkg --print-architecture)
define image_list
	$(Q)buildah manifest rm $(1) >/dev/null 2>&1 || true
	$(Q)buildah manifest create $(1) >/dev/null
	$(Q)for arch in $(IMAGE_ARCHES); do buildah manifest add --arch "$$arch" --os linux $(1) "containers-storage:$(1)-$$arch" >/dev/null || exit 1; done

endef
## image-list: both images for each machine of IMAGE_ARCHES (amd64 arm64), under one name each (a manifest list)
image-list:
	$(Q)for arch in $(IMAGE_ARCHES); do \
		machine=$$([ "$$arch" = $(NATIVE_ARCH) ] || echo "$$arch"); \
		$(MAKE) --no-print-directory ARCH="$$machine" build-deps && \
		$(MAKE) --no-print-directory ARCH="$$machine" image IMAGE=$(IMAGE)-$$arch CONTROLLER_IMAGE=$(CONTROLLER_IMAGE)-$$arch || exit 1; \
	done
	$(call image_list,$(CONTROLLER_IMAGE))
	$(call image_list,$(IMAGE))
