#!/usr/bin/env bash
# The section of CHANGELOG.md about one version, as the text of its release. Usage: release-notes.sh VERSION
set -eu
cd "$(dirname "$0")/.."
version=${1:?usage: release-notes.sh VERSION}
notes=$(awk -v head="## $version" '
	/^## / { on = $0 == head || index($0, head ",") == 1; next }
	on' CHANGELOG.md | sed -e '/./,$!d')
[ -n "$notes" ] || { echo "release-notes: CHANGELOG.md says nothing of $version" >&2; exit 1; }
printf '# snap-csi %s\n\n%s\n' "$version" "$notes"
