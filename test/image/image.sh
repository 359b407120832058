#!/usr/bin/env bash
# Builds the image from the Dockerfile without a registry and runs what is in it. The base is a Debian made by
# debootstrap, kept in build/image/ (30 s the first time); images live in a storage of their own there.
# Ends with "image: N passed, N failed".
set -u
cd "$(dirname "$0")/../.." || exit 1
if [ "$(id -u)" -ne 0 ]; then
	echo 'SKIP: image: building a base by debootstrap needs root'
	echo 'image: 0 passed, 0 failed'
	exit 0
fi
work=$PWD/build/image
rootfs=$work/bookworm.tar
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
mkdir -p "$work"
cat >"$work/storage.conf" <<END
[storage]
driver = "overlay"
graphroot = "$work/storage"
runroot = "$work/run"
END
export CONTAINERS_STORAGE_CONF=$work/storage.conf BUILDAH_ISOLATION=chroot
passed=0 failed=0 container=

# Also on Ctrl-C: removes the containers and unmounts what buildah has left mounted, innermost first. The storage belongs to
# this test alone. Base and layers stay for the next run.
clean_up() {
	buildah rm --all >/dev/null 2>&1
	findmnt -rno TARGET | grep -F "$work/" | tac | while read -r target; do
		umount "$target"
	done
	rm -rf "$work/rootfs"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

check() { # what, command...
	local what=$1 output
	shift
	if output=$("$@" 2>&1); then
		echo "ok   $what"
		passed=$((passed + 1))
	else
		printf 'FAIL %s\n%s\n' "$what" "$output"
		failed=$((failed + 1))
	fi
}

make_base() {
	if [ ! -e "$rootfs" ]; then
		rm -rf "$work/rootfs"
		debootstrap --variant=minbase bookworm "$work/rootfs" "$mirror" >"$work/debootstrap.log" 2>&1 || return 1
		printf 'deb %s bookworm main\ndeb %s bookworm-updates main\n' "$mirror" "$mirror" >"$work/rootfs/etc/apt/sources.list"
		rm -rf "$work"/rootfs/var/cache/apt/archives/*.deb "$work"/rootfs/var/lib/apt/lists/*
		tar -C "$work/rootfs" -cf "$rootfs.new" . && mv "$rootfs.new" "$rootfs" && rm -rf "$work/rootfs"
	fi
	buildah inspect --type image localhost/bookworm >/dev/null 2>&1 && return 0
	container=$(buildah from scratch) &&
		buildah add -q "$container" "$rootfs" / >/dev/null &&
		buildah commit -q "$container" localhost/bookworm >/dev/null &&
		buildah rm "$container" >/dev/null && container=
}

build_image() {
	buildah bud --pull-never --layers --network host --build-arg BASE=localhost/bookworm -t localhost/snap-csi:test .
}

inside() { buildah run "$container" -- "$@"; }
help_is_readable() { inside /snap-csi-plugin --help | grep -q -- '--mode=MODE'; }
bad_flags_exit_1() { inside /snap-csi-plugin --mode=nothing; [ $? -eq 1 ]; }
config_is() { buildah inspect --type image localhost/snap-csi:test | jq -e ".OCIv1.config | $1" >/dev/null; }
libraries_are_there() { ! inside sh -c 'ldd /snap-csi-plugin' | grep 'not found'; }
size() { buildah images --json localhost/snap-csi:test | jq -r '.[0].size'; }

check 'a Debian base by debootstrap' make_base
check 'the image is built' build_image
container=$(buildah from --pull-never localhost/snap-csi:test) || exit 1
check 'no library of the driver is missing' libraries_are_there
check '--help runs' help_is_readable
check '--version runs' inside /snap-csi-plugin --version
check 'a bad configuration exits with 1' bad_flags_exit_1
check 'the program is the entry point' config_is '.Entrypoint == ["/snap-csi-plugin"]'
check 'the working directory is /' config_is '.WorkingDir == "/"'
for tool in 'mkfs.ext4 -V' 'mkfs.xfs -V' 'mkfs.btrfs --version' 'fsck.ext4 -V' 'xfs_repair -V' 'modprobe --version'; do
	# shellcheck disable=SC2086 # a command and its argument
	check "the image has ${tool% *}" inside $tool
done
check 'libcurl is there for the controller' inside sh -c 'ls /usr/lib/*/libcurl.so.4'
echo "image size: $(size)"
echo "image: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
