#!/usr/bin/env bash
# Makes OUT_DIR/snap-csi_VERSION_ARCH.deb; packaging/common.sh says from what, and MAINTAINER is "Name <address>". By dpkg-deb alone: there is nothing to build
# that debhelper would know better, and it wants a tree of sources with a debian/ at its top.
set -eu
cd "$(dirname "$0")/.." || exit 1
. packaging/common.sh
# 1.0.0-rc1 is older than 1.0.0; a Debian version says so with a tilde, and has a dash only in front of a revision.
version=${VERSION//-/\~}
root=$tree/root doc=$tree/root/usr/share/doc/snap-csi

# The sections of CHANGELOG.md ("## VERSION, DATE", then "* ..." with lines that go on) in Debian's form, in which no line is
# longer than 80 columns.
changelog() {
	awk -v version="$version" -v date="$(date -R -d "@$SOURCE_DATE_EPOCH")" -v by="$MAINTAINER" '
		function put_entry(    n, words, i, line) {
			n = split(entry, words, / +/)
			line = "  " words[1]
			for (i = 2; i <= n; i++)
				if (length(line) + length(words[i]) < 80)
					line = line " " words[i]
				else {
					print line
					line = "    " words[i]
				}
			if (n) print line
			entry = ""
		}
		function end_section() {
			put_entry()
			if (sections) printf "\n -- %s  %s\n", by, date
		}
		/^## / {
			end_section()
			name = sections++ ? $2 : version
			sub(/,$/, "", name)
			gsub(/-/, "~", name)
			printf "%ssnap-csi (%s) unstable; urgency=medium\n\n", (sections > 1 ? "\n" : ""), name
		}
		sections && /^\* / { put_entry(); entry = $0 }
		entry != "" && /^  / { entry = entry $0 }
		END { end_section() }' CHANGELOG.md
}

# The packages of the shared libraries, by dpkg-shlibdeps. dpkg knows the packages of this machine only, so another one's are
# those that have a library of that name here. libcurl and libcryptsetup are loaded when they are needed and not seen here:
# packaging/deb/control recommends them.
depends() {
	local cc sysroot library=()
	read -ra cc <<<"$CC"
	mkdir -p "$tree/source/debian"
	printf 'Source: snap-csi\n\nPackage: snap-csi\nArchitecture: %s\n' "$ARCH" >"$tree/source/debian/control"
	sysroot=$("${cc[@]}" -print-sysroot)
	if [ -n "$sysroot" ] && [ "$sysroot" != / ]; then
		library=("-l$sysroot/usr/lib/$("${cc[@]}" -dumpmachine)")
		shlibs_of_here >"$tree/source/debian/shlibs.local"
	fi
	(cd "$tree/source" && DEB_HOST_ARCH=$ARCH dpkg-shlibdeps -O "${library[@]}" "$root/usr/bin/snap-csi-plugin") |
		sed -n 's/^shlibs:Depends=//p' | sed 's/libc6, libc6 (/libc6 (/'
}

# What the packages of this machine say of the libraries that the program needs.
shlibs_of_here() {
	local soname path
	readelf --dynamic "$root/usr/bin/snap-csi-plugin" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | while read -r soname; do
		case $soname in
		ld-linux-*.so.*) echo "${soname%.so.*} ${soname##*.so.} libc6" ;;
		*)
			path=$(realpath "$(gcc -print-file-name="$soname")")
			# Its package may know it below /lib, which is a link.
			dpkg-query --search "*${path#/usr}" | sed 's/: .*//' |
				xargs -I{} dpkg-query --control-show {} shlibs
			;;
		esac
	done | sort -u
}

# The sources of the libraries that are linked statically, for those who look for vulnerable versions.
built_using() {
	local archive
	for archive in libgrpc.a libabsl_base.a libcares.a libcares_static.a libprotobuf-c.a libstdc++.a; do
		archive=$(gcc -print-file-name=$archive)
		[[ $archive != /* ]] || dpkg-query --search "$(realpath "$archive")"
	done | sed 's/: .*//' | sort -u | xargs dpkg-query --show --showformat='${source:Package} (= ${source:Version})\n' |
		sort -u | paste -sd, | sed 's/,/, /g'
}

put_program "$root/usr/bin/snap-csi-plugin"
put_plugin "$root/usr/bin/kubectl-snapcsi"
put_man "$root/usr/share/man/man8/snap-csi-plugin.8"
put_file packaging/completion.bash "$root/usr/share/bash-completion/completions/snap-csi-plugin"
put_file packaging/host.yaml "$root/etc/snap-csi/host.yaml"
install -d "$root/etc/snap-csi/attachments"
for unit in packaging/systemd/*; do
	put_file "$unit" "$root/lib/systemd/system/${unit##*/}"
done
put_file packaging/deb/copyright "$doc/copyright"
changelog >"$doc/changelog"
for document in hosts/host-package hosts/zero-trust reference/parameters troubleshoot/{by-symptom,error-texts,inspect,kubectl-snapcsi}; do
	put_file "docs/$document.md" "$doc/$document.md"
done
put_file packaging/deb/lintian-overrides "$root/usr/share/lintian/overrides/snap-csi"
find "$doc" "$root/usr/share/man" -type f \( -name 'changelog' -o -name '*.8' -o -size +4k ! -name copyright \) -exec gzip -9n {} +
# One page is for both programs.
ln -s snap-csi-plugin.8.gz "$root/usr/share/man/man8/kubectl-snapcsi.8.gz"

install -d "$root/DEBIAN"
# In a pipe a failure would be lost.
needs=$(depends) uses=$(built_using)
if [ -z "$needs" ] || [ -z "$uses" ]; then
	echo 'packaging/deb.sh: dpkg does not know whose the libraries of the program are' >&2
	exit 1
fi
sed "s/@VERSION@/$version/; s/@ARCH@/$ARCH/; s/@MAINTAINER@/${MAINTAINER//[\/&\\]/\\&}/; s/@DEPENDS@/$needs/; s/@BUILT_USING@/$uses/; s/@SIZE@/$(du -k --apparent-size -s "$root" | cut -f1)/" \
	packaging/deb/control >"$root/DEBIAN/control"
(cd "$root" && find etc -type f | sed 's,^,/,' | sort >DEBIAN/conffiles &&
	find . -type f ! -path './DEBIAN/*' ! -path './etc/*' -printf '%P\n' | sort | xargs md5sum >DEBIAN/md5sums)
for script in postinst prerm postrm; do
	install -m 0755 "packaging/deb/$script" "$root/DEBIAN/$script"
done
set_dates
# One thread: the bytes of xz depend on their number.
dpkg-deb --root-owner-group -Zxz --threads-max=1 --build "$root" "$tree/new.deb" >/dev/null
put_result "$tree/new.deb" "snap-csi_${VERSION}_$ARCH.deb"
