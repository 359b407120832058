#!/usr/bin/env bash
# Runs test programs one after the other and adds up their Check summaries
# ("100%: Checks: 3, Failures: 0, Errors: 0"). Usage: run-suites.sh TITLE PROGRAM...
# Ends with "TITLE: N passed, N failed"; exit 1 when anything failed.
set -u
# libcurl and gRPC are not instrumented: what happens inside them is not ours to judge.
export TSAN_OPTIONS="${TSAN_OPTIONS:+$TSAN_OPTIONS:}ignore_noninstrumented_modules=1"
title=$1
shift
passed=0 failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for program in "$@"; do
	start=$EPOCHREALTIME
	"$program" >"$log" 2>&1
	rc=$?
	read -r checks bad <<<"$(sed -nE 's/^[0-9]+%: Checks: ([0-9]+), Failures: ([0-9]+), Errors: ([0-9]+).*/\1 \2 \3/p' "$log" |
		awk '{c += $1; f += $2 + $3} END {print c + 0, f + 0}')"
	if [ "$rc" -ne 0 ] && [ "$bad" -eq 0 ]; then
		bad=1 # ended by a signal or a sanitizer: no summary
	fi
	good=$((checks > bad ? checks - bad : 0))
	passed=$((passed + good)) failed=$((failed + bad))
	if [ "$bad" -ne 0 ]; then
		cat "$log"
		printf 'FAIL %s (exit %d)\n' "$program" "$rc"
	else
		grep -E '^SKIP' "$log"
		printf 'ok   %-60s %3d  %5.1f s\n' "$program" "$good" "$(awk "BEGIN {print $EPOCHREALTIME - $start}")"
	fi
done
printf '%s: %d passed, %d failed\n' "$title" "$passed" "$failed"
[ "$failed" -eq 0 ]
