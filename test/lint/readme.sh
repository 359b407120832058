#!/usr/bin/env bash
# README.md is one page: the purpose of the driver, how to try and install it, and links to the other documents.
set -u
cd "$(dirname "$0")/../.." || exit 1
most=150
lines=$(wc -l <README.md)
if [ "$lines" -gt "$most" ]; then
	echo "README.md:$most: it has $lines lines, more than $most: what is no introduction belongs into docs/"
	exit 1
fi
