#!/usr/bin/env bash
# packaging/kubectl-snapcsi against test/kubectl/kubectl, which simulates the cluster. SHELLS are the shells that run it (dash
# and bash). Ends with "plugin: N passed, N failed".
# shellcheck disable=SC2016,SC2317 # what is given to eval stands in single quotes; functions are called by check
set -u
cd "$(dirname "$0")/../.." || exit 1
plugin=$PWD/packaging/kubectl-snapcsi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
export FAKE=$work/fake TMPDIR=$work/tmp PATH=$PWD/test/kubectl:$PATH
mkdir "$TMPDIR"
passed=0 failed=0
log=$work/log error=$work/error
check() { # what, command...
	local what=$1
	shift
	if "$@"; then
		passed=$((passed + 1))
		echo "ok   $shell: $what"
	else
		failed=$((failed + 1))
		printf 'FAIL %s: %s\n' "$shell" "$what"
		sed 's/^/     out: /' "$log"
		sed 's/^/     err: /' "$error"
	fi
}
# Two nodes and a controller of two; a claim of a pod on n1, attached to n1; a share of pods on n1 and n2.
cluster() {
	rm -rf "$FAKE" && mkdir "$FAKE"
	cat >"$FAKE/pods" <<'END'
controller|dpf|ctl-pending||Pending|snap-csi-plugin csi-provisioner
controller|dpf|ctl|m1|Running|snap-csi-plugin csi-provisioner csi-attacher
node|dpf|node-1|n1|Running|snap-csi-plugin
node|dpf|node-2|n2|Running|snap-csi-plugin
node|other|not-ours|n1|Running|web
END
	printf '%s\n' 'app|db|pv-1' 'app|share|pv-2' 'team|own|pv-3' >"$FAKE/claims"
	printf '%s\n' 'app|db-0|n1|config,db' 'app|web-0|n1|share' 'app|web-1|n2|share' 'app|waits||db' 'app|no-db|n2|db2' >"$FAKE/users"
	printf '%s\n' 'vol-1|pv-1' 'vol-2|pv-2' 'vol-3|pv-3' >"$FAKE/pvs"
	printf '%s\n' 'pv-1|n1' 'pv-3|n2' >"$FAKE/attachments"
}
run() { # ARGUMENT...: exit status in $rc
	"$shell" "$plugin" "$@" >"$log" 2>"$error" </dev/null
	rc=$?
}
said() { grep -qF -- "$1" "$log"; }
told() { grep -qF -- "$1" "$error"; }
called() { grep -qF -- "$1" "$FAKE/calls"; }
ended() { [ "$rc" -eq "$1" ]; }
is() { [ "$(cat "$log")" = "$1" ]; }
no_rest() { [ -z "$(ls "$TMPDIR")" ]; }
members() { tar -tzf "$work/b.tar.gz" | sed 's,[^/]*/,,' | grep -v '/$' | grep . | sort | xargs; }
member() { tar -xzOf "$work/b.tar.gz" --wildcards "*/$1"; }

