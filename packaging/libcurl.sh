#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# libcurl for the images, from Debian's source package, with HTTP over OpenSSL and nothing else: Debian's own library needs twenty
# others, for LDAP, RTMP, SSH and Kerberos, which would be 11 of the controller's 28 MB and which the driver never calls.
# The source is the one that apt would take, with Debian's patches, so it has all security updates.
#
# Usage: libcurl.sh OUT HOST COMPILER [FLAG...]; HOST is as configure names machines (aarch64-linux-gnu). Writes OUT and OUT.version,
# Debian's version of the source. Environment: SYSROOT, which test/cross/sysroot.sh has made, for another machine; SNAPSHOT, a time of
# snapshot.debian.org. Nothing of this machine changes: apt has a state of its own.
set -eu
out=$(realpath -m "$1") host=$2 compiler=$3
shift 3
export LC_ALL=C
work=$(mktemp -d) # autoconf does not bear a path with blanks
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/apt/{lists/partial,cache/archives/partial,sources} "$work/source/build"
cd "$work"

# This machine's sources, as those of source packages.
if [ -n "${SNAPSHOT:-}" ]; then
	# shellcheck source=/dev/null
	. /etc/os-release
	for source in "debian $VERSION_CODENAME" "debian $VERSION_CODENAME-updates" "debian-security $VERSION_CODENAME-security"; do
		echo "deb-src [check-valid-until=no] http://snapshot.debian.org/archive/${source% *}/$SNAPSHOT ${source#* } main"
	done >apt/sources/snapshot.list
else
	for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
		[ ! -e "$file" ] || sed -n 's/^deb\([[:space:]]\)/deb-src\1/p' "$file" >"apt/sources/$(basename "$file")"
	done
	for file in /etc/apt/sources.list.d/*.sources; do
		[ ! -e "$file" ] || sed 's/^Types:.*/Types: deb-src/' "$file" >"apt/sources/$(basename "$file")"
	done
fi
apt_get() {
	apt-get -qq -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$work/apt/sources" -o Dir::State::lists="$work/apt/lists" \
		-o Dir::Cache="$work/apt/cache" -o APT::Sandbox::User=root -o Acquire::Retries=3 "$@" </dev/null
}
# A source of somebody else may have no source packages; whether Debian's has is seen by the next line.
apt_get update >apt/log 2>&1 || true
apt_get source --download-only curl >>apt/log 2>&1 || { cat apt/log >&2; exit 1; }
tar -x --strip-components=1 -C source -f curl_*.orig.tar.*z
tar -x -C source -f curl_*.debian.tar.*z
version=$(sed -n 's/^Version: //p' curl_*.dsc | head -n 1)
cd source
# The last ones are for libcurl with GnuTLS and with NSS, each under a name of its own.
while read -r name _; do
	case $name in '' | '#'* | *gnutls.patch | *nss.patch) continue ;; esac
	patch --silent --strip=1 <"debian/patches/$name"
done <debian/patches/series

if [ -n "${SYSROOT:-}" ]; then
	export PKG_CONFIG_SYSROOT_DIR=$SYSROOT PKG_CONFIG_LIBDIR=$SYSROOT/usr/lib/$host/pkgconfig:$SYSROOT/usr/share/pkgconfig
fi
without=()
for what in ldap ldaps rtsp dict telnet tftp pop3 imap smb smtp gopher mqtt ftp file ntlm tls-srp unix-sockets cookies alt-svc hsts doh netrc manual static; do
	without+=("--disable-$what")
done
for what in librtmp libssh libssh2 libpsl libidn2 libgsasl brotli zstd gssapi zlib; do
	without+=("--without-$what")
done
cd build
{
	../configure --quiet --host="$host" --disable-dependency-tracking --enable-threaded-resolver --with-openssl --with-nghttp2 \
		--with-ca-bundle=/etc/ssl/certs/ca-certificates.crt --without-ca-path "${without[@]}" CC="$compiler" \
		CFLAGS="-O2 -D_FORTIFY_SOURCE=3 -ffile-prefix-map=$work=. $*" LDFLAGS='-Wl,-z,relro,-z,now,-z,noexecstack -Wl,--as-needed' &&
		make -C lib -j"$(nproc)"
} >log 2>&1 </dev/null || { tail -n 30 log >&2; exit 1; }
$($compiler -print-prog-name=strip) -o "$out" lib/.libs/libcurl.so.4
echo "$version" >"$out.version"
