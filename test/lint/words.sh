#!/usr/bin/env bash
# Nothing unfinished lands: no marks of work to be done later, no debugging left behind, no white space at line ends.
set -u
cd "$(dirname "$0")/../.." || exit 1
bad=0
find src test csi manifests docs .ci -type f ! -path 'test/lint/words.sh' ! -path '*/data/*' -print0 2>/dev/null |
	xargs -0 grep -nIE '\b(TODO|FIXME|XXX|HACK)\b' && bad=1
find src test csi manifests docs .ci ./*.md -type f ! -path '*/data/*' -print0 2>/dev/null |
	xargs -0 grep -nIE '[[:blank:]]+$' && bad=1
exit $bad
