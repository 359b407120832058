#!/usr/bin/env bash
# The alerts of manifests/monitoring are rules that Prometheus takes, and fire when rules_test.yaml says; each metric that
# they or the dashboard name is one of docs/reference/metrics.md; the runbook of each alert is a section of docs/operate/alerts.md. promtool is of the Debian package prometheus.
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
	if ! grep -qE "^\| \`$name(\{[a-z, ]*\})?\` \|" docs/reference/metrics.md; then
		echo "$folder:1: $metric is no metric of docs/reference/metrics.md"
		bad=1
	fi
done < <({ jq -r '.panels[].targets[]?.expr' "$folder/dashboard.json"; sed '/annotations:/,/- alert/d' "$work/rules.yaml"; } |
	grep -oE '\b(snap_csi|process)_[a-z_]+' | sort -u)
while read -r page heading; do
	if ! sed -nE 's/^## //p' "$page" 2>/dev/null | tr '[:upper:]' '[:lower:]' | grep -qxF "$heading"; then
		echo "$folder/rules.yaml:1: a runbook_url leads to $page#$heading, which there is not"
		bad=1
	fi
done < <(sed -nE 's/.*runbook_url: ([^#]*)#/\1 /p' "$work/rules.yaml")
alerts=$(grep -c -- '- alert:' "$work/rules.yaml")
if [ "$(grep -oP '(?<=runbook_url: docs/operate/alerts.md#).*' "$work/rules.yaml" | sort -u | wc -l)" != "$alerts" ] ||
	[ "$(grep -oP '(?<=alertname: )SnapCsi\w+' "$work/rules_test.yaml" | sort -u | wc -l)" != "$alerts" ]; then
	echo "$folder/rules.yaml:1: an alert has no runbook_url of its own, or no test in rules_test.yaml"
	bad=1
fi
while read -r recorded; do
	if ! grep -qF "record: $recorded" "$folder/rules.yaml" || ! grep -qF "\`$recorded\`" docs/operate/slo.md; then
		echo "$folder:1: $recorded is not recorded by rules.yaml, or is not in docs/operate/slo.md"
		bad=1
	fi
done < <({ jq -r '.panels[].targets[]?.expr' "$folder/dashboard.json"; cat "$work/rules.yaml"; } | grep -oE '\bsnap_csi:[a-z_]+:[a-z0-9]+' | sort -u)
exit $bad
