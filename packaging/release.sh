#!/usr/bin/env bash
# Makes what a release consists of, into OUT (build/artefacts/VERSION). Run by make release VERSION=...; docs/reference/release.md.
# Usage: release.sh VERSION [PART...]; without parts all of them, in this order:
#   source notes plugin binary deb images chart sums
# All is made from the commit that is checked out, in a copy of its files: what lies about in the working folder, its path, its
# times, the time zone and the umask have no part in it. Two runs for one commit make the same bytes.
#   ARCHES          machines, as Debian names them; without it all for which the tree can be built
#   OUT             where the files go
#   BASE, SNAPSHOT  of the images, as for make image
set -eu -o pipefail
cd "$(dirname "$0")/.."
umask 022
export LC_ALL=C.UTF-8 TZ=UTC
unset MAKEFLAGS MAKELEVEL MAKEOVERRIDES MFLAGS
root=$PWD
version=${1-}
[ $# -eq 0 ] || shift
[ -n "$version" ] || { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; exit 2; }
parts=${*:-source notes plugin binary deb images chart sums}
OUT=$(realpath -m "${OUT:-${BUILD:-build}/artefacts/$version}")
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
COMMIT=$(git rev-parse --short=12 HEAD)
export SOURCE_DATE_EPOCH COMMIT
name=snap-csi-$version

die() {
	echo "release: $*" >&2
	exit 1
}
say() { echo "release: $*"; }

# ---------------------------------------------------------------- the commit's files
if [ "$(packaging/version.sh)" != "$version" ]; then
	die "this tree is version $(packaging/version.sh): make set-version VERSION=$version, complete CHANGELOG.md and commit both first"
fi
packaging/version.sh check >&2 || die 'not every file says the same version (above)'
if [ -n "$(git status --porcelain --untracked-files=no)" ]; then
	die 'files differ from the commit, and would not be in the release: commit or stash them (git status)'
fi
work=$(mktemp -d "${TMPDIR:-/var/tmp}/snap-csi-release.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
# Not in a folder of a repository: programs that ask git there shall find none.
tree=$work/$name
export_commit() { # the files of the commit, and its name for who has no clone
	git archive --format=tar --prefix="$name/" --add-virtual-file="$name/COMMIT:$COMMIT" HEAD
}
export_commit | tar -C "$work" -xf -
mkdir -p "$OUT"

# This machine's own, and the one that the Makefile can build for beside it.
native=$(dpkg --print-architecture)
ARCHES=${ARCHES:-$native$([ "$native" != amd64 ] || [ ! -e test/cross/sysroot.sh ] || echo ' arm64')}
# ARCH of make: empty for this machine's own.
cross() { [ "$1" = "$native" ] || echo "$1"; }
prepare() { # MACHINE: its compiler and libraries
	[ "$1" = "$native" ] || [ -e "$tree/build/$1/sysroot" ] || in_tree ARCH="$1" build-deps
}
# The path of the copy is in no program, also not in what its build id is computed of.
in_tree() {
	(cd "$tree" && make --no-print-directory -j"$(nproc)" CFLAGS="-ffile-prefix-map=$tree=." "$@") >"$work/log" 2>&1 ||
		{ tail -n 30 "$work/log" >&2; die "make $* has failed"; }
}
# A file appears under its name when it is whole.
keep() { # FILE [NAME]
	cp "$1" "$OUT/.new" && chmod 0644 "$OUT/.new" && mv "$OUT/.new" "$OUT/${2:-${1##*/}}"
	say "${2:-${1##*/}}"
}
pack() { # FOLDER-ABOVE NAME: a tar of NAME on stdout, the same for the same files
	tar -C "$1" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --mode=u+rwX,go+rX,go-w --format=ustar -cf - "$2"
}

# ---------------------------------------------------------------- parts
part_source() {
	export_commit | gzip -9n >"$work/$name.tar.gz"
	keep "$work/$name.tar.gz"
}

part_notes() {
	packaging/release-notes.sh "$version" >"$work/notes.md"
	keep "$work/notes.md" "$name-notes.md"
}

# kubectl takes any file of this name in PATH; it is the same for every machine.
part_plugin() {
	keep "$tree/packaging/kubectl-snapcsi"
}

part_binary() {
	local arch
	for arch in $ARCHES; do
		prepare "$arch"
		in_tree ARCH="$(cross "$arch")" DIST_DIR="$work/dist" dist
		keep "$work/dist/$name-linux-$arch.tar.gz"
	done
}

part_deb() {
	local arch
	for arch in $ARCHES; do
		prepare "$arch"
		in_tree ARCH="$(cross "$arch")" DEB_DIR="$work/deb" deb
		keep "$work/deb/snap-csi_${version}_$arch.deb"
	done
}

# An image as an archive of OCI, for all machines: its layout's files, with no times of today in the tar.
archive() { # IMAGE NAME
	buildah manifest push --all --digestfile "$work/digest" "$1" "oci:$work/oci/$2:$version" >"$work/log" 2>&1 ||
		{ tail -n 30 "$work/log" >&2; die "buildah cannot write $1"; }
	echo "$2:$version $(cat "$work/digest")" >>"$work/images.txt"
	pack "$work/oci/$2" . >"$work/$2.tar"
	keep "$work/$2.tar" "$2-$version-oci.tar"
}

# The bills of materials are in the images, too.
bills() { # IMAGE NAME ARCH
	local container at file
	container=$(buildah from --pull-never "$1-$3") || die "buildah has no image $1-$3"
	at=$(buildah mount "$container") || die "buildah cannot open $1-$3"
	for file in "$at"/usr/share/sbom/*.json; do
		keep "$file" "$2-$version-$3.${file##*/"$2".}"
	done
	buildah rm "$container" >/dev/null
}

part_images() {
	local arch
	command -v buildah >/dev/null || die 'the images are made by buildah: apt-get install buildah'
	case ${BASE-} in
	*@sha256:* | localhost/*) ;;
	*) say "BASE=${BASE-} has no digest, so another day the images may be put together in another Debian: docs/reference/release.md, \"The same bytes\"" ;;
	esac
	in_tree IMAGE="localhost/snap-csi-release:$version" CONTROLLER_IMAGE="localhost/snap-csi-controller-release:$version" \
		IMAGE_ARCHES="$ARCHES" image-list
	mkdir -p "$work/oci"
	archive "localhost/snap-csi-release:$version" snap-csi
	archive "localhost/snap-csi-controller-release:$version" snap-csi-controller
	keep "$work/images.txt" "$name-images.txt"
	for arch in $ARCHES; do
		bills "localhost/snap-csi-release:$version" snap-csi "$arch"
		bills "localhost/snap-csi-controller-release:$version" snap-csi-controller "$arch"
	done
}

part_chart() {
	# What `helm package` packs (links are followed), but always the same bytes.
	mkdir -p "$work/chart" && cp -rL "$tree/charts/snap-csi" "$work/chart/"
	pack "$work/chart" snap-csi | gzip -9n >"$work/chart.tgz"
	keep "$work/chart.tgz" "snap-csi-chart-$version.tgz"
}

part_sums() {
	local file
	(cd "$OUT" && for file in *; do [ "$file" = SHA256SUMS ] || echo "$file"; done | LC_ALL=C sort | xargs sha256sum) >"$work/SHA256SUMS"
	keep "$work/SHA256SUMS"
}

for part in $parts; do
	declare -F "part_$part" >/dev/null || die "there is no part $part"
done
exec 9<"$OUT"
flock -n 9 || die "another release is being made in $OUT"
# Sums that are there stand for a whole release: they go first and come last. With them among several parts this is a new
# release, of which nothing is there yet.
rm -f "$OUT/.new" "$OUT/SHA256SUMS"
case " $parts " in *' sums '*) [ "$parts" = sums ] || rm -f "$OUT"/snap-csi[-_]* ;; esac
for part in $parts; do
	"part_$part"
done
say "$(find "$OUT" -type f | wc -l) files in ${OUT#"$root"/}"
