#!/usr/bin/env bash
# Runs fuzzers one after the other, two at a time where there are two cores. Usage: run.sh SECONDS TARGET...
# Ends with "fuzz: N passed, N failed"; the input of a finding stays in build/fuzz-corpus.
set -u
seconds=$1
shift
corpora=build/fuzz-corpus
mkdir -p "$corpora"

one() {
	local name=$1 corpus=$corpora/$1
	mkdir -p "$corpus"
	[ ! -d "test/fuzz/seeds/$name" ] || cp -n "test/fuzz/seeds/$name"/* "$corpus"/
	if build/fuzz/test/fuzz/"$name" -max_total_time="$seconds" -max_len=4096 -timeout=20 -rss_limit_mb=2048 \
		-verbosity=0 -print_final_stats=1 -artifact_prefix="$corpus-" "$corpus" >"$corpus.log" 2>&1; then
		printf 'ok   %-24s %9s runs in %s s\n' "$name" "$(sed -n 's/^stat::number_of_executed_units: *//p' "$corpus.log")" "$seconds"
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
