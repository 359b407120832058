#!/usr/bin/env bash
# The program as an operator sees it: exit codes, texts, signals, libraries in its memory, hardening by the compiler. Needs
# neither root nor an API server. DRIVER and CSI_CALL name the programs; DRIVER_ELF is the driver itself where DRIVER is a
# script that starts it, and SKIP_LIST a list of checks that cannot pass then (test/cross/skip.txt). Ends with "main: N
# passed, N failed".
# shellcheck disable=SC2016 # what is given to eval stands in single quotes
set -u
cd "$(dirname "$0")/../.." || exit 1
. test/lib/children.sh
DRIVER=$(realpath "${DRIVER:-build/release/snap-csi-plugin}")
DRIVER_ELF=$(realpath "${DRIVER_ELF:-$DRIVER}")
CSI_CALL=$(realpath "${CSI_CALL:-build/release/csi-call}")
unset KUBECONFIG CSI_ENDPOINT KUBERNETES_SERVICE_HOST
dir=$(mktemp -d)
pid=
passed=0 failed=0
clean_up() {
	[ -z "$pid" ] || child_signal KILL "$pid"
	rm -rf "$dir"
}
trap clean_up EXIT
trap 'exit 130' INT TERM
log=$dir/log
socket=$dir/csi.sock
node=(--mode=node --node-id=n1 "--bind-address=unix://$socket" "--sysfs-root=$dir/sys")
controller=(--mode=controller --namespace=ns "--bind-address=unix://$socket")

# A kubeconfig whose API server does not exist.
cat >"$dir/kubeconfig" <<'END'
apiVersion: v1
kind: Config
current-context: away
contexts: [{name: away, context: {cluster: away, user: nobody}}]
clusters: [{name: away, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: nobody, user: {token: none}}]
END
mkdir -p "$dir/sys/bus/pci/devices"

ok() { # what
	echo "ok   $1"
	passed=$((passed + 1))
}
not_ok() { # what, details
	printf 'FAIL %s\n' "$1"
	[ ! -s "$log" ] || sed 's/^/     log: /' "$log"
	failed=$((failed + 1))
}
listed() { [ -n "${SKIP_LIST-}" ] && test/cross/skipped.sh "$SKIP_LIST" test/main/main.sh | grep -qxF -- "$1"; }
check() { # what, command...
	local what=$1
	shift
	if listed "$what"; then
		! "$@" || echo "passes by now, its line in $SKIP_LIST can go: main/main.sh: $what"
	elif "$@"; then
		ok "$what"
	else
		not_ok "$what"
	fi
}

# Runs the program to its end: exit status in $rc, both outputs in $log.
run() {
	timeout 100 "$DRIVER" "$@" >"$log" 2>&1 </dev/null
	rc=$?
}
said() { grep -qF -- "$1" "$log"; }
ended() { [ "$rc" -eq "$1" ]; }
probe() { "$CSI_CALL" -e "unix://$1" -t 60 Probe >/dev/null 2>&1; }
call() { "$CSI_CALL" -e "unix://$socket" -t "$1" "${@:2}" 2>&1; }
until_true() { # seconds that are ample on an idle machine, command...
	local end=$((SECONDS + 10 * $1))
	shift
	until "$@"; do
		[ "$SECONDS" -lt "$end" ] || return 1
		sleep 0.02
	done
}
begin() {
	: >"$log"
	"$DRIVER" "$@" >"$log" 2>&1 </dev/null &
	pid=$!
	until_true 10 probe "$socket"
}
stopped() { ! child_runs "$pid"; }
end_with() { # signal: ends the program, status in $rc
	child_signal "$1" "$pid"
	until_true 60 stopped || child_signal KILL "$pid"
	wait "$pid" 2>/dev/null
	rc=$?
	pid=
}
gone() { [ ! -e "$1" ]; }

