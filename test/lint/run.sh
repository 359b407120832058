#!/usr/bin/env bash
# Runs every check of this folder and lists the failed ones; ends with "lint: N passed, N failed". Each check is a script that
# prints its findings as file:line: text and exits 1 if there are any; output of a successful check is a remark. Run a single
# one by its name: test/lint/layers.sh. FLAGS_TABLE is the program that prints the table of flags, OBJECTS the folder of the
# driver's object files, PROGRAM the driver (see rules.mk).
set -u
cd "$(dirname "$0")/../.." || exit 1
passed=0 failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for check in layers circles foreign banned words dialect comments heads homonyms untested format analyse shell yaml rules manifests help flags unread \
	parameters tables pains references readme packaging version pages english commits; do
	start=$EPOCHREALTIME
	if "test/lint/$check.sh" >"$log" 2>&1; then
		printf 'ok   %-12s %5.1f s\n' "$check" "$(awk "BEGIN {print $EPOCHREALTIME - $start}")"
		sed 's/^/     /' "$log"
		passed=$((passed + 1))
	else
		cat "$log"
		printf 'FAIL %s (test/lint/%s.sh)\n' "$check" "$check"
		failed=$((failed + 1))
	fi
done
printf 'lint: %d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
