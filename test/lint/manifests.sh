#!/usr/bin/env bash
# Every argument that a manifest gives to the driver is a flag of flags.def: a typo there is a crash loop in a cluster.
# Sidecars have flags of their own; the driver's container is the one whose image is named snap-csi.
set -u
cd "$(dirname "$0")/../.." || exit 1
flags=$(grep -oE '^(FLAG|IGNORED)\([^"]*"[a-z-]+"' src/common/flags.def | sed 's/.*"\(.*\)"/\1/')
find manifests -name '*.yaml' | sort | xargs awk -v flags="$flags" '
BEGIN { n = split(flags, list, /[ \n]+/); for (i = 1; i <= n; i++) known[list[i]] = 1 }
FNR == 1 { ours = 0 }
/^        - name: / { ours = 0 } # the next container
/^ *image: / { ours = /snap-csi/ }
ours && match($0, /- *"?--[a-z-]+/) {
	flag = substr($0, RSTART, RLENGTH); sub(/.*--/, "", flag)
	if (!(flag in known)) { printf "%s:%d: the driver has no flag --%s\n", FILENAME, FNR, flag; bad = 1 }
	seen++
}
END { if (!seen) { print "manifests:1: no container of the driver found"; bad = 1 } exit bad }'