run --help
check '--help exits with 0' ended 0
check '--help lists the flags' said '--bind-address=URL'
check 'and the commands, each of which is one' eval 'commands=$(sed -n "/^Commands:/,/^$/s/^  \\([a-z-]*\\).*/\\1/p" "$log" | xargs) && [ "$commands" = "host inspect log-level help version" ]'
run help
check 'help is --help' eval '[ "$rc" -eq 0 ] && said "--bind-address=URL"'
run help inspect
check 'help inspect is inspect --help' eval '[ "$rc" -eq 0 ] && said "inspect volume ID"'
run version
check 'version is --version' eval '[ "$rc" -eq 0 ] && said "snap-csi-plugin "'
run inspct claim ns/a
check 'a command that there is not exits with 2' ended 2
check 'with one error, which has the one that was meant' eval '[ "$(grep -c "invalid configuration" "$log")" = 1 ] && said "write inspect"'
run log-level
check 'log-level without a number exits with 2' ended 2
run log-level -1
check 'log-level of a negative number exits with 2' eval '[ "$rc" -eq 2 ] && said "log-level: \"-1\" is not a verbosity"'
run log-level 4 "--bind-address=unix://$dir/nobody.sock"
check 'log-level where nobody serves exits with 1' eval '[ "$rc" -eq 1 ] && said "$dir/nobody.sock"'
run inspect --help
check 'inspect --help exits with 0' ended 0
check 'inspect --help says what can be asked' said 'inspect volume ID'
run inspect nodes
check 'inspect of what it does not know exits with 2' ended 2
check 'and names it' said 'unexpected argument "nodes"'
run inspect node -o json "${node[@]}" "--plugin-dir=$dir"
check 'inspect of a host without functions has findings' ended 1
check 'as JSON, with what to do next' eval 'jq -e ".findings[0].next and .node.id == \"n1\"" "$log"'
run --version
check '--version exits with 0' ended 0
check '--version names the program' said 'snap-csi-plugin '
commit=$(cat "$(dirname "$DRIVER_ELF")/commit")
check 'and what it was built from' said "commit      ${commit:-unknown}"
csi=$(sed -n 's/.*Interface, version \([0-9.]*\),.*/\1/p' csi/csi.proto)
check 'and the interface of csi.proto' grep -qx "CSI  *$csi" "$log"
check 'and the library that a controller loads' grep -q '^libcurl *[0-9.]* with ' "$log"
run host --help
check 'host --help exits with 0' ended 0
check 'host --help lists the commands' said 'snap-csi-plugin host attach -f FILE'
run host mount
check 'a host command that there is not exits with 2' ended 2
run host attach --state-dir "$dir/host" -f "$dir/nothing"
check 'host attach of a file that is missing exits with 1' ended 1
check 'and names it' said "$dir/nothing"

run --mode=both --emulation-mode=scsi --max-volumes-per-node=-1 "--bind-address=unix://$socket"
check 'a bad configuration exits with 1' ended 1
check 'its first error is said' said 'invalid configuration: --mode: "both"'
check 'its second error is said' said 'invalid configuration: --emulation-mode: "scsi"'
check 'its third error is said' said 'invalid configuration: --max-volumes-per-node: -1'
check 'nothing was started' gone "$socket"
run "${node[@]}" --frobnicate
check 'an unknown flag exits with 2' ended 2
run --mode=node --node-id=n1 --bind-address=tcp://127.0.0.1:10000
check 'tcp is refused' ended 1
check 'and the reason given' said 'tcp is not served'
run "${controller[@]}"
check 'a controller outside a cluster and without kubeconfig exits with 1' ended 1
check 'and says what to do' said 'kubeconfig'
: >"$dir/file"
run --mode=node --node-id=n1 "--bind-address=unix://$dir/file" "--sysfs-root=$dir/sys"
check 'a path that is not a socket is refused' ended 1
check 'and left alone' test -f "$dir/file"

check 'node mode serves' begin "${node[@]}" --v=2
check 'it says where' said "$socket"
check 'a node without functions says so at its start' until_true 5 said 'no function of a DPU is known on this node'
check 'and that the number of volumes is a guess' said 'estimate'
check 'the socket has mode 0600' [ "$(stat -c %a "$socket")" = 600 ]
check 'node mode does not map libcurl' eval '! grep -q libcurl "/proc/$pid/maps"'
run --probe "--bind-address=unix://$socket"
check '--probe of a driver that serves exits with 0' ended 0
check '--probe has nothing to say then' [ ! -s "$log" ]
run --probe "--bind-address=unix://$dir/nobody.sock"
check '--probe where nobody serves exits with 1' ended 1
check 'and names the socket' said "$dir/nobody.sock"
timeout 100 "$DRIVER" log-level 5 "--bind-address=unix://$socket" >"$dir/level" 2>&1
check 'log-level sets the verbosity' [ $? -eq 0 ]
check 'and says what it was' grep -qx 'log level 5 (before: 2, of --v: 2)' "$dir/level"
check 'the log says so' until_true 5 said 'the verbosity has changed v=5 before=2'
timeout 100 "$DRIVER" log-level 2 "--bind-address=unix://$socket" >"$dir/level" 2>&1
check 'and back' grep -qx 'log level 2 (before: 5, of --v: 2)' "$dir/level"
check 'GetPluginInfo has the name' eval 'call 60 GetPluginInfo | grep -q csi.snap.nvidia.com'
check 'a method of the controller is UNIMPLEMENTED' eval 'call 60 ControllerGetCapabilities | grep -q UNIMPLEMENTED'
check 'a host without functions registers with a guess, not unlimited' \
	eval 'call 60 NodeGetInfo | grep -qE "max_volumes_per_node[^0-9]*30\>"'
