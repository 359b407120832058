#!/usr/bin/env bash
# Layout of comments that a formatter or a hand has damaged: a comment behind code that does not fit on its line, a type
# torn from its name to make room for such a comment, a sentence broken far before the end of its line, a table that was
# turned into prose.
set -u
cd "$(dirname "$0")/../.." || exit 1
find src test \( -name '*.[ch]' -o -name '*.def' \) ! -path '*/data/*' | sort | xargs awk '
function say(line, text) { printf "%s:%d: %s\n", FILENAME, line, text; bad = 1 }
function width(line) { gsub(/\t/, "        ", line); return length(line) }
FNR == 1 { inside = 0; row = 0; last = "" }
# A block comment: its text without the star. `row`: the line before was indented, as a row of a table or of a list.
inside {
	if (/\*\//) { inside = 0; last = ""; next }
	text = $0; sub(/^[ \t]*\* ?/, "", text)
	if (text == "") { row = 0; last = ""; next }
	if (text ~ /^[^ ]/ && text ~ /[^ ]   +[^ ]/) say(FNR, "columns in the middle of a paragraph: a table begins each row on a line of its own")
	if (text ~ /^[a-z]/ && row) say(FNR, "a row goes on without its indentation; if a paragraph begins here, an empty line stands before it")
	split(text, word, " ")
	if (text ~ /^[a-z("`]/ && last != "" && width(last) + 1 + length(word[1]) <= 70) say(FNR - 1, "the line ends in the middle of a sentence, before column 70")
	row = text ~ /^  /
	last = text ~ /^[^ ]/ ? $0 : ""
	next
}
/^[ \t]*\/\*[ \t]*$/ { inside = 1; row = 0; last = ""; next }
# What is in quotes is data.
{ code = $0; gsub(/\\./, "", code); gsub(/"[^"]*"/, "\"\"", code); gsub(/\/\*[^*]*\*+([^\/*][^*]*\*+)*\//, "/**/", code) }
code ~ /[^ \t].*\/\*/ && code !~ /\/\*\*\/[^*]*$/ && code !~ /\*\// { say(FNR, "a comment behind code fits on its line; a longer one stands on a line of its own above") }
code ~ /^[ \t]+(const |static |volatile )*((struct|enum|union) [a-zA-Z0-9_]+|unsigned|int|bool|char|long|float|double|[a-z0-9_]+_t|[A-Z][a-zA-Z0-9]+[a-z][a-zA-Z0-9]*)( const)?$/ && before !~ /\\$/ { say(FNR, "a type and its name stand on one line") }
code ~ /^[ \t]*\} \* ?[a-z_]+;/ { say(FNR, "a pointer to a struct that is declared in the same line: declare the struct first") }
{ before = $0 }
END { exit bad }'
