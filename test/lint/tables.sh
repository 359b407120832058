#!/usr/bin/env bash
# Tables of Markdown that GitHub would not show as meant: a row with more or fewer columns than its head (most often a |
# that is not written \|, which splits also inside of backticks), or rows without a head (after an empty line).
set -u
cd "$(dirname "$0")/../.." || exit 1
find . -name '*.md' ! -path './build/*' ! -path './.git/*' ! -path '*/node_modules/*' | sed 's|^\./||' | sort | xargs awk '
function columns(row) {
	gsub(/\\\|/, "", row)
	sub(/^[ \t]*\|/, "", row)
	sub(/\|[ \t]*$/, "", row)
	return gsub(/\|/, "", row) + 1
}
function say(line, text) { printf "%s:%d: %s\n", FILENAME, line, text; bad = 1 }
FNR == 1 { code = 0; rows = 0 }
/^[ \t]*```/ { code = !code }
code || !/^ ? ? ?\|/ { if (rows == 1) say(FNR - 1, "a row of a table that has no head"); rows = 0; next }
{ rows++ }
rows == 1 { head = columns($0); next }
rows == 2 && !/^ *\|( *:?-+:? *\|)+ *$/ { say(FNR - 1, "a row of a table that has no head"); rows = 0 }
rows == 0 { next }
columns($0) != head { say(FNR, "this row has " columns($0) " columns, its table " head) }
END { exit bad }'