end_with TERM
check 'SIGTERM ends it with 0' ended 0
check 'the socket is gone' gone "$socket"
# Root without this capability, as in a container that is not privileged, or any other user.
drop=()
[ "$(id -u)" -ne 0 ] || drop=(setpriv --bounding-set=-sys_admin)
: >"$log"
"${drop[@]}" "$DRIVER" "${node[@]}" "--plugin-dir=$dir/file" >"$log" 2>&1 </dev/null &
pid=$!
until_true 10 probe "$socket"
check 'a node that may not mount says so at its start' said 'volumes cannot be mounted: the driver lacks CAP_SYS_ADMIN'
check 'a state directory that is a file is named, once' eval '[ "$(grep -cF "$dir/file" "$log")" -eq 1 ] && said "(--plugin-dir): list $dir/file: Not a directory"'
end_with TERM
# A folder that the driver may not use. Root is one user of many without the two capabilities.
drop=()
[ "$(id -u)" -ne 0 ] || drop=(setpriv '--bounding-set=-dac_override,-dac_read_search')
warns_of_folder() { # TEXT COMMAND...: the driver behind the command serves, and has one line with TEXT
	local text=$1
	: >"$log"
	"${@:2}" "$DRIVER" "${node[@]}" "--plugin-dir=$dir/folder" >"$log" 2>&1 </dev/null &
	pid=$!
	until_true 10 probe "$socket"
	said "(--plugin-dir): $text; running formats and unstages are recorded there, so correct its" &&
		[ "$(grep -cF "$dir/folder" "$log")" -eq 1 ]
	local status=$?
	end_with TERM
	return "$status"
}
mkdir "$dir/folder"
chmod 000 "$dir/folder"
check 'a state directory of mode 000 is named, once' warns_of_folder "list $dir/folder: Permission denied" "${drop[@]}"
chmod 500 "$dir/folder"
check 'a state directory that may only be read is named, once' warns_of_folder "write to $dir/folder: Permission denied" "${drop[@]}"
chmod 700 "$dir/folder"
if [ "$(id -u)" -eq 0 ]; then
	check 'a state directory on a read-only filesystem is named, once' warns_of_folder "write to $dir/folder: Read-only file system" \
		unshare --mount sh -c 'mount -t tmpfs -o ro none "$0" && exec "$@"' "$dir/folder"
fi
# More idle connections than the driver takes; python3 ends when its standard input does.
cat >"$dir/idle.py" <<'END'
import socket, sys
held = []
for _ in range(1100):
    held.append(socket.socket(socket.AF_UNIX))
    held[-1].connect(sys.argv[1])
    try:
        held[-1].sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)))
    except OSError:
        pass
print("held", flush=True)
sys.stdin.read()
END
begin "${node[@]}"
coproc idle { python3 "$dir/idle.py" "$socket" 2>&1; }
idle_pid=$!
read -r line <&"${idle[0]}"
check 'idle connections up to the limit' [ "$line" = held ]
check 'are told about' until_true 5 said '1024 are open, that is the limit'
timeout 100 "$DRIVER" --probe "--bind-address=unix://$socket" 2>>"$log"
check 'and leave --probe its place' [ $? -eq 0 ]
eval "exec ${idle[1]}>&-"
wait "$idle_pid"
check 'who has left makes room' until_true 5 probe "$socket"
end_with TERM
begin "${node[@]}" --max-volumes-per-node=7
check 'NodeGetInfo answers' eval 'call 60 NodeGetInfo | grep -q n1'
end_with INT
check 'SIGINT ends it with 0' ended 0
begin "${node[@]}"
end_with KILL
check 'a killed one leaves its socket' test -S "$socket"
check 'the next one replaces it' begin "${node[@]}"
end_with TERM

