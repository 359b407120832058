#!/usr/bin/env bash
# Every argument that a manifest gives to the driver is a flag of flags.def: a typo there is a crash loop in a cluster.
# Sidecars have flags of their own; the driver's container is named snap-csi-plugin, and so is the program in its probes.
# No account of the driver may read a Secret; the node's has no rights, and its pod no token.
# And what the chart has word for word of manifests/, since helm reads no file outside of it, is that still.
set -u
cd "$(dirname "$0")/../.." || exit 1
status=0
python3 - <<'END' || status=1
import glob, sys, yaml
bad, nodes = 0, 0
def wrong(path, text):
    global bad
    bad = 1
    print(f"{path}:1: {text}")
for path in sorted(glob.glob("manifests/**/*.yaml", recursive=True)):
    for o in yaml.safe_load_all(open(path, encoding="utf-8")):
        if not isinstance(o, dict):
            continue
        kind, name = o.get("kind"), (o.get("metadata") or {}).get("name", "")
        for rule in (o.get("rules") or []) if kind in ("Role", "ClusterRole") else []:
            if {"secrets", "*"} & set(rule.get("resources", []) + rule.get("verbs", []) + rule.get("apiGroups", [])):
                wrong(path, f"{kind} {name} grants Secrets, or everything of a kind")
        for subject in (o.get("subjects") or []) if kind in ("RoleBinding", "ClusterRoleBinding") else []:
            if subject.get("name") == "snap-csi-node":
                wrong(path, f"{kind} {name} gives rights to the node's account")
        pod = ((o.get("spec") or {}).get("template") or {}).get("spec") or {} if kind == "DaemonSet" else {}
        if pod.get("serviceAccountName") == "snap-csi-node":
            nodes += 1
            if pod.get("automountServiceAccountToken") is not False or "serviceAccountToken" in str(pod.get("volumes")):
                wrong(path, f"the pods of DaemonSet {name} have a token")
if not nodes:
    wrong("manifests", "no DaemonSet of the node found")
sys.exit(bad)
END
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
