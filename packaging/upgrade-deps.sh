#!/usr/bin/env bash
# Upgrades those of the given Debian packages that are installed, and all that they depend on: what is linked into the driver
# (gRPC, c-ares, abseil, libstdc++) comes by way of others. Installs nothing else. Usage: upgrade-deps.sh [--list] PACKAGE...
#   --list   only names them
set -eu -o pipefail
export LC_ALL=C DEBIAN_FRONTEND=noninteractive
list=
[ "${1-}" != --list ] || { list=1; shift; }
installed() { # of the names on stdin those that are installed
	# shellcheck disable=SC2016 # fields of dpkg
	xargs -r dpkg-query -W -f='${db:Status-Status} ${Package}\n' 2>/dev/null | sed -n 's/^installed //p' | sort -u || true
}
mapfile -t given < <(printf '%s\n' "$@" | installed)
[ ${#given[@]} -gt 0 ] || { echo 'upgrade-deps: none of these packages is installed: make deps' >&2; exit 1; }
mapfile -t packages < <(apt-cache depends --recurse --installed --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces \
	--no-enhances "${given[@]}" | sed -n 's/^\([a-z0-9][^ :]*\).*/\1/p' | installed)
if [ -n "$list" ]; then
	printf '%s\n' "${packages[@]}"
	exit 0
fi
[ "$(id -u)" -eq 0 ] || { echo 'upgrade-deps: this needs root: sudo make upgrade-deps' >&2; exit 1; }
# shellcheck disable=SC2016 # fields of dpkg
versions() { dpkg-query -W -f='${binary:Package} ${Version}\n' | sort; }
before=$(versions)
mapfile -t automatic < <(apt-mark showauto "${packages[@]}")
apt-get -qq update
apt-get -qq -y -o Dpkg::Use-Pty=0 install --only-upgrade --no-install-recommends "${packages[@]}" </dev/null
# Whom apt may remove one day stays as it was.
[ ${#automatic[@]} -eq 0 ] || apt-mark auto "${automatic[@]}" >/dev/null
echo "upgrade-deps: of ${#packages[@]} packages these are new:"
comm -13 <(echo "$before") <(versions) | sed 's/^/  /' | grep . || echo '  none'
