#!/usr/bin/env bash
# The parts of HACKING.md's "Dialect" that clang-format and the compiler do not know: one form for each thing that C lets
# be written in several.
set -u
cd "$(dirname "$0")/../.." || exit 1
find src test \( -name '*.[ch]' -o -name '*.def' \) ! -path '*/data/*' | sort | xargs awk '
function say(text) { printf "%s:%d: %s\n", FILENAME, FNR, text; bad = 1 }
# What is in quotes is data.
{ code = $0; gsub(/\\./, "", code); gsub(/"[^"]*"/, "\"\"", code) }
FNR == 1 && !/^\/\* SPDX-License-Identifier: Apache-2\.0 \*\/$/ { say("the first line is /* SPDX-License-Identifier: Apache-2.0 */") }
code ~ /(^|[^:])\/\// { say("a comment is /* ... */") }
code ~ /^[ \t]*\/\*.*[^ \t]/ && code !~ /\*\// && code !~ /^[ \t]*\/\*$/ { say("a comment of several lines begins with a lone /*") }
code ~ /[-=]{6,}/ && code ~ /\/\*/ { say("a separator is /* ---- its text ---- */") }
code ~ /(^|[^A-Za-z0-9_])sizeof([ \t]+[^( \t]|[^( \tA-Za-z0-9_])/ { say("sizeof has parentheses") }
code ~ /^[ \t]*AUTO\(/ { say("AUTO() stands behind the name: char *path AUTO(free) = NULL") }
code ~ /(^|[^A-Za-z0-9_])int r[ ;,=]/ { say("a result is called rc") }
END { exit bad }'
