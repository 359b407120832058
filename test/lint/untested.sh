#!/usr/bin/env bash
# Every src/<room>/<file>.c has its test/unit/<room>/test_<file>.c, or a line with a reason in untested.txt. A waiver
# for a file that is gone, or that has a test by now, is an error too.
set -u
cd "$(dirname "$0")/../.." || exit 1
bad=0
list=test/lint/untested.txt
while read -r file; do
	room=$(dirname "${file#src/}")
	test="test/unit/$room/test_$(basename "$file")"
	waiver=$(grep -E "^${file}[[:space:]]+[^[:space:]]" "$list")
	if [ ! -e "$test" ] && [ -z "$waiver" ]; then
		echo "$file:1: no $test, and no reason in $list"
		bad=1
	elif [ -e "$test" ] && [ -n "$waiver" ]; then
		echo "$list:1: $file has a test by now"
		bad=1
	fi
done < <(find src -name '*.c' | sort)
while read -r file _; do
	if [[ $file == src/* && ! -e $file ]]; then
		echo "$list:1: there is no $file"
		bad=1
	fi
done <"$list"
exit $bad
