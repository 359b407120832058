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
	if (path ~ /^node\/(node|options)\.[ch]$/) return "node.h"
	sub(/\/[^\/]*$/, "", path)
	return path
}
BEGIN {
	may["common"] = " common "
	may["volume"] = " common volume "
	may["luks"] = " common volume luks "
	may["http"] = " common http "
	may["web"] = " common web "
	may["kube"] = " common http kube "
	may["dpf"] = " common volume kube dpf "
	may["rpc"] = " common rpc "
	may["flags"] = " common flags "
	may["controller"] = " common volume rpc kube dpf controller "
	may["node/device"] = " common volume node/device "
	may["node/mount"] = " common volume node/mount "
	node = " common volume node.h node/device node/mount "
	may["node.h"] = " common node.h node/device "
	may["node/holders"] = node "node/holders "
	may["node/work"] = node "node/holders node/work "
	may["node/target"] = node "node/holders node/work node/target "
	may["node/gate"] = " common rpc node/gate "
	may["node/host"] = node "node/holders node/work node/target node/gate node/staged node/disk node/host "
	node = node "node/holders node/work node/target node/gate node/staged "
	may["node/staged"] = node
	may["node/disk"] = node "luks node/disk "
	may["node/share"] = node "node/host node/share "
	node = node "node/host node/disk node/share node/stage "
	may["node/stage"] = node
	node = node "node "
	may["node"] = node "rpc "
	may["host"] = node "kube dpf host "
	may["settings"] = " common flags node.h node/target settings "
	may["program"] = node "flags settings rpc controller web program "
	may["inspect"] = node "flags settings kube dpf controller inspect "

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
