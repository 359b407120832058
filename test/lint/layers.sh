#!/usr/bin/env bash
# The arrows: which room may include which, of the driver (ARCHITECTURE.md) and of snap-sim (test/sim/README.md). A file
# includes by the full path of the room, "node/mount/mount.h", never by a name relative to itself.
set -u
cd "$(dirname "$0")/../.." || exit 1
find src test/sim -name '*.[ch]' ! -path src/main.c ! -path 'test/sim/*.[ch]' -o -path 'test/sim/*/*.[ch]' ! -path 'test/sim/test/*' |
	sort | xargs awk '
function room(path) {
	sub(/^src\//, "", path)
	sub(/^test\/sim\//, "sim/", path)
	sub(/\/[^\/]*$/, "", path)
	return path
}
BEGIN {
	may["common"] = " common "
	may["volume"] = " common volume "
	may["http"] = " common http "
	may["web"] = " common web "
	may["kube"] = " common http kube "
	may["dpf"] = " common volume kube dpf "
	may["rpc"] = " common rpc "
	may["flags"] = " common flags "
	may["controller"] = " common volume rpc kube dpf controller "
	may["node/device"] = " common volume node/device "
	may["node/mount"] = " common volume node/mount "
	may["node"] = " common volume rpc node/device node/mount node "
	may["host"] = " common volume kube dpf node/device node/mount node host "
	may["settings"] = " common flags node settings "
	may["program"] = " common flags settings rpc controller node web program "
	may["inspect"] = " common flags settings volume kube dpf controller node/device node/mount node inspect "

	may["sim/base"] = " common sim/base "
	may["sim/kinds"] = " common sim/kinds "
	may["sim/store"] = " common http kube sim/base sim/kinds sim/store "
	may["sim/api"] = " common sim/base sim/kinds sim/store sim/api "
	may["sim/fabric"] = " common sim/base sim/fabric "
	may["sim/dpf"] = " common sim/base sim/kinds sim/store sim/fabric sim/dpf "
	may["sim/server"] = " common sim/base sim/kinds sim/store sim/api sim/fabric sim/dpf sim/server "
}
FNR == 1 { from = room(FILENAME) }
match($0, /^[ \t]*#[ \t]*include[ \t]*"[^"]+"/) {
	target = $0; sub(/^[^"]*"/, "", target); sub(/".*/, "", target)
	if (target ~ /\.def$/) next
	to = room(target)
	# Generated messages stop at the doors: *_csi.{c,h} and the RPC room.
	ok = to == "csi" ? FILENAME ~ /_csi\.[ch]$/ || from == "rpc" : index(may[from], " " to " ") > 0
	if (!ok) { printf "%s:%d: %s may not include \"%s\"\n", FILENAME, FNR, from, target; bad = 1 }
}
END { exit bad }'
