# The images of snap-csi: target `node` is the one for both roles, `controller` a smaller one for the controller alone. docs/install/images.md says what is in them.
#
#   make image                     on a Debian 12 that reaches a registry
#   make image BASE=localhost/...  with any Debian 12 image (test/image makes one with debootstrap)
#
# Both hold files of Debian packages that nobody has installed: packaging/rootfs.py takes them, from the programs which the
# driver starts, down to the libraries. The binary is /snap-csi-plugin and the working directory is /, as in the images
# of the Go plugin, so that relative endpoints (unix://csi/csi.sock) mean the same.

ARG BUILDPLATFORM
# What the images are put together in; nothing of it gets into them. A release pins it by its digest.
ARG BASE=docker.io/library/debian:bookworm-slim

FROM --platform=$BUILDPLATFORM ${BASE} AS tools
# A time of snapshot.debian.org (20260105T000000Z): the packages of that day, in this build and in any later one. Empty:
# today's, with all security updates.
ARG SNAPSHOT=
COPY packaging/sources.sh /packaging/
RUN /packaging/sources.sh "$SNAPSHOT" && apt-get -qq update && \
    apt-get -qq -y install --no-install-recommends python3 binutils >/dev/null

FROM tools AS rootfs
COPY packaging/*.py /packaging/
# A context of its own: what `make stripped` has built, for the machine of ARCH.
COPY --from=driver / /driver/
ARG ARCH
ARG SOURCE_DATE_EPOCH=0
RUN SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH PYTHONDONTWRITEBYTECODE=1 \
    /packaging/rootfs.py /rootfs controller node --arch "$ARCH" --driver /driver

FROM scratch AS controller
COPY --from=rootfs /rootfs/controller/ /
ARG VERSION
ARG COMMIT
LABEL org.opencontainers.image.title="snap-csi-controller" \
      org.opencontainers.image.description="CSI driver for NVIDIA DPUs: controller" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$COMMIT" \
      org.opencontainers.image.base.name="scratch"
WORKDIR /
# malloc keeps for each thread what the thread has freed, and a thread here may hang or wait for hours: 28 KB of each
# unmount that hangs. Measured (make bench-hung): 250 such calls take 12 MB in all, and 19 MB with those caches.
ENV GLIBC_TUNABLES=glibc.malloc.tcache_count=0
USER 65532:65532
ENTRYPOINT ["/snap-csi-plugin"]

FROM scratch AS node
COPY --from=rootfs /rootfs/node/ /
ARG VERSION
ARG COMMIT
LABEL org.opencontainers.image.title="snap-csi" \
      org.opencontainers.image.description="CSI driver for NVIDIA DPUs: both roles" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$COMMIT" \
      org.opencontainers.image.base.name="scratch"
WORKDIR /
# As above.
ENV GLIBC_TUNABLES=glibc.malloc.tcache_count=0
ENTRYPOINT ["/snap-csi-plugin"]
