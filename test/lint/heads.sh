#!/usr/bin/env bash
# Every C file starts with its licence and a comment that says what it is for; in src/*.c it has two lines
# or more (one in a file of less than 100 lines): purpose, what it owns, threads, what it deliberately does not do.
set -u
cd "$(dirname "$0")/../.." || exit 1
find src test \( -name '*.[ch]' -o -name '*.def' \) | sort | xargs awk '
function finish() {
	if (!file) return
	want = file ~ /^src\/.*\.c$/ && lines >= 100 ? 2 : 1
	if (!spdx) { printf "%s:1: no SPDX line\n", file; bad = 1 }
	if (words < want) { printf "%s:2: the head comment has %d lines, not %d\n", file, words, want; bad = 1 }
}
{ if (FNR == 1) finish(); lines = FNR }
FNR == 1 {
	file = FILENAME; words = 0; state = "before"
	spdx = /^(\/\/|\/\*) SPDX-License-Identifier: Apache-2\.0/
	next
}
state == "before" && /^\/[*\/]/ { state = "in" }
state == "before" && NF { state = "after" }
state == "in" {
	text = $0
	gsub(/^[ \t]*(\/\*+|\*+\/|\*|\/\/)/, "", text)
	if (text ~ /[A-Za-z]/) words++
	if ($0 ~ /\*\// || $0 !~ /^([ \t]*\*|\/[*\/]|[ \t])/) state = "after"
}
END { finish(); exit bad }'
