#!/usr/bin/env bash
# Installs the given Debian packages that are missing, and names them. Usage: apt-missing.sh PACKAGE...
set -eu
missing=()
for package in "$@"; do
	status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
	[ "$status" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
	echo "deps: all $# Debian packages are installed"
	exit 0
fi
echo "deps: to be installed by apt-get: ${missing[*]}"
if [ "$(id -u)" -ne 0 ]; then
	echo "deps: this needs root: sudo make deps" >&2
	exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
apt-get -qq -y -o Dpkg::Use-Pty=0 install --no-install-recommends "${missing[@]}" </dev/null
