# shellcheck shell=bash
# Sourced by cluster.sh and swap.sh: the images of `make image-test`, and one of the sidecars, for the containerd of a cluster.

# The node's image has no shell, and mount.snapsim, which replaces the kernel's virtio-fs in the tests' clusters, is a script:
# localhost/snap-csi:$CLUSTER_NAME is localhost/snap-csi:test with busybox added for it. The names are the cluster's own,
# since two clusters may be created at the same time.
with_busybox() (
	folder=$(mktemp -d) || return 1
	trap 'rm -rf "$folder"' EXIT
	mkdir -p "$folder/usr/bin" && cp "$(command -v busybox)" "$folder/usr/bin/busybox" || return 1
	for applet in sh awk stat mount umount readlink; do
		ln -s busybox "$folder/usr/bin/$applet" || return 1
	done
	tar -C "$folder" --owner=0 --group=0 -cf "$folder.tar" usr || return 1
	container=$(buildah from --pull-never localhost/snap-csi:test) && buildah add -q "$container" "$folder.tar" / >/dev/null &&
		buildah commit -q "$container" "localhost/snap-csi:$CLUSTER_NAME" >/dev/null && buildah rm "$container" >/dev/null
	status=$?
	rm -f "$folder.tar"
	return $status
)

# Imports localhost/snap-csi:test, localhost/snap-csi-controller:test and localhost/sidecars:test, the last one with these programs.
# CLUSTER_NAME must be set.
driver_images() { # CLUSTER_DIR PROGRAM...
	local dir=$1 container what name
	shift
	export CONTAINERS_STORAGE_CONF=$PWD/build/image/storage.conf BUILDAH_ISOLATION=chroot
	container=$(buildah from --pull-never localhost/snap-csi:test) || return 1
	buildah copy -q "$container" "$@" / >/dev/null && buildah config --entrypoint '[]' "$container" &&
		buildah commit -q "$container" "localhost/sidecars:$CLUSTER_NAME" >/dev/null || return 1
	buildah rm "$container" >/dev/null
	with_busybox || return 1
	for what in "snap-csi:$CLUSTER_NAME" snap-csi-controller:test "sidecars:$CLUSTER_NAME"; do
		name=${what%:*}
		rm -f "$dir/$name.tar"
		buildah push -q "localhost/$what" "docker-archive:$dir/$name.tar:localhost/$name:test" &&
			ctr -a "$dir/run/containerd.sock" -n k8s.io images import "$dir/$name.tar" >/dev/null || return 1
	done
}
