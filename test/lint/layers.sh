#!/usr/bin/env bash
# The arrows: which room may include which (ARCHITECTURE.md). A file includes by the full path of the room,
# "node/mount/mount.h", never by a name relative to itself.
set -u
cd "$(dirname "$0")/../.." || exit 1
find src -name '*.[ch]' ! -path src/main.c | sort | xargs awk '
function room(path) {
	if (path ~ /^common\/(rpc|kube|dpf)\//) { split(path, p, "/"); return p[1] "/" p[2] }
	if (path ~ /^node\/(device|mount)\//) { split(path, p, "/"); return p[1] "/" p[2] }
	if (path ~ /^(common|controller|node|csi)\//) { split(path, p, "/"); return p[1] }
	return "?"
}
BEGIN {
	may["common"] = " common "
	may["common/rpc"] = " common common/rpc "
	may["common/kube"] = " common common/kube "
	may["common/dpf"] = " common common/kube common/dpf "
	may["controller"] = " common common/rpc common/kube common/dpf controller "
	may["node/device"] = " common node/device "
	may["node/mount"] = " common node/mount "
	may["node"] = " common common/rpc node/device node/mount node "
}
FNR == 1 { own = FILENAME; sub(/^src\//, "", own); from = room(own) }
match($0, /^[ \t]*#[ \t]*include[ \t]*"[^"]+"/) {
	target = $0; sub(/^[^"]*"/, "", target); sub(/".*/, "", target)
	if (target ~ /\.def$/) next
	to = room(target)
	# Generated messages stop at the doors: *_csi.{c,h} and the RPC room.
	ok = to == "csi" ? own ~ /_csi\.[ch]$/ || from == "common/rpc" : index(may[from], " " to " ") > 0
	if (!ok) { printf "%s:%d: %s may not include \"%s\"\n", FILENAME, FNR, from, target; bad = 1 }
}
END { exit bad }'
