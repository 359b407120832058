#!/usr/bin/env bash
# Runs csi-sanity three times, with filesystems and raw block on NVMe and with virtio-fs (there with --topology), against the
# driver in --mode=all and snap-sim, and compares the skipped specs with test/sanity/skips; the specs about expansion run
# again where the CRD lets volumes grow. Needs root. Ends with "sanity: N passed, N failed".
set -u
cd "$(dirname "$0")/../.." || exit 1
. test/lib/world.sh

world_need_root sanity
KEEP_LOGS=$BUILD/logs/sanity
world_begin
passed=0 failed=0

# Counts a failure of the run itself, in addition to those of the specs.
fail() {
	printf 'FAIL %s\n' "$*"
	failed=$((failed + 1))
}

# The capabilities that the driver advertises, one per line; those of the node as node:NAME.
capabilities() {
	local call=("$CSI_CALL" -e "$ENDPOINT")
	"${call[@]}" ControllerGetCapabilities | jq -r '.capabilities[].rpc.type'
	"${call[@]}" NodeGetCapabilities | jq -r '"node:" + .capabilities[].rpc.type'
	"${call[@]}" GetPluginCapabilities | jq -r '.capabilities[].service.type // empty'
}

# specs REPORT STATE...: prints the paths of the specs in one of the states.
specs() {
	local report=$1
	shift
	jq -r --args '.[0].SpecReports[] | select(.LeafNodeType == "It") |
		select(.State as $s | $ARGS.positional | index($s)) |
		(.ContainerHierarchyTexts + [.LeafNodeText]) | join(" > ")' "$@" <"$report"
}

# Every skipped spec matches a line of skips; every line matches a skipped spec and none that ran.
check_skips() {
	local report=$1 capability spec reason line explained=() skipped=() ran=() advertised
	mapfile -t skipped < <(specs "$report" skipped pending)
	mapfile -t ran < <(specs "$report" passed failed panicked timedout interrupted aborted)
	advertised=$(capabilities)
	while IFS='|' read -r capability spec reason; do
		capability=${capability% } spec=${spec# } spec=${spec% }
		[[ $capability == '#'* || -z $capability ]] && continue
		[ -n "${reason// /}" ] || fail "skips: no reason for: $spec"
		if grep -qxF -- "$capability" <<<"$advertised"; then
			fail "skips: $capability is advertised, so this must run: $spec"
		fi
		local hits=0
		for line in "${skipped[@]}"; do
			matches "$line" "$spec" && explained+=("$line") && hits=$((hits + 1))
		done
		[ "$hits" -gt 0 ] || fail "skips: explains nothing that was skipped: $spec"
		for line in "${ran[@]}"; do
			matches "$line" "$spec" && fail "skips: it ran: $line"
		done
	done <test/sanity/skips
	for line in "${skipped[@]}"; do
		printf '%s\n' "${explained[@]}" | grep -qxF -- "$line" || fail "skipped without a reason: $line"
	done
}

# The pattern is literal up to a * at its end.
matches() {
	if [[ $2 == *'*' ]]; then
		[[ $1 == "${2%\*}"* ]]
	else
		[[ $1 == "$2" ]]
	fi
}

# A run must leave nothing behind.
check_leftovers() {
	local left what
	left=$(world_mounts)
	[ -z "$left" ] || fail "still mounted: $left"
	left=$(for what in dpuvolumes dpuvolumeattachments; do
		world_api "$what" | jq -r '.items[] | .kind + " " + .metadata.name'
	done)
	[ -z "$left" ] || fail "objects that were not deleted: $left"
	if grep -q marker-of- "$WORLD/all.log"; then
		fail "the driver's log shows a secret or the token: $(grep -m1 marker-of- "$WORLD/all.log")"
	fi
}

run() { # NAME of the volumes, TYPE of access, PARAMETERS, FOCUS (a regular expression: only these specs)
	local focus=${4:-} type=$1 report=$WORLD/$1.json log=$WORLD/$1.log rc start=$SECONDS
	"$BUILD/tools/csi-sanity" -csi.endpoint="$ENDPOINT" -csi.testvolumeaccesstype="$2" \
		-csi.testvolumeparameters="test/sanity/$3" -csi.secrets=test/sanity/secrets.yaml \
		-csi.testvolumesize=1073741824 -csi.testvolumeexpandsize=1073741824 -csi.testnodevolumeattachlimit \
		-csi.mountdir="$WORLD/volumes/$type-mount" -csi.stagingdir="$WORLD/volumes/$type-staging" \
		${focus:+-ginkgo.focus="$focus" -csi.testvolumeexpandsize=2147483648} \
		-ginkgo.fail-on-empty -ginkgo.timeout=10m -ginkgo.no-color -ginkgo.json-report="$report" >"$log" 2>&1
	rc=$?
	if [ ! -s "$report" ]; then
		cat "$log"
		fail "csi-sanity with $type volumes made no report (exit $rc)"
		return 1
	fi
	local good bad skipped pending
	good=$(specs "$report" passed | wc -l)
	bad=$(specs "$report" failed panicked timedout interrupted aborted | wc -l)
	skipped=$(specs "$report" skipped | wc -l)
	pending=$(specs "$report" pending | wc -l)
	if [ "$rc" -ne 0 ]; then
		[ "$bad" -gt 0 ] || fail "csi-sanity with $type volumes: exit $rc"
		jq -r '.[0].SpecReports[] | select(.Failure and .State != "skipped") |
			"FAIL \(.ContainerHierarchyTexts + [.LeafNodeText] | join(" > "))",
			(.Failure.Message | split("\n")[:3][] | "     " + .)' "$report"
	fi
	printf '%-8s volumes: %d specs, %d run, %d passed, %d failed, %d skipped, %d disabled in csi-sanity, %d s\n' \
		"$type" $((good + bad + skipped + pending)) $((good + bad)) "$good" "$bad" "$skipped" "$pending" \
		$((SECONDS - start))
	passed=$((passed + good)) failed=$((failed + bad))
	if [ -z "$focus" ]; then
		check_skips "$report"
	else
		[ "$good" -gt 0 ] || fail "no spec fits $focus, or all were skipped"
	fi
	check_leftovers
}

# The driver, with what a node registers.
driver() {
	world_driver all --wait-timeout=20s --v=2 --volume-dir="$WORLD/volumes" "$@" || exit 1
	world_stream
	world_register || exit 1
	world_stream_end
}

mkdir "$WORLD/volumes"
world_sim --seed || exit 1
driver
printf 'csi-sanity %s\n' "$(awk '$1 == "github.com/kubernetes-csi/csi-test/v5" {print $2}' test/sanity/go.mod)"
run mount mount parameters.yaml
run block block parameters.yaml
world_stop "$DRIVER_PID"
world_stop "$SIM_PID"

# Another DPU: csi-sanity fills the node with volumes of one kind, so its VFs must not count.
rm "$WORLD/port" "$KUBECONFIG_FILE"
world_mount_helper || exit 1
world_sim --seed --hotplug-slots=4 || exit 1
driver --max-volumes-per-node=4 --topology
run virtiofs mount virtiofs.yaml
world_stop "$DRIVER_PID"
world_stop "$SIM_PID"

# Another CRD of DPUVolumes.
rm "$WORLD/port" "$KUBECONFIG_FILE"
world_sim --seed --growing-volumes || exit 1
driver
run growing mount parameters.yaml 'ExpandVolume \[Controller Server\]'
world_stop "$DRIVER_PID"
world_reports || fail 'a sanitizer has found something'
printf 'sanity: %d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
