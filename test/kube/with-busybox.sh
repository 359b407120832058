# shellcheck shell=bash
# Sourced by cluster.sh and swap.sh. The image of the driver has no shell, and mount.snapsim, which stands for the kernel's virtio-fs
# in the tests' clusters, is a script: localhost/snap-csi:pods is localhost/snap-csi:test with busybox for it.
with_busybox() (
	folder=$(mktemp -d) || return 1
	trap 'rm -rf "$folder"' EXIT
	mkdir -p "$folder/usr/bin" && cp "$(command -v busybox)" "$folder/usr/bin/busybox" || return 1
	for applet in sh awk stat mount umount readlink; do
		ln -s busybox "$folder/usr/bin/$applet" || return 1
	done
	tar -C "$folder" --owner=0 --group=0 -cf "$folder.tar" usr || return 1
	container=$(buildah from --pull-never localhost/snap-csi:test) && buildah add -q "$container" "$folder.tar" / >/dev/null &&
		buildah commit -q "$container" localhost/snap-csi:pods >/dev/null && buildah rm "$container" >/dev/null
	status=$?
	rm -f "$folder.tar"
	return $status
)
