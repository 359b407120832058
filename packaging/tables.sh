#!/usr/bin/env bash
# The tables of options in the man page and in the completion are what the program's --help says. Without --write says what
# differs; `make man` writes them. Usage: tables.sh PROGRAM [--write]
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
program=$1 bad=0
fresh=$(mktemp) table=$(mktemp)
trap 'rm -f "$fresh" "$table"' EXIT

says() { # WORD-OR-NOTHING ARGUMENT-OF-AWK...
	local word=$1
	shift
	"$program" ${word:+"$word"} --help | awk "$@" -f packaging/tables.awk && return 0
	echo "packaging/tables.awk:1: cannot read what $program $word --help says" >&2
	exit 1
}

# What is between the lines "begin NAME" and "end NAME" of the file becomes the table.
put() { # FILE NAME
	awk -v name="$2" -v table="$table" '
		$NF == name && $(NF - 1) == "end" { skip = 0; ends++ }
		!skip { print }
		$NF == name && $(NF - 1) == "begin" { while ((getline line < table) > 0) print line; skip = 1; begins++ }
		END { if (begins != 1 || ends != 1 || skip) exit 1 }' "$1" >"$1.new" || {
		echo "$1:1: the file has no lines \"begin $2\" and \"end $2\""
		exit 1
	}
	mv "$1.new" "$1"
}

compare() { # FILE
	if ! cmp -s "$1" "$fresh"; then
		if [ "$write" ]; then
			cat "$fresh" >"$1"
		else
			diff -u --label "$1" --label 'the program' "$1" "$fresh"
			echo "$1:1: the options are not up to date: make man"
			bad=1
		fi
	fi
}

write=''
[ "${2-}" != --write ] || write=1
man=packaging/snap-csi-plugin.8
cp "$man" "$fresh"
[ -x "$program" ] || { echo "packaging/tables.sh:1: there is no program $program"; exit 1; }
says host -v form=usage >"$table" && put "$fresh" commands
says '' -v form=man -v titles=1 >"$table" && put "$fresh" flags
says host -v form=man >"$table" && put "$fresh" host
says inspect -v form=man >"$table" && put "$fresh" inspect
compare "$man"
completion=packaging/completion.bash
cp "$completion" "$fresh"
{
	says '' -v form=words -v command=serve
	says host -v form=words -v command=host
	says inspect -v form=words -v command=inspect
} >"$table"
put "$fresh" options
compare "$completion"
exit $bad