# Kubelet asks the driver as soon as it finds the socket of the registration.
mkdir "$dir/registry"
"$DRIVER" "${node[@]}" --max-volumes-per-node=7 "--kubelet-registration-path=$socket" \
	"--plugin-registration-path=$dir/registry" >"$log" 2>&1 </dev/null &
pid=$!
until_true 10 test -S "$dir/registry/csi.snap.nvidia.com-reg.sock"
check 'once kubelet can find the driver, it answers' eval 'call 60 NodeGetInfo | grep -q n1'
registered() { timeout 100 "$DRIVER" --probe=registered "--bind-address=unix://$socket" >"$dir/probe" 2>&1; }
notify() { "$CSI_CALL" -e "unix://$dir/registry/csi.snap.nvidia.com-reg.sock" NotifyRegistrationStatus "$@"; }
check '--probe=registered fails before kubelet has come' eval '! registered'
check 'and says so' grep -q 'is not registered with kubelet' "$dir/probe"
notify plugin_registered=true >/dev/null
check '--probe=registered exits with 0 when kubelet has taken the driver' registered
notify plugin_registered=false error=no >/dev/null
check '--probe=registered fails when kubelet has refused it' eval '! registered'
check '--probe does not care' eval 'timeout 100 "$DRIVER" --probe "--bind-address=unix://$socket"'
end_with TERM

# What --http-endpoint serves: on a unix socket, so that no port is in the way.
page() { curl --silent --max-time "${patience:-60}" --unix-socket "$dir/http.sock" --write-out '%{http_code}' "http://driver/$1" >"$dir/page"; }
shows() { grep -qF -- "$1" "$dir/page"; }
run "${node[@]}" --http-endpoint=example.org:80
check '--http-endpoint with a name exits with 1' ended 1
check 'and says what to write' said '--http-endpoint: "example.org:80" has no numeric address; write :9810'
run "${node[@]}" "--http-endpoint=unix:$dir/file"
check '--http-endpoint of a path that is not a socket exits with 1' ended 1
check 'and says so' said "$dir/file exists and is not a socket"
check '--http-endpoint serves' begin "${node[@]}" --v=2 "--http-endpoint=unix:$dir/http.sock" \
	--kubelet-registration-path=/kubelet/csi.sock "--plugin-registration-path=$dir/registry"
page healthz
check '/healthz answers 200 when the socket answers' grep -qx ok "$dir/page"
page readyz
check '/readyz answers 503 before kubelet has come' shows 503
check 'and says why' shows '[-]kubelet: has not registered the driver'
check 'and that there is nothing for volumes' shows '[-]functions: the DPU offers this host none, and never has: '
page metrics
check '/metrics says that kubelet has not registered the driver' shows 'snap_csi_registered 0'
check 'and the name of the node' shows 'mode="node",node="n1"} 1'
until_true 10 test -S "$dir/registry/csi.snap.nvidia.com-reg.sock"
notify plugin_registered=true >/dev/null
page readyz
check 'and of kubelet no more when it has taken the driver' shows '[+]kubelet ok'
call 60 NodeGetInfo >/dev/null
page metrics
check '/metrics says that kubelet has registered the driver' shows 'snap_csi_registered 1'
check '/metrics counts calls' shows 'snap_csi_operation_duration_seconds_count{method="NodeGetInfo",code="OK"} 1'
check '/metrics has no metric of the controller' eval '! shows snap_csi_api'
call 60 NodeUnstageVolume '{"volume_id":"pvc-of-a-tenant","staging_target_path":"/nonexistent/pvc-of-a-tenant"}' >/dev/null
for of in metrics readyz healthz; do
	page "$of"
	cat "$dir/page"
