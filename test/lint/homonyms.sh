#!/usr/bin/env bash
# Static functions of src that have more than ten lines (from the signature to the brace) and the name of a static function
# of another file. A stack trace and `break look` of a debugger cannot tell them apart, so such a function carries its file's
# noun. `most` is the allowed number of them, which may only fall. --list prints them, sorted by name.
set -u
cd "$(dirname "$0")/../.." || exit 1
most=5
statics() { # NAME LINES FILE LINE of each static function of src; in layout by clang-format its body ends with } in column 1
	find src -name '*.[ch]' | sort | xargs awk '
	/^static / { begin = FNR; head = ""; open = 1 }
	open && !/^[{}]/ { head = head $0 }
	open && /;$|^[^ \t].*=|^$/ { open = 0 }
	open && /^\{/ {
		name = head; sub(/\(.*/, "", name); sub(/.*[^A-Za-z0-9_]/, "", name)
		open = 0; body = 1
	}
	body && /^\}/ { print name, FNR - begin + 1, FILENAME, begin; body = 0 }'
}
found=$(statics | sort -k1,1 -k3,3 | awk '
	{ name[NR] = $1; lines[NR] = $2; at[NR] = $3 ":" $4; if (file[$1] != $3) { files[$1]++; file[$1] = $3 } }
	END { for (i = 1; i <= NR; i++) if (lines[i] > 10 && files[name[i]] > 1)
		printf "%s: %s() has %d lines, and its name in %d files\n", at[i], name[i], lines[i], files[name[i]] }')
n=$(grep -c . <<<"$found")
if [ "${1-}" = --list ]; then
	printf '%s\n%d homonyms\n' "$found" "$n"
	exit
fi
if [ "$n" -gt "$most" ]; then
	echo "test/lint/homonyms.sh:7: $n homonyms, more than $most: test/lint/homonyms.sh --list has them; name the new one for its file"
	exit 1
elif [ "$n" -lt "$most" ]; then
	echo "$n homonyms are left: lower \`most\` in test/lint/homonyms.sh"
fi
