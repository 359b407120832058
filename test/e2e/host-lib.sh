# shellcheck shell=bash
# Shared by the tests of snap-csi-plugin host. Source it after test/lib/world.sh.
#
#   host_begin WHO            after world_sim: the host's folders; WHO begins the text of a failure
#   snap-csi-plugin WORD...   the command on the host of this world
#   kubectl ...               as much of it as docs/hosts/zero-trust.md uses
#   volume, volume_again, gone   a volume with its attachment, by hand, and their end
#   host, refused             a command that must succeed, or must not
#   mounted, nothing_is_left  the number of mounts; that nothing of it remains

host_begin() {
	who=$1 HOST_SHELL=$BASHPID
	DEV=$WORLD/sim/$NODE/dev
	# shellcheck disable=SC2153 # world.sh sets it
	driver=$(realpath "$DRIVER")
	REPOSITORY=$PWD
	host_through=() # in front of each command
	mkdir "$WORLD/srv"
	: >"$WORLD/stderr"
}

fail() {
	printf '%s: %s\n' "$who" "$1"
	exit 1
}

snap-csi-plugin() {
	local word=$1 command=$2
	shift 2
	set -- "${host_through[@]}" env SNAP_SIM_TAGS="$WORLD/sim/$NODE/tags" "$driver" "$word" "$command" --sysfs-root="$WORLD/sim/$NODE/sys" --dev-root="$DEV" \
		--state-dir="$WORLD/state" --node-virtiofs-filesystem-type=snapsim "$@"
	# In the background, a signal to it is meant for the command and not for a shell.
	if [ "$BASHPID" = "$HOST_SHELL" ]; then
		"$@"
	else
		exec "$@"
	fi
}

# ---- a kubectl with what the document uses ----

resource() { # KIND OR NAME OF A RESOURCE
	case ${1,,} in
	dpuvolume | dpuvolumes) echo dpuvolumes ;;
	dpuvolumeattachment | dpuvolumeattachments) echo dpuvolumeattachments ;;
	*) fail "no resource $1" ;;
	esac
}

each_object() { # FILE: one JSON object a line
	python3 -c 'import json, sys, yaml
for o in yaml.safe_load_all(open(sys.argv[1])): print(json.dumps(o))' "$1"
}

# DPF writes the conditions before status.dpu, and dpuAttached together with it.
is_ready() { # NAME
	[ "$(world_api "dpuvolumeattachments/$1" | jq -r .status.dpuAttached)" = true ]
}

is_gone() { # RESOURCE/NAME
	[ "$(world_curl --output /dev/null --write-out '%{http_code}' "$(world_api_url "$1")")" = 404 ]
}

# Waits of world.sh try what fails at first, which ends the shell of the story but in a condition.
kubectl() {
	kubectl_do "$@" || return 1
}

kubectl_do() {
	local object name
	case "$1 $*" in
	apply\ *manifests/*) [ -f "${!#}" ] || [ -f "$REPOSITORY/${!#}" ] ;; # an account: snap-sim knows one token
	config\ *.server*) printf '%s' "$SIM_URL" ;;
	config\ *) ;; # snap-sim speaks no TLS
	create\ *token*) sed 's/.*Bearer //' "$WORLD/header" ;;
	apply\ *)
		while read -r object; do
			world_curl --fail-with-body --output "$WORLD/applied" --header 'Content-Type: application/json' --data "$object" \
				"$(world_api_url "$(resource "$(jq -r .kind <<<"$object")")")" || { cat "$WORLD/applied"; return 1; }
		done < <(each_object "$3")
		;;
	wait\ *) world_until 30 is_ready "${!##*/}" ;;
	get\ *json) world_api "$(resource "$4")/$5" | jq . ;;
	get\ *yaml) world_api "$(resource "$4")/$5" | python3 -c 'import json, sys, yaml; yaml.safe_dump(json.load(sys.stdin), sys.stdout)' ;;
	delete\ *)
		while read -r object; do
			name=$(resource "$(jq -r .kind <<<"$object")")/$(jq -r .metadata.name <<<"$object")
			world_curl --fail --output /dev/null --request DELETE "$(world_api_url "$name")" && world_until 30 is_gone "$name" || return 1
		done < <(each_object "$3" | tac)
		;;
	*) fail "kubectl $*" ;;
	esac
}

# ---- volumes ----

what_is_left() {
	find "$WORLD/state" -type f ! -path '*/spare/*' ! -name '_watch-*'
	find "$DEV/snap-csi" -type l
	world_mounts | grep -v "^$WORLD/sim/"
}

is_tidy() {
	[ -z "$(what_is_left)" ]
}

# A watch may still be about to remove what is left behind an unmount.
nothing_is_left() {
	world_until 60 is_tidy || fail "$1: left behind: $(what_is_left)"
}

# volume NAME MODE FUNCTION HOTPLUG [PARAMETERS]: attached, its file is $WORLD/NAME.json. PARAMETERS are JSON. POLICY may be set.
volume() {
	local parameters=${5:-"{}"}
	cat >"$WORLD/$1.yaml" <<-END
		{"apiVersion": "storage.dpu.nvidia.com/v1alpha1", "kind": "DPUVolume", "metadata": {"name": "$1"},
		 "spec": {"dpuStoragePolicyName": "${POLICY:-example-policy}", "accessModes": ["ReadWriteOnce"], "volumeMode": "$2", "parameters": $parameters,
		          "resources": {"requests": {"storage": "1Gi"}}}}
		---
		{"apiVersion": "storage.dpu.nvidia.com/v1alpha1", "kind": "DPUVolumeAttachment", "metadata": {"name": "$NODE-$1"},
		 "spec": {"dpuNodeName": "$NODE", "dpuVolumeName": "$1", "functionType": "$3", "hotplugFunction": $4}}
	END
	kubectl apply -f "$WORLD/$1.yaml" || fail "$1 cannot be made"
	world_until 30 is_ready "$NODE-$1" || fail "$1 does not get ready"
	kubectl get -n x dpuvolumeattachments "$NODE-$1" -o json >"$WORLD/$1.json"
}

# The attachment anew.
volume_again() { # NAME
	sed '1,/^---$/d' "$WORLD/$1.yaml" >"$WORLD/again.yaml"
	world_until 60 is_gone "dpuvolumeattachments/$NODE-$1" || fail "the attachment of $1 stays"
	kubectl apply -f "$WORLD/again.yaml" || fail "$1 cannot be attached again"
	world_until 30 is_ready "$NODE-$1" || fail "$1 does not get ready"
}

gone() { # NAME...
	local name
	for name; do
		kubectl delete -f "$WORLD/$name.yaml" || fail "$name cannot be deleted"
	done
}

host() { # COMMAND...: must succeed
	said=$(snap-csi-plugin host "$@" 2>"$WORLD/stderr") || { cat "$WORLD/stderr"; fail "host $*"; }
}

refused() { # STATUS WORDS COMMAND...
	local want=$1 words=$2 status
	shift 2
	said=$(snap-csi-plugin host "$@" 2>&1 </dev/null)
	status=$?
	[[ $status == "$want" && $said == *"$words"* ]] || fail "host $*: status $status, not $want with \"$words\": $said"
}

mounted() { # DIR: how many mounts are there
	grep -c " $1 " /proc/self/mountinfo
}