done >"$dir/pages"
check 'no page names a volume' eval '! grep -q pvc-of-a-tenant "$dir/pages"'
kill -STOP "$pid"
check 'nobody answers for a process that stands still' eval '! patience=1 page healthz'
kill -CONT "$pid"
kill -USR1 "$pid"
check 'SIGUSR1 raises the verbosity' until_true 5 said 'the verbosity has changed v=4 signal=SIGUSR1'
kill -USR2 "$pid"
check 'SIGUSR2 sets it back' until_true 5 said 'the verbosity has changed v=2 signal=SIGUSR2'
end_with TERM
check 'SIGTERM ends it with 0 also then' ended 0
check 'and removes its other socket' gone "$dir/http.sock"
begin "${node[@]}" --max-volumes-per-node=7 "--http-endpoint=unix:$dir/http.sock"
page readyz
check '/readyz answers 200 when nothing is missing' eval 'shows "[+]functions ok" && shows 200'
end_with TERM

begin "${controller[@]}" "--kubeconfig=$dir/kubeconfig" "--http-endpoint=unix:$dir/http.sock"
page healthz
check '/healthz of a controller without API server answers 200' grep -qx ok "$dir/page"
page readyz
check '/readyz answers 503' shows 503
check 'and says what does not answer' shows '[-]api: get dpuvolumes.storage.dpu.nvidia.com: cannot reach the API server'
page metrics
check '/metrics counts what was tried' shows 'snap_csi_api_request_duration_seconds_count{verb="get",resource="dpuvolumes",code="unreachable"}'
check 'and has no metric of the node' eval '! shows snap_csi_functions'
end_with TERM
begin "${node[@]}"
check '--probe=registered fails when a sidecar registers the driver' eval '! registered'
check 'and says what to write' grep -q 'does not register itself' "$dir/probe"
end_with TERM

(cd "$dir" && CSI_ENDPOINT=unix://csi.sock exec "$DRIVER" --mode=node --node-id=n1 "--sysfs-root=$dir/sys" >"$log" 2>&1 </dev/null) &
pid=$!
check 'CSI_ENDPOINT may name a path below the working directory' until_true 10 probe "$socket"
end_with TERM
check 'one warning names the flags without effect' begin "${node[@]}" --log-flush-frequency=5s --vmodule=a=1
check 'both in one line' [ "$(grep -c 'without effect' "$log")" = 1 ]
end_with TERM
begin "${node[@]}" --logging-format=json -v=2
end_with TERM
check 'every line of --logging-format=json is JSON' eval 'jq -es "length > 1" "$log" >/dev/null'

# A container whose manifest lacks mount propagation. Its /proc is recorded: the rule reads nothing else.
mkdir -p "$dir/proc/1"
ln -s 1 "$dir/proc/self"
echo '30 1 0:28 / / rw - overlay overlay rw
40 30 259:2 / /nonexistent/kubelet/pods rw - ext4 /dev/sda2 rw' >"$dir/proc/1/mountinfo"
begin "${node[@]}" "--proc-root=$dir/proc" --kubelet-dir=/nonexistent/kubelet
check 'a container whose mounts no pod would see says so at start' said \
	'/nonexistent/kubelet/pods is not a shared mount (it has mountPropagation: None)'
check 'and which directory of kubelet is missing' said '/nonexistent/kubelet/plugins/kubernetes.io/csi is not a mount of this container'
check 'it serves all the same' probe "$socket"
stage='{"volume_id":"v","staging_target_path":"/nonexistent/kubelet/plugins/kubernetes.io/csi/a/globalmount",
 "publish_context":{"nv-pciDeviceAddress":"0000:00:01.0","nv-nvmeNsID":"1"},
 "volume_capability":{"mount":{},"access_mode":{"mode":"SINGLE_NODE_WRITER"}}}'
refused() { call 60 NodeStageVolume "$stage" | grep '^FAILED_PRECONDITION' | grep -qF -- "$1"; }
check 'and refuses to stage' refused 'mountPropagation: Bidirectional'
end_with TERM

# A file that is never read to its end represents a device that does not answer: no deadline ends the call.
begin "${node[@]}" "--proc-root=$dir/proc" "--volume-dir=$dir"
rm "$dir/proc/1/mountinfo"
mkfifo "$dir/proc/1/mountinfo"
check 'the caller of a call that hangs gets DEADLINE_EXCEEDED' eval \
	'call 1 NodeUnpublishVolume "{\"volume_id\":\"pvc-dead\",\"target_path\":\"$dir/t\"}" | grep -q "^DEADLINE_EXCEEDED"'
