#!/usr/bin/env bash
# Builds the driver with another release's compiler and libraries, in a root folder of its own made by debootstrap, and
# runs the unit tests there. Usage: build.sh SUITE [MIRROR [COMPONENTS [SCRIPT]]]; SCRIPT is debootstrap's for a suite that it
# does not know. Ends with "SUITE: N passed, N failed".
#
# Writes to build/portable/ only: the root folder goes at the end, its first state and the packages stay for the next run.
# What is mounted is mounted in a mount namespace of this script, and goes with it.
set -u
cd "$(dirname "$0")/../.." || exit 1
suite=$1 mirror=${2-${DEBIAN_MIRROR-}} components=${3-main} script=${4-}
if [ "$(id -u)" -ne 0 ]; then
	echo "SKIP: $suite: a root folder by debootstrap needs root"
	echo "$suite: 0 passed, 0 failed"
	exit 0
fi
. test/lib/own-mounts.sh
work=$PWD/build/portable
root=$work/$suite
base=$work/$suite.tar
passed=0 failed=0
mkdir -p "$work/$suite.debs"
rm -f "$work/$suite.texts"
trap 'umount --recursive --lazy "$root" 2>/dev/null; rm -rf --one-file-system "$root"' EXIT
trap 'exit 130' INT TERM

check() { # what, command...
	local what=$1 log=$work/$suite.log start=$SECONDS
	shift
	if "$@" >"$log" 2>&1 </dev/null; then
		printf 'ok   %s (%d s)\n' "$what" $((SECONDS - start))
		passed=$((passed + 1))
	else
		tail -n 60 "$log"
		printf 'FAIL %s\n' "$what"
		failed=$((failed + 1))
		return 1
	fi
}

make_root() {
	rm -rf --one-file-system "$root"
	if [ ! -e "$base" ]; then
		debootstrap --variant=minbase --components="$components" "$suite" "$root" ${mirror:+"$mirror"} ${script:+"$script"} || return 1
		tar -C "$root" -cf "$base.new" . && mv "$base.new" "$base"
	else
		mkdir -p "$root" && tar -C "$root" -xf "$base"
	fi
}

# The root is a mount itself, for tests that change the propagation of /. The tests of mounts and loop devices see this
# machine's /dev and /sys.
mount_into_root() {
	mount --bind "$root" "$root" && mount --make-private "$root" && mount -t proc proc "$root/proc" &&
		mount --rbind /sys "$root/sys" && mount --rbind /dev "$root/dev" && mount --bind "$work/$suite.debs" "$root/var/cache/apt/archives" && mkdir -p "$root/var/cache/apt/archives/partial"
}

copy_tree() {
	mkdir -p "$root/src" && tar -cf - --exclude=./build --exclude=./.git . | tar -C "$root/src" -xf - &&
		cp --dereference /etc/resolv.conf "$root/etc/resolv.conf"
}

inside() {
	env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
		chroot "$root" sh -c "cd /src && $1"
}

versions() {
	inside '. /etc/os-release && echo "$PRETTY_NAME" && gcc --version | head -n 1 && ld --version | head -n 1' &&
		inside 'dpkg-query -W libc6-dev libgrpc-dev libprotobuf-c-dev libcurl4-openssl-dev libcjson-dev libmount-dev libblkid-dev libcryptsetup-dev'
}

# Each step needs the one before.
build() {
	check 'a root folder by debootstrap' make_root || return 1
	check 'what is mounted there' mount_into_root || return 1
	check 'a copy of this tree' copy_tree || return 1
	check 'the packages that the driver is built with: make build-deps' inside "$install make && make build-deps" || return 1
	versions
	check 'the driver, warnings are errors' inside "make $jobs WERROR=-Werror" || return 1
	check 'the driver says its version' inside 'build/release/snap-csi-plugin --version'
	check 'the release has every package of make deps' inside "$install --simulate $all_packages"
	# What only other suites need is not installed.
	check 'the packages of the unit tests' inside "$install check libsubunit-dev libmicrohttpd-dev libfuse3-dev openssl \
		e2fsprogs xfsprogs btrfs-progs fdisk util-linux mount kmod procps python3" || return 1
	check 'the unit tests are built, warnings are errors' inside "make $jobs FLAVOUR=debug WERROR=-Werror $programs" || return 1
	check 'the unit tests pass' inside 'UPDATE_DOCS=1 make FLAVOUR=debug unit'
	grep -hE '^(SKIP|unit )' "$work/$suite.log" | sort -u
	check 'every error has the same code there' same_codes
}

# test/reports/error-paths.md quotes what the tools of Debian 12 say, so the tests write it anew there. Its texts may differ, and are
# shown then; its codes may not.
same_codes() {
	local codes='s/(\*\*[A-Z_]+\*\*|[A-Z_]{6,}) \| .* \| /\1 | /'
	diff test/reports/error-paths.md "$root/src/test/reports/error-paths.md" | tee "$work/$suite.texts"
	diff <(sed -E "$codes" test/reports/error-paths.md) <(sed -E "$codes" "$root/src/test/reports/error-paths.md")
}

jobs="-j$(nproc)"
install='apt-get -qq update && apt-get -qq -y install --no-install-recommends'
# From the variables that make prints.
all_packages='$(make -pnq | sed -nE "s/^(BUILD|TEST)_PACKAGES := //p")'
programs='$(make -pnq FLAVOUR=debug | sed -n "s/^UNIT_BINS := //p")'
build
[ ! -s "$work/$suite.texts" ] || { echo 'texts that differ there:'; sed -n 's/^> //p' "$work/$suite.texts"; }
echo "$suite: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
