#!/usr/bin/env bash
# Makes the files that a guest boots from: a Debian kernel (unpacked, not installed), and as one initramfs its modules and
# the tools that the driver and the tests run. Cached per kernel release. Usage: build.sh OUT-DIR [stable|backports]
# Leaves OUT-DIR/<suite>/{vmlinux,initramfs.cpio,release}. Exit 3: this suite's kernel is not available here.
set -euo pipefail
out=$(mkdir -p "$1" && cd "$1" && pwd)
suite=${2:-stable}
here=$(cd "$(dirname "$0")" && pwd)
dir=$out/$suite
mkdir -p "$dir"

# apt reads its own configuration, so that a package of backports can be fetched without changing the machine's sources.
apt_options=()
if [ "$suite" = backports ]; then
	apt_options=(-o "Dir::Etc::sourcelist=$dir/backports.list" -o "Dir::Etc::sourceparts=-"
		-o "Dir::State::lists=$dir/lists" -o "Dir::Cache=$dir/cache")
	mkdir -p "$dir/lists/partial" "$dir/cache/archives/partial"
	uri=$(apt-get indextargets --format '$(SITE)|$(RELEASE)' 2>/dev/null | awk -F'|' '$2 == "bookworm" && !seen++ {print $1}')
	[ -n "$uri" ] || exit 3
	case $uri in */debian*) ;; *) uri=$uri/debian ;; esac
	printf 'deb %s bookworm-backports main\n' "$uri" >"$dir/backports.list"
	apt-get "${apt_options[@]}" -qq update >/dev/null 2>&1 || exit 3
fi
package=$(apt-cache "${apt_options[@]}" depends linux-image-amd64 2>/dev/null | awk '/Depends: linux-image-[0-9]/ && !seen++ {print $2}')
[ -n "$package" ] || exit 3
release=${package#linux-image-}
stamp="$release $(cat "$0" "$here/guest-init" "$here/guest-lib.sh" | sha256sum | cut -d' ' -f1)"
if [ -e "$dir/initramfs.cpio" ] && [ "$(cat "$dir/stamp" 2>/dev/null)" = "$stamp" ]; then
	exit 0
fi

if [ ! -e "$dir/kernel/boot/vmlinuz-$release" ]; then
	rm -rf "$dir/kernel" && mkdir -p "$dir/kernel"
	(cd "$dir/kernel" && apt-get "${apt_options[@]}" -qq download "$package" 2>/dev/null && dpkg-deb -x "$package"_*.deb . && rm -f "$package"_*.deb) || exit 3
	depmod -b "$dir/kernel" "$release"
fi
# An ELF kernel boots by PVH: four seconds less of emulated decompression.
python3 "$here/extract-vmlinux.py" "$dir/kernel/boot/vmlinuz-$release" "$dir/vmlinux"

root=$(mktemp -d "$dir/root.XXXXXX")
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{bin,sbin,usr/bin,usr/sbin,lib,lib64,etc,proc,sys,dev,run,tmp,mnt,var/lib,root}

# Copies a program with the libraries that it is linked to.
add() {
	local src dest=$2
	src=$(readlink -f "$1")
	mkdir -p "$root$(dirname "$dest")"
	cp -L "$src" "$root$dest"
	{ ldd "$src" 2>/dev/null || true; } | grep -o '/[^ ]*' | while read -r lib; do
		[ -e "$root$lib" ] || { mkdir -p "$root$(dirname "$lib")" && cp -L "$lib" "$root$lib"; }
	done
}
cp /usr/bin/busybox "$root/bin/busybox"
chroot "$root" /bin/busybox --install -s /bin
for tool in mount umount findmnt lsblk blkid losetup blockdev blkdiscard wipefs mkfs.ext4 mkfs.ext3 mkfs.xfs mkfs.btrfs e2fsck fsck.ext4 resize2fs dumpe2fs \
	tune2fs debugfs xfs_growfs xfs_repair xfs_io xfs_db btrfs nvme kmod socat setsid timeout cryptsetup dmsetup; do
	path=$(command -v "$tool" || true)
	[ -n "$path" ] || { echo "build.sh: $tool is missing (make deps-vm)" >&2; exit 1; }
	rm -f "$root/bin/$tool" "$root/sbin/$tool"
	add "$path" "/sbin/$tool"
done
cp /sbin/fsck.xfs /sbin/fsck.btrfs "$root/sbin/" 2>/dev/null || true
for name in modprobe insmod lsmod rmmod modinfo depmod; do
	rm -f "$root/bin/$name"
	ln -sf kmod "$root/sbin/$name"
done
# Libraries of the driver, so that only the binary changes between runs.
for lib in libmount.so.1 libblkid.so.1 libcjson.so.1 libyaml-0.so.2 libz.so.1 libm.so.6 libgcc_s.so.1; do
	path=$(ldconfig -p | awk -v l="$lib" '$1 == l && !seen++ {print $NF}')
	[ -n "$path" ] && { [ -e "$root$path" ] || { mkdir -p "$root$(dirname "$path")" && cp -L "$path" "$root$path"; }; }
done
# The driver loads libcryptsetup with dlopen(). add() also copies the libraries that libcryptsetup is linked to.
path=$(ldconfig -p | awk '$1 == "libcryptsetup.so.12" && !seen++ {print $NF}')
[ -n "$path" ] || { echo 'build.sh: libcryptsetup.so.12 is missing (make deps-vm)' >&2; exit 1; }
add "$path" "$path"

modules="nvme virtiofs ext4 xfs btrfs loop virtio_pci virtio_net virtio_blk virtio_console 9p 9pnet_virtio crc32c_generic crc32c_intel vfio_pci vfio_iommu_type1 overlay ahci sd_mod e1000e xhci_pci usb_storage"
# The kernel requests ciphers by alias (crypto-xts), so modprobe --show-depends dm_crypt does not list their modules.
modules="$modules dm_mod dm_crypt xts ecb cbc aes_generic aesni_intel sha256_generic af_alg algif_skcipher algif_hash"
for module in $modules; do
	{ modprobe -S "$release" -d "$dir/kernel" --show-depends "$module" 2>/dev/null || true; } | awk '$1 == "insmod" {print $2}'
done | sort -u | while read -r file; do
	dest=$root/${file#"$dir"/kernel/}
	mkdir -p "$(dirname "$dest")" && cp "$file" "$dest"
done
cp "$dir/kernel/lib/modules/$release"/modules.{builtin,order,builtin.modinfo} "$root/lib/modules/$release/"
depmod -b "$root" "$release"
printf 'root:x:0:0:root:/root:/bin/sh\n' >"$root/etc/passwd"
printf 'root:x:0:\n' >"$root/etc/group"
install -m 755 "$here/guest-init" "$root/init"
install -m 644 "$here/guest-lib.sh" "$root/etc/guest-lib.sh"
(cd "$root" && find . -print0 | cpio --null -o -H newc --quiet) >"$dir/initramfs.cpio"
printf '%s\n' "$release" >"$dir/release"
printf '%s\n' "$stamp" >"$dir/stamp"
