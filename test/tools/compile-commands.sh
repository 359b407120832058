#!/usr/bin/env bash
# Reads the commands of `make --dry-run` and prints a compilation database (compile_commands.json) of those that compile
# a C file: ... -c -o OBJECT SOURCE.
set -u
awk -v dir="$PWD" '
function quoted(text) {
	gsub(/\\/, "\\\\", text)
	gsub(/"/, "\\\"", text)
	return "\"" text "\""
}
/ -c -o [^ ]+ [^ ]+\.c$/ {
	sub(/^mkdir -p [^ ]+ && /, "")
	printf "%s\n  {\"directory\": %s, \"file\": %s, \"command\": %s}", n++ ? "," : "[", quoted(dir), quoted($NF), quoted($0)
}
END {
	print n ? "\n]" : "[]"
	exit !n
}'
