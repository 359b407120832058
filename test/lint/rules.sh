#!/usr/bin/env bash
# The alerts of manifests/monitoring are rules that Prometheus takes, and fire when rules_test.yaml says; each metric that
# they or the dashboard name is one of docs/metrics.md. promtool is of the Debian package prometheus.
set -u
cd "$(dirname "$0")/../.." || exit 1
folder=manifests/monitoring bad=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# What is below `spec:` is a rule file of Prometheus.
awk 'below { sub(/^  /, ""); print } /^spec:/ { below = 1 }' "$folder/rules.yaml" >"$work/rules.yaml"
cp "$folder/rules_test.yaml" "$work/"
promtool check rules "$work/rules.yaml" >"$work/said" 2>&1 || { sed "s|^|$folder/rules.yaml:1: |" "$work/said"; bad=1; }
promtool test rules "$work/rules_test.yaml" >"$work/said" 2>&1 || { sed "s|^|$folder/rules_test.yaml:1: |" "$work/said"; bad=1; }
jq -e '.panels | length > 0' "$folder/dashboard.json" >/dev/null || { echo "$folder/dashboard.json:1: no panels, or no JSON"; bad=1; }
while read -r metric; do
	name=$metric
	[[ $name =~ ^(.*_seconds)_(count|bucket|sum)$ ]] && name=${BASH_REMATCH[1]}
	if ! grep -qF "| \`$name\` |" docs/metrics.md; then
		echo "$folder:1: $metric is no metric of docs/metrics.md"
		bad=1
	fi
done < <({ jq -r '.panels[].targets[].expr' "$folder/dashboard.json"; sed '/annotations:/,/- alert/d' "$work/rules.yaml"; } |
	grep -oE '\b(snap_csi|process)_[a-z_]+' | sort -u)
while read -r recorded; do
	if ! grep -qF "record: $recorded" "$folder/rules.yaml" || ! grep -qF "\`$recorded\`" docs/slo.md; then
		echo "$folder:1: $recorded is not recorded by rules.yaml, or is not in docs/slo.md"
		bad=1
	fi
done < <({ jq -r '.panels[].targets[].expr' "$folder/dashboard.json"; cat "$work/rules.yaml"; } | grep -oE '\bsnap_csi:[a-z_]+:[a-z0-9]+' | sort -u)
exit $bad