check 'and others are answered' eval 'call 60 NodeGetCapabilities | grep -q STAGE'
log=$dir/inspect run inspect "--pid=$pid"
check 'inspect does not hang where the host does, and says at what' eval \
	'ended 1 && grep -q "reading mountinfo does not finish" "$dir/inspect"'
check 'it is named in the log' until_true 20 said 'a call hangs'
end_with TERM
check 'a call that hangs does not keep the process: it ends with 3' ended 3
check 'and says that it was in time for Kubernetes' said 'not stopped 25 s after the signal'
check 'and which call was cut' eval 'grep "cut at the end of the process" "$log" | grep "method=NodeUnpublishVolume" | grep -q "volume=pvc-dead"'

# A FIFO represents an attribute whose reader or writer blocks in the kernel: of the DPU's function, and of one of the host's
# own.
put_function() { # address, vendor, device, class
	local at=$dir/hung/bus/pci/devices/$1
	mkdir -p "$at"
	printf '%s\n' "$2" >"$at/vendor"
	printf '%s\n' "$3" >"$at/device"
	printf '%s\n' "$4" >"$at/class"
	echo 4 >"$at/sriov_totalvfs"
	echo 0 | tee "$at/sriov_numvfs" "$at/sriov_drivers_autoprobe" "$at/secondary_bus_number" >/dev/null
	echo '(null)' >"$at/driver_override"
}
hung_serves() { # attribute
	rm -rf "$dir/hung"
	put_function 0000:01:00.0 0x15b3 0x6001 0x010802
	put_function 0000:00:01.0 0x8086 0x0001 0x060400
	for at in "$dir"/hung/bus/pci/devices/*; do
		rm -f "$at/$1"
		mkfifo "$at/$1"
	done
	begin "${node[@]}" "--sysfs-root=$dir/hung" "--volume-dir=$dir" "--plugin-dir=$dir" "--kubelet-registration-path=$socket" \
		"--plugin-registration-path=$dir/registry" &&
		until_true 10 test -S "$dir/registry/csi.snap.nvidia.com-reg.sock" &&
		call 10 NodeGetInfo | grep -qE "max_volumes_per_node[^0-9]*12\>" &&
		call 10 NodeUnpublishVolume "{\"volume_id\":\"v\",\"target_path\":\"$dir/t\"}" >/dev/null && probe "$socket"
}
echo 12 >"$dir/max-volumes"
for attribute in class vendor sriov_totalvfs sriov_numvfs driver_override vpd; do
	check "where $attribute of PCI functions hangs, the driver serves, registers and unpublishes" hung_serves $attribute
	end_with TERM
	check 'and SIGTERM ends it with 0' ended 0
done
hung_serves driver_override
check 'a function for volumes that hangs is named in the log' until_true 20 said \
	"does not answer: its volume is UNAVAILABLE, others are served function=0000:01:00.0"
check 'and no function that is not for volumes is asked' eval '! said 0000:00:01.0'
health() { call 10 NodeGetStorageHealth | grep -q 'FunctionsHang'; }
check 'NodeGetStorageHealth names it' health
log=$dir/inspect run inspect node "--pid=$pid"
check 'and so does inspect, beside all other facts' eval \
	'ended 1 && grep -q "PCI function 0000:01:00.0 does not answer" "$dir/inspect" && grep -q "slots\|functions" "$dir/inspect"'
end_with TERM
check 'a controller whose API server is away serves' begin "${controller[@]}" "--kubeconfig=$dir/kubeconfig" -v 2
check 'GetPluginInfo answers' eval 'call 60 GetPluginInfo | grep -q csi.snap.nvidia.com'
create='{"name":"pvc-1","capacity_range":{"required_bytes":1073741824},"parameters":{"policy":"p"},
 "volume_capabilities":[{"mount":{},"access_mode":{"mode":"SINGLE_NODE_WRITER"}}]}'
check 'CreateVolume is UNAVAILABLE and names the server' eval 'call 60 CreateVolume "$create" | grep "^UNAVAILABLE" | grep -q 127.0.0.1'
tries() { grep -c 'create dpuvolumes.*retrying' "$log"; }
tried=$(tries)
tried_again() { [ "$(tries)" -gt "$tried" ]; }
call 60 CreateVolume "$create" >"$dir/answer" &
caller=$!
until_true 20 tried_again
child_signal TERM "$pid"
sleep 0.3
check 'a call that runs keeps it alive after SIGTERM' child_runs "$pid"
end_with TERM
check 'a second signal ends it at once' ended 1
wait "$caller" 2>/dev/null

# A stderr that is never read: a full pipe from the start.
mkfifo "$dir/unread"
exec {unread}<>"$dir/unread"
dd if=/dev/zero "of=$dir/unread" bs=4096 oflag=nonblock 2>/dev/null
unread() { log=$dir/unread "$@"; }
has_thread() { grep -qx "$1" "/proc/$pid/task/"*/comm; }
catches_term() { [ $((0x$(sed -n 's/^SigCgt:\t//p' "/proc/$pid/status") & 0x4000)) -ne 0 ]; }
web=("--http-endpoint=unix:$dir/http.sock" --v=2)
check 'a node whose stderr nobody reads serves' unread begin "${node[@]}" "${web[@]}"
check 'and answers a call that logs' eval 'call 5 NodeGetInfo | grep -q n1'
page metrics
check 'and counts the lines that it drops' shows 'snap_csi_log_lines_dropped_total 0'
end_with TERM
check 'SIGTERM ends it with 0' ended 0
check 'a controller whose stderr nobody reads serves' unread begin "${controller[@]}" "--kubeconfig=$dir/kubeconfig" "${web[@]}"
check 'and answers a call that logs' eval 'call 5 CreateVolume "$create" | grep -q "^UNAVAILABLE"'
call 60 CreateVolume "$create" >"$dir/answer" &
caller=$!
runs() { page metrics && shows 'snap_csi_operations_running{method="CreateVolume"} 1'; }
check 'and another one' until_true 20 runs
child_signal TERM "$pid"
until_true 5 catches_term
end_with TERM
check 'a second signal ends it' ended 1
wait "$caller" 2>/dev/null
check 'both in one process, whose stderr nobody reads, serve' unread begin "${node[@]}" "${controller[@]}" --mode=all \
	"--kubeconfig=$dir/kubeconfig" "${web[@]}"
