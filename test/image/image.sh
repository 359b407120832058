#!/usr/bin/env bash
# Builds both images from the Dockerfile without a registry, inspects their contents and runs them; then builds them again
# from the beginning: the digests must be the same. The base is a Debian created by debootstrap, kept in build/image/ (30 s
# the first time); images have their own storage there. The lists of packages go to build/sbom. Ends with "image: N passed, N
# failed".
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
passed=0 failed=0

# Runs even after Ctrl-C: removes the containers and unmounts what buildah has left mounted, innermost first. The storage
# belongs to this test only. Base and layers stay for the next run.
clean_up() {
	buildah rm --all >/dev/null 2>&1
	findmnt -rno TARGET | grep -F "$work/" | tac | while read -r target; do
		umount "$target"
	done
	rm -rf "$work/rootfs" "$work/refused" "$work/driver" "$work/disk"
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
		printf 'FAIL %s\n%s\n' "$what" "$(tail -n 40 <<<"$output")"
		failed=$((failed + 1))
	fi
}

make_base() {
	local container
	if [ ! -e "$rootfs" ]; then
		rm -rf "$work/rootfs"
		debootstrap --variant=minbase bookworm "$work/rootfs" "$mirror" >"$work/debootstrap.log" 2>&1 || return 1
		printf 'deb %s bookworm main\ndeb %s bookworm-updates main\ndeb %s-security bookworm-security main\n' "$mirror" "$mirror" "$mirror" \
			>"$work/rootfs/etc/apt/sources.list"
		rm -rf "$work"/rootfs/var/cache/apt/archives/*.deb "$work"/rootfs/var/lib/apt/lists/*
		tar -C "$work/rootfs" -cf "$rootfs.new" . && mv "$rootfs.new" "$rootfs" && rm -rf "$work/rootfs"
	fi
	buildah inspect --type image localhost/bookworm >/dev/null 2>&1 && return 0
	container=$(buildah from scratch) &&
		buildah add -q "$container" "$rootfs" / >/dev/null &&
		buildah commit -q "$container" localhost/bookworm >/dev/null &&
		buildah rm "$container" >/dev/null
}

# As `make image` builds them.
build_images() { # TAG
	make --no-print-directory image BASE=localhost/bookworm IMAGE="localhost/snap-csi:$1" CONTROLLER_IMAGE="localhost/snap-csi-controller:$1" IMAGE_FLAGS="--pull-never --network host ${FLAGS:-}"
}
id_of() { buildah inspect --type image "localhost/$1" | jq -r .FromImageID; }
same_image() { [ -n "$(id_of "$1:test")" ] && [ "$(id_of "$1:test")" = "$(id_of "$1:again")" ]; }
role='' name=''
name_of() { [ "$1" = node ] && echo snap-csi || echo "snap-csi-$1"; }
at='' # where the image of the role is mounted
inside() { buildah run "$container" -- "$@"; }
# Without buildah run, which loses the output of one in 80 programs that end at once.
printed_by() { chroot "$at" "$@" 2>&1; }
help_is_readable() { printed_by /snap-csi-plugin --help | grep -q -- '--mode=MODE'; }
bad_flags_exit_1() { inside /snap-csi-plugin --mode=nothing; [ $? -eq 1 ]; }
config_is() { buildah inspect --type image "localhost/$name:test" | jq -e ".OCIv1 | $1" >/dev/null; }
bytes() { find "$at" -type f -printf '%s\n' | awk '{sum += $1} END {print sum}'; }
at_most() { [ "$(bytes)" -le "$1" ] || { echo "it has $(bytes) bytes"; return 1; }; }
none_of() { # find's expression
	local found
	found=$(find "$at" "$@" -print)
	[ -z "$found" ] || { echo "$found"; return 1; }
}
files_are_of_packages() { (cd "$at" && cat var/lib/dpkg/status.d/*.md5sums | md5sum --quiet -c -); }
each_file_has_an_owner() {
	(cd "$at" && find . -type f ! -path './var/lib/dpkg/*' ! -path './usr/share/sbom/*' ! -path ./etc/nsswitch.conf ! -path ./snap-csi-plugin ! -path ./usr/share/snap-csi/kubectl-snapcsi -printf '%P\n' |
		LC_ALL=C sort) | diff - <(cut -c 35- "$at"/var/lib/dpkg/status.d/*.md5sums | LC_ALL=C sort)
}
# The shape that scanners read: one paragraph a file, with the fields that an installed package has.
entries_are_whole() {
	local file field
	for file in "$at"/var/lib/dpkg/status.d/*; do
		[[ $file == *.md5sums ]] && continue
		for field in Package Version Architecture Maintainer Description; do
			[ "$(grep -c "^$field: ." "$file")" -eq 1 ] || { echo "$file: $field"; return 1; }
		done
		if ! grep -qx "Package: ${file##*/}" "$file" || [ ! -s "$at/usr/share/doc/${file##*/}/copyright" ]; then
			echo "$file"
			return 1
		fi
	done
}
# Each program that the driver names in its tables and calls.
programs_of_the_driver() {
	{
		sed -n '/^static const struct maker/,/^};/p' src/node/mount/mkfs.c | grep -oE '[{] "[a-z0-9_.]+"' | sed 's/.*"\(.*\)"/\1/'
		grep -hoE 'strs_add\(&argv, "[a-z][a-z0-9_.]*"\)' src/node/*.c src/node/mount/*.c | sed 's/.*"\(.*\)".*/\1/'
	} | grep -vxE 'ext[34]|xfs|btrfs(-progs)?' | sort -u
	echo btrfs
}
runs() { # PROGRAM: says its version, and lacks no library
	local version=-V
	case $1 in btrfs | mkfs.btrfs | modprobe) version=--version ;; resize2fs) version='' ;; esac
	# shellcheck disable=SC2086 # one argument or none
	printed_by "$1" $version | grep -qE '[0-9]+\.[0-9]+|version [0-9]+'
}
# A user who has built libcurl and updates the packages later must be warned.
another_libcurl_is_refused() {
	local error
	rm -rf "$work/driver" && cp -r build/release/stripped "$work/driver" && echo 7.88.1-0 >"$work/driver/libcurl.so.4.version"
	if error=$(PYTHONDONTWRITEBYTECODE=1 packaging/rootfs.py "$work/refused" controller --arch "$(dpkg --print-architecture)" --driver "$work/driver" 2>&1); then
		return 1
	fi
	echo "$error"
	[[ $error == *'built from the source of 7.88.1-0, and libcurl4 is '* ]]
}
# The command `luks` of the image's program, whose descriptor 3 is a file instead of a disk. The format uses every library of
# an encrypted volume, and threads for Argon2, but no device-mapper.
luks_format() {
	rm -f "$work/disk" && truncate -s 32M "$work/disk"
	# shellcheck disable=SC2016 # for the inner shell
	printf 'passphrase\0' | unshare --mount bash -c '
		mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && exec chroot "$1" /snap-csi-plugin luks format volume' luks "$at" 3<>"$work/disk"
}
luks_formats() { luks_format && cmp --bytes=6 "$work/disk" <(printf 'LUKS\272\276'); }
luks_has_no_library() { luks_format; [ $? -eq 9 ]; } # LUKS_NO_LIBRARY of src/luks/luks.h
packages() { grep -rL --exclude='*.md5sums' '^Description: linked into ' "$at/var/lib/dpkg/status.d" | wc -l; } # that have files in it

