#!/usr/bin/env bash
# The table of flags in docs/reference/flags.md is what the program prints; `make flag-docs` writes it.
# Usage: flags.sh [--write]
set -u
cd "$(dirname "$0")/../.." || exit 1
table=${FLAGS_TABLE:-build/debug/test/lint/flags_table}
[ -n "${FLAGS_TABLE-}" ] || make --no-print-directory -s "$table" FLAVOUR=debug || exit 1
fresh=$(mktemp)
trap 'rm -f "$fresh"' EXIT
awk -v table="$table" '
/<!-- flags: / { print; print ""; while ((table | getline line) > 0) print line; print ""; skip = 1; next }
/<!-- end of flags -->/ { skip = 0 }
!skip' docs/reference/flags.md >"$fresh"
if [ "${1-}" = --write ]; then
	cat "$fresh" >docs/reference/flags.md
elif ! diff -u --label docs/reference/flags.md --label 'the program' docs/reference/flags.md "$fresh"; then
	echo 'docs/reference/flags.md:1: the table of flags is not up to date: make flag-docs'
	exit 1
fi
