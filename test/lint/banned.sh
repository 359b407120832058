#!/usr/bin/env bash
# Functions that are not called here, because each has a safer replacement: bounded strings and parsers that see overflow
# (str.h), the only way to start a process (spawn.h), thread-safe texts (err.h). Comments and string literals do not
# count. Tests may start processes and set variables, but may not write past a buffer either.
set -u
cd "$(dirname "$0")/../.." || exit 1
memory='strcpy|strcat|sprintf|vsprintf|strtok|gets|alloca|atoi|atol|atoll|atof'
process='system|popen|fork|vfork|setenv|putenv|unsetenv|signal|strerror|localtime|gmtime|ctime|asctime|tmpnam|mktemp'
json='cJSON_GetObjectItem'
# No directory is ever removed recursively: below a mount point there may be user data.
walks='nftw|ftw|fts_open|unlinkat'

# Prints file:line: name for each call in the files of standard input.
calls() {
	xargs -r awk -v names="$1" '
	FNR == 1 { comment = 0 }
	{
		line = $0
		gsub(/\\./, "", line)
		gsub(/"[^"]*"/, "\"\"", line)
		while (1) {
			if (comment) {
				end = index(line, "*/")
				if (!end) { line = ""; break }
				line = substr(line, end + 2); comment = 0
			}
			start = index(line, "/*")
			if (!start) break
			rest = substr(line, start + 2)
			end = index(rest, "*/")
			if (end) line = substr(line, 1, start - 1) " " substr(rest, end + 2)
			else { line = substr(line, 1, start - 1); comment = 1; break }
		}
		sub(/\/\/.*/, "", line)
		if (match(line, "(^|[^A-Za-z0-9_>.])(" names ")[ \t]*\\(")) {
			name = substr(line, RSTART, RLENGTH)
			gsub(/[^A-Za-z0-9_]/, "", name)
			printf "%s:%d: %s() is banned (test/lint/banned.sh)\n", FILENAME, FNR, name
			bad = 1
		}
	}
	END { exit bad }'
}

bad=0
find src test/sim -name '*.[ch]' 2>/dev/null | sort | calls "$memory|$process|$json" || bad=1
find src -name '*.[ch]' | sort | calls "$walks" || bad=1
find test -name '*.[ch]' ! -path 'test/sim/*' | sort | calls "$memory|$json" || bad=1
exit $bad
