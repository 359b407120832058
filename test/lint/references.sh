#!/usr/bin/env bash
# A text of src, manifests, charts or packaging that refers its reader to docs/PAGE.md, "Heading", names an existing page and
# heading. Links between our own documents lead to an existing file, and to an existing heading if they name one.
set -u
cd "$(dirname "$0")/../.." || exit 1
bad=0
while IFS=: read -r file line text; do
	page=${text%%, *} heading=${text#*, \"}
	if [ ! -e "$page" ]; then
		echo "$file:$line: there is no $page"
		bad=1
	elif [ "$heading" != "$text" ] && ! grep -qE "^#+ $heading\$" "$page"; then
		echo "$file:$line: $page has no heading \"$heading\""
		bad=1
	fi
done < <(grep -rnoE '\b(README|docs/[a-z0-9/-]+)\.md(, \\?"[^"\\]+)?' src manifests charts packaging | sed 's/, \\"/, "/')
anchors() { # file: its headings as GitHub makes anchors of them
	sed -nE 's/^#+ +//p' "$1" | tr '[:upper:]' '[:lower:]' | sed 's/[^a-z0-9 _-]//g; s/ /-/g'
}
while IFS=: read -r file line link; do
	path=${link%%#*} anchor=
	[[ $link != *#* ]] || anchor=${link#*#}
	[ -n "$path" ] && target=$(dirname "$file")/$path || target=$file
	if [ ! -e "$target" ]; then
		echo "$file:$line: there is no $path"
		bad=1
	elif [ -n "$anchor" ] && ! anchors "$target" | grep -qxF "$anchor"; then
		echo "$file:$line: $target has no heading for #$anchor"
		bad=1
	fi
done < <(find . -name '*.md' ! -path './build/*' ! -path './.git/*' ! -path '*/node_modules/*' -print0 |
	xargs -0 grep -nHoE '\]\([^) ]+\)' | sed -E 's/\]\(([^)]*)\)/\1/' | grep -vE ':(https?|mailto):')
exit $bad
