#!/usr/bin/env bash
# Installs the given Debian packages that are missing, and names them. Usage: apt-missing.sh PACKAGE...
set -eu
find_missing() {
	local package status
	missing=()
	for package in "$@"; do
		status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
		[ "$status" = installed ] || missing+=("$package")
	done
}
find_missing "$@"
if [ ${#missing[@]} -gt 0 ] && [ "$(id -u)" -eq 0 ]; then
	# Of two clones on one machine, the second one waits and finds the packages of the first. apt's own locks are of another
	# kind; those of dpkg it waits for when told.
	exec 9>>/var/lib/apt/lists/lock
	flock 9
	find_missing "$@"
fi
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
apt-get -qq -y -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=600 install --no-install-recommends "${missing[@]}" </dev/null
