# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # the variables of a volume are those of test/lib/requests.sh
# The scenarios of DPF's examples (dpuservices/storage/examples/scenarios), by the names of their folders. Their vendors,
# policies, StorageClasses and volumes are written here from the facts of the examples. host.sh has the folders of
# non-trusted-host, run.sh those of trusted-k8s-cluster.

scenario_policies() {
	cat >"$WORLD/policies.json" <<-'END'
		[{"apiVersion": "storage.dpu.nvidia.com/v1alpha1", "kind": "DPUStorageVendor", "metadata": {"name": "spdk-csi"},
		  "spec": {"storageClassName": "spdkcsi-sc", "pluginName": "nvidia-block"}},
		 {"apiVersion": "storage.dpu.nvidia.com/v1alpha1", "kind": "DPUStorageVendor", "metadata": {"name": "nfs-csi"},
		  "spec": {"storageClassName": "nfs-csi", "pluginName": "nvidia-fs"}},
		 {"apiVersion": "storage.dpu.nvidia.com/v1alpha1", "kind": "DPUStoragePolicy", "metadata": {"name": "policy-block"},
		  "spec": {"dpuStorageVendors": ["spdk-csi"], "selectionAlgorithm": "NumberVolumes"}},
		 {"apiVersion": "storage.dpu.nvidia.com/v1alpha1", "kind": "DPUStoragePolicy", "metadata": {"name": "policy-fs"},
		  "spec": {"dpuStorageVendors": ["nfs-csi"], "selectionAlgorithm": "NumberVolumes"}}]
	END
	world_apply "$WORLD/policies.json"
}

# The claim of the scenario's StatefulSet: ReadWriteOnce, 1 GiB, raw block or a share. Its data outlive the pod.
trusted_scenario() { # FOLDER TYPE POLICY FUNCTION HOTPLUG
	local parameters="{\"policy\":\"$3\",\"functionType\":\"$4\",\"hotplugFunction\":\"$5\"}" where
	type=$2 fs='' id=e2e-$1 context='{}'
	until_ok CreateVolume "$(create_request "$id")" || return 1
	take_context
	attach_stage_publish || return 1
	where=$target
	[ "$type" = block ] || where=$target/file
	echo "$id" | dd of="$where" conv=fsync,notrunc status=none || return 1
	take_down && until_ok ControllerUnpublishVolume "$(detach_request)" && attach_stage_publish || return 1
	[ "$(head -c "${#id}" "$where")" = "$id" ] || { echo "$id has lost its data"; return 1; }
	hot_end
}

# The snap-csi-plugin of a scenario with shares runs with emulationMode virtiofs, since its StorageClass names no emulation.
trusted_scenarios() {
	local folder mode emulation=nvme row
	scenario_policies || { echo 'the policies of the scenarios cannot be made'; return 1; }
	while read -r folder mode row <&8; do
		if [ "$mode" != "$emulation" ]; then
			emulation=$mode
			world_stream_end
			world_stop "$DRIVER_PID"
			world_driver all --v=2 --emulation-mode="$emulation" || return 1
			world_stream
		fi
		# shellcheck disable=SC2086 # words
		run_case "DPF's example trusted-k8s-cluster/$folder" trusted_scenario "$folder" $row
	done 8<<-'END'
		nvme-vf-on-static-pf nvme block policy-block vf false
		nvme-hotplug-pf nvme block policy-block pf true
		virtiofs-hotplug-pf virtiofs mount policy-fs pf true
	END
	world_stream_end
	world_stop "$DRIVER_PID"
	world_driver all --v=2 && world_stream
}
