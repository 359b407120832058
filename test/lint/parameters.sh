#!/usr/bin/env bash
# Every key of a StorageClass (the PARAM_ names of context_keys.h, except those of the sidecars) has its row in
# docs/reference/parameters.md, and every row there is such a key. A key with the driver's prefix has to be in prefixed_keys of
# volume_params.c, too: otherwise the driver would refuse it as unknown.
set -u
cd "$(dirname "$0")/../.." || exit 1
names=src/volume/context_keys.h parser=src/volume/volume_params.c table=docs/reference/parameters.md
bad=0
accepted=$(sed -n '/^static const char \*const prefixed_keys\[\]/,/^}/p' "$parser")
# line, macro, key
keys=$(sed -nE 's/^#define DRIVER_PREFIX "(.*)"/\1/p' "$names" | {
	read -r prefix
	grep -nE '^#define PARAM_[A-Z0-9_]+ (DRIVER_PREFIX )?"' "$names" | grep -v '^[0-9]*:#define PARAM_SIDECAR_PREFIX' |
		sed -E "s|^([0-9]+):#define ([A-Z0-9_]+) DRIVER_PREFIX \"([^\"]*)\".*|\1 \2 $prefix\3|; s|^([0-9]+):#define ([A-Z0-9_]+) \"([^\"]*)\".*|\1 \2 \3|"
})
if [ -z "$keys" ] || [ -z "$accepted" ]; then
	echo "$names:1: no keys, or no prefixed_keys in $parser"
	exit 1
fi
while read -r line macro key; do
	if ! grep -qF "| \`$key\` |" "$table"; then
		echo "$names:$line: $key has no row in $table"
		bad=1
	fi
	if [[ $key == */* ]] && ! grep -qE "\<$macro\>" <<<"$accepted"; then
		echo "$names:$line: $macro is not in prefixed_keys of $parser, so the driver refuses it"
		bad=1
	fi
done <<<"$keys"
# The first table is that of the keys. external-provisioner reads csi.storage.k8s.io/fstype and takes it away.
while IFS=: read -r line key; do
	if [ "$key" != csi.storage.k8s.io/fstype ] && ! grep -qE " $key\$" <<<"$keys"; then
		echo "$table:$line: $key is not a key of $names"
		bad=1
	fi
done < <(awk '/^\|/ { seen = 1 } seen && !/^\|/ { exit } match($0, /^\| `[^`]+` \|/) { print FNR ":" substr($0, 4, RLENGTH - 6) }' "$table")
exit $bad
