#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What is linked into a program, from the map that its linker wrote: a line for each Debian package that an archive came from, its
# name, version, architecture, source, the source's version and its maintainer, separated by tabs. The copyright file of each
# goes to FOLDER, under the package's name. Usage: static-packages.sh MAP FOLDER [SYSROOT]
# With SYSROOT, which test/cross/sysroot.sh has made, the packages are those that were unpacked there.
set -eu -o pipefail
map=$1 copyrights=$2 sysroot=${3:-}
export LC_ALL=C

# The archives that gave a member. Those below the working directory are the driver's own.
archives=$(sed -n '/^Archive member included/,/^[A-Z].*:*$/{s#^\(/[^(]*\.a\)(.*#\1#p}' "$map" | sort -u | xargs -r realpath | grep -v "^$PWD/[^.]*/libsnapcsi" | sort -u)
[ -n "$archives" ] || { echo "static-packages: $map names no archive" >&2; exit 1; }

owner() { # of an archive
	if [ -n "$sysroot" ]; then
		case $1 in
		"$sysroot"/*) grep -lxE "\./(usr/)?${1#"$sysroot"/usr/}" "$sysroot"/.dpkg/*.list | sed 's#.*/##; s#\.list$##' ;;
		*) dpkg-query -S "$1" | sed 's/: .*//' ;; # the cross compiler's own
		esac
	else
		dpkg-query -S "$1" | sed 's/: .*//'
	fi
}

rm -rf "$copyrights"
mkdir -p "$copyrights"
while read -r archive; do
	name=$(owner "$archive")
	[ -n "$name" ] || { echo "static-packages: no package has $archive" >&2; exit 1; }
	doc=/usr/share/doc/${name%:*}
	if [ -n "$sysroot" ] && [ -e "$sysroot/.dpkg/$name.control" ]; then
		doc=$sysroot$doc
		field() { sed -n "s/^$1: //p" "$sysroot/.dpkg/$name.control"; }
		source=$(field Source)
		version=$(field Version)
		printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$name" "$version" "$(field Architecture)" "${source%% *}" "$(sed -n 's/.*(\(.*\))/\1/p' <<<"$source")" "$(field Maintainer)" |
			awk -F'\t' -v OFS='\t' '{ if ($4 == "") $4 = $1; if ($5 == "") $5 = $2; print }'
	else
		# shellcheck disable=SC2016 # fields of dpkg
		dpkg-query -W -f='${Package}\t${Version}\t${Architecture}\t${source:Package}\t${source:Version}\t${Maintainer}\n' "$name"
	fi
	install -m 644 "$doc/copyright" "$copyrights/${name%:*}"
done <<<"$archives" | sort -u
