#!/usr/bin/env bash
# The tests that a list names: "FOLDER/PROGRAM: TEST" each; with PROGRAM (a path) only that one's, without it in front.
# Usage: skipped.sh LIST [PROGRAM]. A line of the list is "FOLDER/PROGRAM: TEST | reason"; # begins a comment.
set -eu
list=$1
if [ $# -eq 1 ]; then
	sed -nE 's/^([^#|]+: [^|]+) \| .+/\1/p' "$list"
else
	program=/$2
	program=${program##*/test/}
	sed -nE "s,^$program: ([^|]+) \\| .+,\\1,p" "$list"
fi
