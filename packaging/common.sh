# shellcheck shell=bash
# What the Debian package and the tarball have in common. Sourced by deb.sh and dist.sh, which are run by make with
#
#   VERSION   of the program
#   ARCH      Debian's name of the machine: amd64, arm64
#   BIN       the program, with its symbols
#   CC        the compiler of that machine; its strip is used
#   OUT_DIR   where the result goes
#
# Two runs for one commit make the same bytes: every date is the commit's (or SOURCE_DATE_EPOCH), every owner root.
set -eu
umask 022
export LC_ALL=C.UTF-8 TZ=UTC
if [ -z "${SOURCE_DATE_EPOCH-}" ]; then
	SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null) || {
		echo "packaging: this is no clone of the repository: set SOURCE_DATE_EPOCH to the date of the release, in seconds" >&2
		exit 1
	}
fi
export SOURCE_DATE_EPOCH
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
trap 'exit 130' INT TERM

# The program without symbols. CC may be several words.
put_program() { # TO
	local cc strip
	read -ra cc <<<"$CC"
	strip=$("${cc[@]}" -print-prog-name=strip)
	install -D -m 0755 "$BIN" "$1"
	"$strip" --remove-section=.comment --remove-section=.note "$1"
}

put_man() { # TO
	install -d "$(dirname "$1")"
	sed "s/@VERSION@/$VERSION/; s/@DATE@/$(date -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%d)/" packaging/snap-csi-plugin.8 >"$1"
}

put_file() { # FILE TO
	install -D -m 0644 "$1" "$2"
}

put_plugin() { # TO
	install -D -m 0755 packaging/kubectl-snapcsi "$1"
}

# The file appears in OUT_DIR when it is whole, also when two make it at once.
put_result() { # FILE NAME
	mkdir -p "$OUT_DIR"
	cp "$1" "$OUT_DIR/.$2.$$"
	mv "$OUT_DIR/.$2.$$" "$OUT_DIR/$2"
	echo "packaging: $OUT_DIR/$2"
}

# All that is in the tree gets the one date.
set_dates() {
	find "$tree" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
}