suite() {
	cluster
	run
	check 'no command is refused' ended 2
	check 'and the commands are named' told 'expected inspect, bundle, log-level or help'
	run help
	check 'help succeeds without a cluster' eval 'ended 0 && said "inspect claim" && [ ! -e "$FAKE/calls" ]'
	run inspct
	check 'an unknown command is refused before anything is asked' eval 'ended 2 && told "\"inspct\" is unknown" && [ ! -e "$FAKE/calls" ]'
	run inspect pvc app/db
	check 'an unknown object is refused' eval 'ended 2 && told "expected claim, pod, volume or node" && [ ! -e "$FAKE/calls" ]'
	run inspect claim
	check 'a claim without a name is refused' eval 'ended 2 && told "name is missing"'
	run inspect claim 'app/db"x'
	check 'a name that is none is refused' eval 'ended 2 && told "is not a name of Kubernetes" && [ ! -e "$FAKE/calls" ]'
	run inspect claim a b c d
	check 'a word too many is refused' eval 'ended 2 && told "unexpected argument"'
	run inspect -o yaml
	check 'an unknown output is refused' eval 'ended 2 && told "expected json or table"'
	run --frobnicate
	check 'an unknown option is refused' eval 'ended 2 && told "--frobnicate"'

	run inspect claim app/db
	check 'a claim: the report of the controller' eval 'ended 0 && is "ctl: inspect claim app/db --node-report /dev/stdin"'
	check 'joined with that of its node' grep -q '"report of": "node-1"' "$FAKE/stdin.ctl"
	check 'no other node is asked' eval '! called node-2'
	check 'nothing is left in TMPDIR' no_rest
	run -n app inspect claim db
	check 'its namespace by -n' said 'inspect claim app/db'
	run inspect claim own -o json
	check 'or that of the context; a claim without pods by its VolumeAttachment' eval 'said "inspect claim team/own -o json" && grep -q node-2 "$FAKE/stdin.ctl"'
	run inspect claim app/share
	check 'a share is compared with each of its nodes' eval '[ "$(grep -c "^ctl: inspect" "$log")" = 2 ] && said "node n2 ="'
	run inspect pod app/web-1
	check 'a pod' eval 'ended 0 && is "ctl: inspect pod app/web-1 --node-report /dev/stdin" && grep -q node-2 "$FAKE/stdin.ctl"'
	run inspect pod app/waits
	check 'a pod without a node: the API side alone' is 'ctl: inspect pod app/waits'
	run inspect volume vol-3
	check 'a volume by its handle' eval 'is "ctl: inspect volume vol-3 --node-report /dev/stdin" && grep -q node-2 "$FAKE/stdin.ctl"'
	run inspect node n1
	check 'a node' is 'ctl: inspect node n1 --node-report /dev/stdin'
	check 'kubelet may not be asked for its settings: not a word of them' eval 'ended 0 && [ ! -s "$error" ]'
	echo '{"kubeletconfig":{"syncFrequency":"1m0s","nodeStatusUpdateFrequency":"10s","nodeStatusReportFrequency":"5m0s"}}' >"$FAKE/configz.n1"
	run inspect node n1
	check 'kubelet has its default settings: the node is named' eval 'ended 0 && told "node n1: kubelet has its default nodeStatusUpdateFrequency (10s)"'
	echo '{"kubeletconfig":{"nodeStatusUpdateFrequency":"1s"}}' >"$FAKE/configz.n1"
	run inspect node n1
	check 'other settings are not' eval 'ended 0 && [ ! -s "$error" ]'
	run inspect
	check 'everything, of the API server' is 'ctl: inspect'
	run inspect --context=east --kubeconfig /k node n1
	check 'kubectl gets its own options' called '--context=east --kubeconfig=/k exec'

	: >"$FAKE/findings"
	run inspect claim app/db
	check 'findings are exit status 1, without words of kubectl' eval 'ended 1 && said "ctl: inspect claim" && [ ! -s "$error" ]'
	cluster
	echo 'Error from server (Forbidden): no exec' >"$FAKE/fail.exec"
	run inspect claim app/db
	check 'an exec that is refused is not a finding' eval 'ended 2 && told "Forbidden"'
	cluster
	printf '#!/bin/sh\nprintf "inspect failed: no kubeconfig\\nsnap-csi-plugin inspect --help shows the usage\\n" >&2\nexit 2\n' >"$FAKE/program.ctl"
	chmod +x "$FAKE/program.ctl"
	run inspect
	check 'a report that cannot be read is missing for its reason' eval 'ended 2 && told "pod ctl gives no report: inspect failed: no kubeconfig"'
	cluster
	: >"$FAKE/hang.node-1"
	SNAPCSI_NODE_SECONDS=1 run inspect claim app/db
	check 'a node that hangs is given up, and named' eval 'ended 2 && told "node n1: pod node-1 gives no report of the host: no answer in time"'
	check 'the API side is there nevertheless' is 'ctl: inspect claim app/db'
	check 'its kubectl has ended' eval '! kill -0 "$(cat "$FAKE/hanging")" 2>/dev/null'
	cluster
	sed -i 's/node-1|n1|Running/node-1|n1|Pending/' "$FAKE/pods"
	run inspect node n1
	check 'a node whose pod does not run is named' eval 'ended 2 && told "node n1: no report of the host, since node-1 is Pending" && said "ctl: inspect node n1"'
	run inspect node n9
	check 'a node without a pod as well' eval 'ended 2 && told "the driver has no pod there"'
	cluster
	sed -i '/|ctl|/d' "$FAKE/pods"
	run inspect claim app/db
	check 'without a controller the host speaks' eval 'ended 2 && told "no pod of the controller runs" && is "node-1: inspect"'
	cluster
	echo 'Error from server (Forbidden): cluster scope' >"$FAKE/fail.volumeattachments"
	run inspect claim app/db
	check 'without a right to VolumeAttachments the nodes of pods remain' eval 'ended 0 && told "VolumeAttachments cannot be read" && said "--node-report"'
	cluster
	: >"$FAKE/pods"
	run inspect
	check 'no driver at all' eval 'ended 2 && told "no pod of the driver was found in any namespace"'
	cluster
	echo 'node|dpf2|node-3|n3|Running|snap-csi-plugin' >>"$FAKE/pods"
	run inspect
	check 'two drivers: which?' eval 'ended 2 && told "several namespaces: dpf dpf2" && told "--driver-namespace"'
	run --driver-namespace dpf inspect
	check 'this one' eval 'ended 0 && is "ctl: inspect"'
	cluster
	echo 'Error from server (Forbidden): pods is forbidden' >"$FAKE/fail.pods"
	run inspect
	check 'pods that may not be listed' eval 'ended 2 && told "pods is forbidden; name its namespace: --driver-namespace NS"'

	cluster
	: >"$FAKE/findings" && : >"$FAKE/previous"
	rm -f "$work/b.tar.gz"
	run bundle "$work/b.tar.gz"
	check 'a bundle says where it is' is "$work/b.tar.gz"
	check 'a pod that does not run is a missing part' eval 'ended 2 && told "ctl-pending/report.tar: the pod is Pending"'
	check 'it has all parts' [ "$(members)" = 'MISSING.txt ctl-pending/log.txt ctl-pending/previous-log.txt ctl/log.txt ctl/previous-log.txt ctl/report.tar events.txt node-1/log.txt node-1/previous-log.txt node-1/report.tar node-2/log.txt node-2/previous-log.txt node-2/report.tar nodes.txt pods.txt workloads.txt' ]
	check 'each of its pod' [ "$(member node-2/report.tar) $(member node-2/log.txt) $(member node-1/previous-log.txt)" = 'tape archive of node-2 log of node-2 previous log of node-1' ]
	check 'only its owner may read it' [ "$(stat -c %a "$work/b.tar.gz")" = 600 ]
	check 'objects that have secrets are not asked for' eval '! grep -qE "secrets|-o yaml|describe" "$FAKE/calls"'
	check 'nothing is left in TMPDIR' no_rest
	run bundle "$work/b.tar.gz"
	check 'a file that is there is kept' eval 'ended 2 && told "must not exist"'
	cluster
	sed -i '/Pending/d' "$FAKE/pods"
	rm -f "$work/b.tar.gz"
	run bundle "$work/b.tar.gz"
	check 'a whole bundle exits with 0' eval 'ended 0 && ! members | grep -q previous'
	: >"$FAKE/hang.node-2"
	rm -f "$work/b.tar.gz"
	SNAPCSI_NODE_SECONDS=1 run bundle "$work/b.tar.gz"
	check 'a node that hangs costs its report alone' eval 'ended 2 && told "node-2/report.tar: no answer in time" && [ "$(member node-2/log.txt)" = "log of node-2" ]'

	cluster
	sed -i '/Pending/d' "$FAKE/pods"
	run log-level 4
	check 'log-level: all pods' eval 'ended 0 && [ "$(grep -c "log level 4 (before: 2" "$log")" = 3 ]'
	run log-level 4 controller
	check 'the controller' is 'ctl on node m1: log level 4 (before: 2, of --v: 2)'
	run log-level 4 node n2
	check 'one node' is 'node-2 on node n2: log level 4 (before: 2, of --v: 2)'
	run log-level 4 node n9
	check 'a node without a pod' eval 'ended 2 && told "the driver has no pod on node n9"'
	run log-level more
	check 'not a number' eval 'ended 2 && told "\"more\" is not a verbosity"'
	run log-level 4 nodes
	check 'an unknown word' eval 'ended 2 && told "expected controller or node NAME"'
	: >"$FAKE/hang.node-1"
	SNAPCSI_NODE_SECONDS=1 run log-level 4
	check 'a pod that hangs does not keep the others' eval 'ended 2 && told "node-1 on node n1: no answer in time" && said node-2'
}

for shell in ${SHELLS-dash bash}; do
	suite
done
echo "plugin: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