end_with TERM
check 'SIGTERM ends them with 0' ended 0
watch=(host watch "--kubeconfig=$dir/kubeconfig" --node=h1 --namespace=ns "--sysfs-root=$dir/sys" "--state-dir=$dir/state")
"$DRIVER" "${watch[@]}" >"$dir/unread" 2>&1 </dev/null &
pid=$!
check 'host watch begins though nobody reads its stderr' until_true 10 has_thread loop
end_with TERM
check 'SIGTERM ends it with 0' ended 0
timeout -s KILL 20 "$DRIVER" "${watch[@]}" --kubeconfig=/nonexistent >"$dir/unread" 2>&1 </dev/null
check 'one that cannot begin ends with 1' [ $? -eq 1 ]
exec {unread}>&-

# What the release build says of itself, flags of the Makefile: HARDEN and LINKSEC.
elf() { readelf --wide "$@" "$DRIVER_ELF" 2>/dev/null; }
own_code() { "${OBJDUMP:-objdump}" --disassemble=node_stage "$DRIVER_ELF"; }
case $(elf --file-header | sed -nE 's/^ *Machine: *//p') in
AArch64)
	check 'the program signs return addresses (PAC)' eval 'own_code | grep -q paciasp'
	check 'and claims no landing pads (BTI), which the static gRPC has not' eval '! elf --notes | grep -q BTI'
	;;
*X86-64)
	check 'the program claims neither IBT nor shadow stacks, which the static gRPC has not' \
		eval '! elf --notes | grep -qE "IBT|SHSTK"'
	check 'and pays for none' eval '! own_code | grep -q endbr64'
	;;
esac
check 'the program is position-independent' eval 'elf --dynamic | grep -q "Flags:.* PIE"'
check 'its tables of functions are read-only from the start' \
	eval 'elf --program-headers | grep -q GNU_RELRO && elf --dynamic | grep -q BIND_NOW'
check 'nothing in it is writable and executable' eval '! elf --program-headers | grep -qE "(LOAD|STACK).* RWE"'
check 'it guards its stack' eval 'elf --dyn-syms | grep -q __stack_chk_fail'
case $DRIVER_ELF in
*/release/*)
	check 'and its buffers (_FORTIFY_SOURCE)' \
		eval 'elf --dyn-syms | grep -qE "__(memcpy|read|snprintf|vsnprintf)_chk"'
	;;
esac

echo "main: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
