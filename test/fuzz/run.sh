#!/usr/bin/env bash
# Runs fuzzers, as many at a time as there are processors. Usage: run.sh SECONDS TARGET...
# Prints how many inputs each one has run, how many edges of the code they reach, and how many inputs are new in its
# corpus. Ends with "fuzz: N passed, N failed"; the input of a finding stays in build/fuzz-corpus.
set -u
seconds=$1
shift
corpora=build/fuzz-corpus
mkdir -p "$corpora"

stat_of() { # of the log in $corpus
	sed -n "s/^stat::\(number_of_\)\?$1: *//p" "$corpus.log"
}

one() {
	local name=$1 corpus=$corpora/$1
	mkdir -p "$corpus"
	[ ! -d "test/fuzz/seeds/$name" ] || cp -n "test/fuzz/seeds/$name"/* "$corpus"/
	if build/fuzz/test/fuzz/"$name" -max_total_time="$seconds" -max_len=4096 -timeout=20 -rss_limit_mb=2048 \
		-print_final_stats=1 -artifact_prefix="$corpus-" "$corpus" >"$corpus.log" 2>&1; then
		printf 'ok   %-22s %9s runs in %s s, %5s edges, %4s new inputs\n' "$name" "$(stat_of executed_units)" "$seconds" \
			"$(sed -n 's/.*DONE *cov: \([0-9]*\).*/\1/p' "$corpus.log")" "$(stat_of new_units_added)"
	else
		printf 'FAIL %s\n' "$name"
		tail -n 40 "$corpus.log"
		return 1
	fi
}

failed=0 pids=() total=$#
for name in "$@"; do
	if [ ${#pids[@]} -ge "$(nproc)" ]; then
		wait "${pids[0]}" || failed=$((failed + 1))
		pids=("${pids[@]:1}")
	fi
	one "$name" &
	pids+=($!)
done
for pid in "${pids[@]}"; do
	wait "$pid" || failed=$((failed + 1))
done
printf 'fuzz: %d passed, %d failed\n' $((total - failed)) "$failed"
[ "$failed" -eq 0 ]
