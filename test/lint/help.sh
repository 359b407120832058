#!/usr/bin/env bash
# Every command of the Makefiles (a name after .PHONY:) has its line in `make help`, "## name: text" beside its rule, and
# every such line names a command.
set -u
cd "$(dirname "$0")/../.." || exit 1
awk '
/^\.PHONY: / { for (i = 2; i <= NF; i++) command[$i] = FILENAME ":" FNR }
match($0, /^## [a-z0-9_.-]+: /) { help[substr($0, 4, RLENGTH - 5)] = FILENAME ":" FNR }
END {
	for (name in command) if (!(name in help)) { print command[name] ": make help does not say what " name " does: add a line \"## " name ": ...\""; bad = 1 }
	for (name in help) if (!(name in command)) { print help[name] ": " name " is no command: it stands in no .PHONY"; bad = 1 }
	exit bad
}' Makefile packaging/rules.mk test/*/rules.mk
