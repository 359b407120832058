# The image of snap-csi: controller and node.
#
#   make image                     on a machine that reaches a registry
#   make image BASE=localhost/...  from any Debian 12 image (test/image makes one with debootstrap)
#
# The binary is /snap-csi-plugin and the working directory is /, as in the images of the Go plugin, so that relative
# endpoints (unix://csi/csi.sock) mean the same.

ARG BASE=docker.io/library/debian:bookworm-slim

FROM ${BASE} AS build
RUN apt-get -qq update && apt-get -qq -y install --no-install-recommends make >/dev/null
WORKDIR /src
# The list of packages changes more rarely than the sources: this layer is kept.
COPY Makefile Makefile
COPY test/lib/apt-missing.sh test/lib/apt-missing.sh
RUN make build-deps >/dev/null
COPY csi csi
COPY src src
RUN make -j"$(nproc)" && strip -o /snap-csi-plugin build/release/snap-csi-plugin

FROM ${BASE}
# Libraries of the driver; libcurl4 is loaded by the controller only. The others are programs that a node runs:
# mkfs and fsck of each filesystem, resize tools, and modprobe (kmod).
RUN apt-get -qq update && \
    apt-get -qq -y install --no-install-recommends \
        libcurl4 libcjson1 libyaml-0-2 libmount1 libblkid1 zlib1g \
        e2fsprogs xfsprogs btrfs-progs kmod >/dev/null && \
    rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/* /usr/share/doc /usr/share/man /usr/share/locale
COPY --from=build /snap-csi-plugin /snap-csi-plugin
WORKDIR /
# malloc keeps for each thread what the thread has freed, and a thread here may hang or wait for hours: 28 KB of each
# unmount that hangs. Measured (make bench-hung): 250 such calls take 12 MB in all, and 19 MB with those caches.
ENV GLIBC_TUNABLES=glibc.malloc.tcache_count=0
ENTRYPOINT ["/snap-csi-plugin"]
