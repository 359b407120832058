#!/usr/bin/env bash
# Prints the path of a tar file with a minimal Debian 12, created by debootstrap if it is missing (30 s). Suites share it;
# each owns its unpacked copy. Needs root. The mirror is DEBIAN_MIRROR.
set -eu
cd "$(dirname "$0")/../.." || exit 1
work=$PWD/build/image tar=$PWD/build/image/bookworm.tar
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
mkdir -p "$work"
exec 9>"$work/bookworm.lock"
flock 9
if [ ! -e "$tar" ]; then
	trap 'rm -rf --one-file-system "$work/rootfs"' EXIT
	rm -rf --one-file-system "$work/rootfs"
	debootstrap --variant=minbase bookworm "$work/rootfs" "$mirror" >"$work/debootstrap.log" 2>&1 9>&- || {
		tail -n 20 "$work/debootstrap.log" >&2
		exit 1
	}
	printf 'deb %s bookworm main\ndeb %s bookworm-updates main\n' "$mirror" "$mirror" >"$work/rootfs/etc/apt/sources.list"
	rm -rf "$work"/rootfs/var/cache/apt/archives/*.deb "$work"/rootfs/var/lib/apt/lists/*
	tar -C "$work/rootfs" -cf "$tar.new" . && mv "$tar.new" "$tar"
fi
echo "$tar"
