#!/usr/bin/env bash
# The arrows: which room may include which (ARCHITECTURE.md). A file includes by the full path of the room,
# "node/mount/mount.h", never by a name relative to itself.
set -u
cd "$(dirname "$0")/../.." || exit 1
find src -name '*.[ch]' ! -path src/main.c | sort | xargs awk '
function room(path) {
	sub(/\/[^\/]*$/, "", path)
	return path
}
BEGIN {
	may["common"] = " common "
	may["volume"] = " common volume "
	may["http"] = " common http "
	may["kube"] = " common http kube "
	may["dpf"] = " common kube dpf "
	may["rpc"] = " common rpc "
	may["flags"] = " common flags "
	may["controller"] = " common volume rpc kube dpf controller "
	may["node/device"] = " common volume node/device "
	may["node/mount"] = " common volume node/mount "
	may["node"] = " common volume rpc node/device node/mount node "
}
FNR == 1 { own = FILENAME; sub(/^src\//, "", own); from = room(own) }
match($0, /^[ \t]*#[ \t]*include[ \t]*"[^"]+"/) {
	target = $0; sub(/^[^"]*"/, "", target); sub(/".*/, "", target)
	if (target ~ /\.def$/) next
	to = room(target)
	# Generated messages stop at the doors: *_csi.{c,h} and the RPC room.
	ok = to == "csi" ? own ~ /_csi\.[ch]$/ || from == "rpc" : index(may[from], " " to " ") > 0
	if (!ok) { printf "%s:%d: %s may not include \"%s\"\n", FILENAME, FNR, from, target; bad = 1 }
}
END { exit bad }'
arrows=$?
# snap-sim has rooms too (test/sim/README.md), and there no file includes, by whatever way, one that includes it: a .c and
# its header count as one.
find test/sim -name '*.[ch]' ! -path 'test/sim/test/*' | sort | xargs awk '
function without(path, what) {
	sub(what, "", path)
	return path
}
BEGIN {
	may["base"] = " common base "
	may["kinds"] = " common kinds "
	may["store"] = " common http kube base kinds store "
	may["api"] = " common base kinds store api "
	may["fabric"] = " common base fabric "
	may["dpf"] = " common base kinds store fabric dpf "
	may["server"] = " common base kinds store api fabric dpf server "
}
FNR == 1 {
	own = without(FILENAME, "\\.[ch]$"); from = own
	sub(/^test\/sim\//, "", from); from = from ~ /\// ? without(from, "/.*") : "."
}
match($0, /^[ \t]*#[ \t]*include[ \t]*"[^"]+"/) {
	target = $0; sub(/^[^"]*"/, "", target); sub(/".*/, "", target)
	to = target; sub(/^test\/sim\//, "", to); to = to ~ /\// ? without(to, "/.*") : "."
	if (from != "." && index(may[from], " " to " ") == 0) {
		printf "%s:%d: %s may not include \"%s\"\n", FILENAME, FNR, from, target; bad = 1
	}
	target = without(target, "\\.h$")
	if (target ~ /^test\/sim\// && target != own) { uses[own] = uses[own] " " target; where[own, target] = FILENAME ":" FNR }
}
function walk(file, way, last,    all, n, i, start) {
	start = index(way " ", " " file " ")
	if (start) { printf "%s: a circle:%s %s\n", where[last, file], substr(way, start), file; bad = 1 }
	if (start || file in done) return
	n = split(uses[file], all, " ")
	for (i = 1; i <= n; i++) walk(all[i], way " " file, file)
	done[file] = 1
}
END { for (file in uses) walk(file, "", ""); exit bad }' && exit $arrows
exit 1
