#!/usr/bin/env bash
# failures.sh LOG: prints the lines of a suite's log that say what has failed, each with the first two of the indented ones
# behind it that say why; at most 40, for the summary at the end of a long run. If the log itself ends with such a list
# (check.sh), prints that list.
set -u
if grep -q '^failed:$' "$1"; then
	sed -n '/^failed:$/,$p' "$1" | grep '^    '
else
	awk -v what='^(FAIL|not ok)|:[0-9]+:[FE]:|: FAIL|ERROR: |runtime error|WARNING: ThreadSanitizer|^ +(Failed|[A-Z][A-Za-z]+Error): |[^ ]: error: |\\*\\*\\* ' '
		$0 ~ what {print; why = 2; next}
		why && /^     / {print; why--; next}
		{why = 0}' "$1" | cut -c1-300 | head -n 40 | sed 's/^/    /'
fi
exit 0