check 'a Debian base by debootstrap' make_base
commit=$(make --no-print-directory -f - show 2>/dev/null <<<$'include Makefile\nshow:\n\t@echo $(COMMIT)')
epoch=$(git log -1 --format=%ct 2>/dev/null || echo 0)
check 'both images are built' build_images test
check 'a libcurl of another version than its package is refused' another_libcurl_is_refused
rm -rf build/sbom && mkdir -p build/sbom
table="$work/table"
echo '| image | bytes | files | packages | setuid files | shell, perl, python, apt |' >"$table"
echo '| --- | --- | --- | --- | --- | --- |' >>"$table"
for role in controller node; do
	name=$(name_of "$role")
	container=$(buildah from --pull-never "localhost/$name:test") && at=$(buildah mount "$container") || exit 1
	case $role in controller) limit=25000000 ;; *) limit=40000000 ;; esac
	check "$role: at most $limit bytes" at_most "$limit"
	check "$role: no file is setuid, setgid or writable for others" none_of -type f -perm /6002
	check "$role: no shell, no interpreter, no package manager" none_of '(' -name 'sh' -o -name '*bash*' -o -name 'dash' -o -name 'perl*' -o -name 'python*' -o -name 'apt*' -o -name 'dpkg' -type f ')'
	check "$role: nothing of what libcurl can do without" none_of '(' -name 'libldap*' -o -name 'librtmp*' -o -name 'libssh*' -o -name 'libgnutls*' -o -name 'libkrb5*' ')'
	check "$role: the files are those of their packages" files_are_of_packages
	check "$role: each file belongs to a package" each_file_has_an_owner
	check "$role: scanners find each package" entries_are_whole
	check "$role: no file is newer than the commit" none_of -newermt "@$((epoch + 1))" ! -type d ! -path '*/etc/hosts' ! -path '*/etc/resolv.conf'
	check "$role: --help runs" help_is_readable
	check "$role: --version runs, with libcurl" eval 'printed_by /snap-csi-plugin --version | grep -q "^libcurl *[0-9.]* with "'
	check "$role: kubectl exec finds the program by its name" inside snap-csi-plugin --version
	check "$role: a bad configuration exits with 1" bad_flags_exit_1
	check "$role: the program is the entry point" config_is '.config.Entrypoint == ["/snap-csi-plugin"]'
	check "$role: the working directory is /" config_is '.config.WorkingDir == "/"'
	check "$role: it says version and commit" config_is ".config.Labels[\"org.opencontainers.image.revision\"] == \"$commit\""
	case $role in
	node) check 'node: an encrypted volume can be formatted' luks_formats ;;
	*)
		check 'controller: it runs as nobody in particular' config_is '.config.User == "65532:65532"'
		check 'controller: no libcryptsetup' luks_has_no_library
		;;
	esac
	cp "$at"/usr/share/sbom/*.json build/sbom/
	check "$role: the bills of materials are whole" python3 test/image/sbom.py "$at" "$name"
	printf '| %s | %s | %s | %s | %s | none |\n' "$name" "$(bytes)" "$(find "$at" -type f | wc -l)" "$(packages)" \
		"$(find "$at" -type f -perm /6000 | wc -l)" >>"$table"
	if [ "$role" = node ]; then
		for program in $(programs_of_the_driver) xfs_repair; do
			check "node: $program runs" runs "$program"
		done
	fi
	buildah rm "$container" >/dev/null
done
FLAGS=--no-cache check 'both are built again from the beginning' build_images again
for role in controller node; do
	check "$role: the second build has the same digest" same_image "$(name_of "$role")"
done
cat "$table"
echo "image: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
