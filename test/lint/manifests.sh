#!/usr/bin/env bash
# Every argument that a manifest gives to the driver is a flag of flags.def: a typo there is a crash loop in a cluster.
# Sidecars have flags of their own; the driver's container is named snap-csi-plugin, and so is the program in its probes.
# And what the chart has word for word of manifests/, since helm reads no file outside of it, is that still.
set -u
cd "$(dirname "$0")/../.." || exit 1
status=0
for of in manifests/monitoring/dashboard.json manifests/monitoring/rules.yaml manifests/components/startup-taint-policy/policy.yaml; do
	copy=charts/snap-csi/files/$(sed 's#.*/startup-taint-policy/policy#startup-taint-policy#; s#.*/##' <<<"$of")
	cmp -s "$of" "$copy" || {
		echo "$copy:1: is another than $of: cp $of $copy"
		status=1
	}
done
flags=$(grep -oE '^(FLAG|IGNORED)\([^"]*"[a-z-]+"' src/flags/flags.def | sed 's/.*"\(.*\)"/\1/')
find manifests test/kube/pods -name '*.yaml' | sort | xargs awk -v flags="$flags" '
function check(text, flag) {
	while (match(text, /--[a-z][a-z-]*/)) {
		flag = substr(text, RSTART + 2, RLENGTH - 2)
		text = substr(text, RSTART + RLENGTH)
		if (!(flag in known)) { printf "%s:%d: the driver has no flag --%s\n", FILENAME, FNR, flag; bad = 1 }
		seen++
	}
}
BEGIN { n = split(flags, list, /[ \n]+/); for (i = 1; i <= n; i++) known[list[i]] = 1 }
FNR == 1 { ours = 0 }
/^        - name: / { ours = /snap-csi-plugin$/ } # the next container
/^ *#/ { next }
ours && (/^ *- *"?--/ || /\/snap-csi-plugin,/) { check($0) }
END { if (!seen) { print "manifests:1: no container of the driver found"; bad = 1 } exit bad }' && exit "$status"
