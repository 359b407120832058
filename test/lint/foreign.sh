#!/usr/bin/env bash
# Each foreign library has one place: foreign.txt lists its headers and the files that may include them, both as extended
# regular expressions.
set -u
cd "$(dirname "$0")/../.." || exit 1
bad=0
while IFS=$'\t' read -r header files; do
	[[ -z $header || $header == '#'* ]] && continue
	while IFS=: read -r file line text; do
		if ! [[ $file =~ ^($files)$ ]]; then
			printf '%s:%s: %s belongs into %s only\n' "$file" "$line" "${text#*include}" "$files"
			bad=1
		fi
	done < <(grep -rnE "^[[:space:]]*#[[:space:]]*include[[:space:]]*[<\"]($header)" src --include='*.[ch]')
done <test/lint/foreign.txt
exit $bad
