#!/usr/bin/env bash
# Every flag of flags.def is used: a file outside src/flags that includes flags/flags.h, directly or through program.h, reads
# its field, or unread.txt has a line with the reason. A waiver for a field that was removed, or that is now read, is an
# error, too.
set -u
cd "$(dirname "$0")/../.." || exit 1
bad=0
table=src/flags/flags.def list=test/lint/unread.txt
mapfile -t readers < <(grep -rlE '#include "(flags/flags|program/program|settings/node_settings)\.h"' src --include='*.[ch]' | grep -v '^src/flags/')
fields=$(sed -nE 's/^FLAG\([A-Z]+, ([a-z0-9_]+), .*/\1/p' "$table")
if [ "${#readers[@]}" -eq 0 ] || [ -z "$fields" ]; then
	echo "$table:1: no flags, or no file that reads them"
	exit 1
fi
while read -r field; do
	read=0 waived=0
	grep -qE "(\<flags(\.|->)|\<f->)$field\>" "${readers[@]}" && read=1
	grep -qE "^${field}[[:space:]]+[^[:space:]]" "$list" && waived=1
	line=$(grep -nE "^FLAG\([A-Z]+, $field," "$table" | cut -d: -f1)
	if [ $((read + waived)) -eq 0 ]; then
		echo "$table:$line: ${readers[*]} does not read $field: a flag that has no effect; if that is meant, a reason in $list"
		bad=1
	elif [ $((read + waived)) -eq 2 ]; then
		echo "$list:1: $field is read by now: remove its line"
		bad=1
	fi
done <<<"$fields"
while read -r field _; do
	if [[ $field != '#' ]] && ! grep -qxF "$field" <<<"$fields"; then
		echo "$list:1: there is no flag with a field $field"
		bad=1
	fi
done <"$list"
exit $bad
