# shellcheck shell=bash
# CSI requests as JSON, for csi_ask. Source it after world.sh. A volume is the variables id, type (mount, block),
# fs, access_mode, context, publish, staging and target, which the caller sets (volume_paths makes the last two).

id='' type=mount fs='' access_mode=SINGLE_NODE_WRITER context='{}' publish='{}' staging='' target=''
parameters='{"policy":"example-policy","functionType":"vf","hotplugFunction":"false"}'
# Of the three kinds of volumes; parameters is the one that the next requests take.
# shellcheck disable=SC2034
hotplug_parameters='{"policy":"example-policy","functionType":"pf","hotplugFunction":"true"}' \
	virtiofs_parameters='{"policy":"example-policy","csi.snap.nvidia.com/emulation":"virtiofs"}'
gib=1073741824

capability() {
	local inner='{}'
	[ "$type" = mount ] && inner="{\"fs_type\":\"$fs\"}"
	printf '{"access_mode":{"mode":"%s"},"%s":%s}' "$access_mode" "$type" "$inner"
}

volume_paths() {
	staging=$KUBELET/plugins/$id/globalmount
	target=$KUBELET/pods/pod-1/volumes/$id
	mkdir -p "$staging" "${target%/*}"
}

create_request() { # NAME
	printf '{"name":"%s","capacity_range":{"required_bytes":%s},"volume_capabilities":[%s],"parameters":%s}' \
		"$1" "$gib" "$(capability)" "$parameters"
}

delete_request() {
	printf '{"volume_id":"%s"}' "$id"
}

attach_request() {
	printf '{"volume_id":"%s","node_id":"%s","volume_capability":%s,"volume_context":%s}' \
		"$id" "$NODE" "$(capability)" "$context"
}

detach_request() {
	printf '{"volume_id":"%s","node_id":"%s"}' "$id" "$NODE"
}

stage_request() {
	printf '{"volume_id":"%s","staging_target_path":"%s","volume_capability":%s,"volume_context":%s,"publish_context":%s}' \
		"$id" "$staging" "$(capability)" "$context" "$publish"
}

unstage_request() {
	printf '{"volume_id":"%s","staging_target_path":"%s"}' "$id" "$staging"
}

publish_request() {
	local request
	request=$(stage_request)
	printf '%s,"target_path":"%s"}' "${request%\}}" "$target"
}

unpublish_request() {
	printf '{"volume_id":"%s","target_path":"%s"}' "$id" "$target"
}
