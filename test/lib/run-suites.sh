#!/usr/bin/env bash
# Runs test programs, RUN_JOBS (1) at a time, and adds up their Check summaries
# ("100%: Checks: 3, Failures: 0, Errors: 0"). Usage: run-suites.sh TITLE PROGRAM...
# ONLY_CALLING in the environment is a function of libc: programs that never call it are left out, and counted. A program
# without pthread_create() has no race for ThreadSanitizer to find.
# SKIP_LIST in the environment is a list of tests that are left out (test/cross/skip.txt).
# Ends with "TITLE: N passed, N failed"; exit 1 when anything failed.
set -u
. test/lib/own-mounts.sh
# libcurl and gRPC are not instrumented, so races inside them are not reported. Annotations in rpc_server.c tell
# ThreadSanitizer what gRPC orders.
export TSAN_OPTIONS="${TSAN_OPTIONS:+$TSAN_OPTIONS:}ignore_noninstrumented_modules=1"
title=$1
shift
# With CK_FORK=no Check has no time limit.
limit=(test/lib/run-limited.sh 1200)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# One program; its line (a failure: all that it said) is printed in one piece, its counts kept for the sum.
run_one() { # number program
	local log=$dir/$1.log program=$2 start=$EPOCHREALTIME rc checks bad good TIMEFORMAT='%U %S' user sys
	if [ -n "${SKIP_LIST-}" ]; then
		export SKIP_TESTS
		SKIP_TESTS=$(test/cross/skipped.sh "$SKIP_LIST" "$program" | tr '\n' ' ')
	fi
	{ time "${limit[@]}" "$program" >"$log" 2>&1; } 2>"$dir/$1.cpu"
	rc=$?
	read -r user sys <"$dir/$1.cpu"
	read -r checks bad <<<"$(sed -nE 's/^[0-9]+%: Checks: ([0-9]+), Failures: ([0-9]+), Errors: ([0-9]+).*/\1 \2 \3/p' "$log" |
		awk '{c += $1; f += $2 + $3} END {print c + 0, f + 0}')"
	if [ "$rc" -ne 0 ] && [ "$bad" -eq 0 ]; then
		bad=1 # ended by a signal or a sanitizer: no summary
	fi
	good=$((checks > bad ? checks - bad : 0))
	(
		flock 9
		echo "$good $bad" >>"$dir/counts"
		if [ "$bad" -ne 0 ]; then
			cat "$log"
			printf 'FAIL %s (exit %d)\n' "$program" "$rc"
		else
			grep -E '^SKIP' "$log"
			printf 'ok   %-60s %3d  %5.1f s, CPU %4.1f + %4.1f s\n' "$program" "$good" "$(awk "BEGIN {print $EPOCHREALTIME - $start}")" "$user" "$sys"
		fi
	) 9>"$dir/lock"
}

: >"$dir/counts"
number=0 left_out=0
for program in "$@"; do
	if [ -n "${ONLY_CALLING-}" ] && ! nm -D --undefined-only "$program" | grep -q " $ONLY_CALLING\b"; then
		left_out=$((left_out + 1))
		continue
	fi
	number=$((number + 1))
	while [ "$(jobs -rp | wc -l)" -ge "${RUN_JOBS:-1}" ]; do
		wait -n
	done
	run_one "$number" "$program" &
done
wait
[ "$left_out" -eq 0 ] || echo "$left_out programs never call $ONLY_CALLING()"
read -r passed failed <<<"$(awk '{p += $1; f += $2} END {print p + 0, f + 0}' "$dir/counts")"
printf '%s: %d passed, %d failed\n' "$title" "$passed" "$failed"
[ "$failed" -eq 0 ]
