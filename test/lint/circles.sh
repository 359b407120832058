#!/usr/bin/env bash
# No circles between files of src, nor between those of test/sim: if a.c uses a function or variable of b.c, b.c must not use
# a.c, even by way of other files. The symbols of the object files show the uses; `make lint` builds them first. Headers that
# include each other are a circle, too. For each group of files that depend on each other the shortest circle is printed.
set -u
cd "$(dirname "$0")/../.." || exit 1
objects=${OBJECTS:-build/debug}
[ -n "${OBJECTS-}" ] || make --no-print-directory -s "$objects/libsnapcsi.a" "$objects/snap-sim" FLAVOUR=debug || exit 1
bad=0

# Reads lines "user definer symbol" (headers: without the symbol). Fails when there is a circle.
circles() {
	awk '
	function way(from, to, head, last, queue, path, list, i) { # the shortest, with both ends; "" when there is none
		queue[last = 1] = from
		path[from] = from
		for (head = 1; head <= last; head++)
			for (i = split(uses[queue[head]], list, " "); i > 0; i--) {
				if (list[i] == to) return path[queue[head]] " " to
				if (list[i] in path) continue
				path[list[i]] = path[queue[head]] " " list[i]
				queue[++last] = list[i]
			}
		return ""
	}
	$1 == $2 { next }
	!($1 in uses) { files[++count] = $1 }
	!(($1, $2) in symbols) { uses[$1] = uses[$1] " " $2 }
	!(($1, $2, $3) in known) { known[$1, $2, $3]; symbols[$1, $2] = symbols[$1, $2] " " $3 }
	END {
		for (i = 1; i <= count; i++) {
			if (files[i] in told || !(best = way(files[i], files[i]))) continue
			bad = 1
			group = ""
			for (j = 1; j <= count; j++) {
				other = files[j]
				if (!way(files[i], other) || !way(other, files[i])) continue
				told[other]
				group = group " " other
				if (split(circle = way(other, other), a, " ") < split(best, a, " ")) best = circle
			}
			n = split(best, ring, " ")
			printf "%s:1: these files depend on each other:%s; the shortest circle:\n", ring[1], group
			for (j = 1; j < n; j++) printf "    %s uses %s:%s\n", ring[j], ring[j + 1], symbols[ring[j], ring[j + 1]]
		}
		exit bad
	}'
}

# nm prints "src/a.o: name letter ..."; U is a use. Objects whose source is gone are not asked.
objects() {
	find src test/sim -name '*.c' ! -path 'test/sim/test/*' | sort | while read -r file; do
		[ ! -e "$objects/${file%.c}.o" ] || echo "$objects/${file%.c}.o"
	done
}
objects | xargs nm --print-file-name --format=posix --extern-only | awk -v objects="$objects/" '
{ sub(/\.o:$/, ".c", $1); print ($3 == "U" ? "use" : "define"), $2, substr($1, length(objects) + 1) }' | sort | awk '
$1 == "define" { definer[$2] = $3 }
$1 == "use" && $2 in definer { print $3, definer[$2], $2 }' | circles || bad=1

grep -rHoE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"[^"]+\.h"' src test/sim --include='*.h' | sort |
	sed -E 's|^([^:]*):[^"]*"([^"]+)"|\1 src/\2 (include)|; s|src/test/|test/|' | circles || bad=1
exit $bad
