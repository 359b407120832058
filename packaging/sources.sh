#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Where apt of the stage that builds an image takes its packages from: with a time as snapshot.debian.org writes it
# (20260105T000000Z) what Debian had then, otherwise what the base says. Usage: sources.sh [TIME]
set -eu
time=${1:-}
[ -n "$time" ] || exit 0
# shellcheck source=/dev/null
. /etc/os-release
rm -f /etc/apt/sources.list.d/*
# Old lists are valid for ever.
echo 'Acquire::Check-Valid-Until "false";' >/etc/apt/apt.conf.d/snapshot
for source in "debian $VERSION_CODENAME" "debian $VERSION_CODENAME-updates" "debian-security $VERSION_CODENAME-security"; do
	echo "deb http://snapshot.debian.org/archive/${source% *}/$time ${source#* } main"
done >/etc/apt/sources.list
