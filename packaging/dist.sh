#!/usr/bin/env bash
# Makes OUT_DIR/snap-csi-VERSION-linux-ARCH.tar.gz; packaging/common.sh says from what. One folder, which may lie anywhere.
set -eu
cd "$(dirname "$0")/.." || exit 1
. packaging/common.sh
name=snap-csi-$VERSION-linux-$ARCH
root=$tree/$name

put_program "$root/bin/snap-csi-plugin"
put_plugin "$root/bin/kubectl-snapcsi"
put_man "$root/share/man/man8/snap-csi-plugin.8"
put_file packaging/completion.bash "$root/share/bash-completion/completions/snap-csi-plugin"
put_file packaging/host.yaml "$root/etc/snap-csi/host.yaml"
for unit in packaging/systemd/*; do
	put_file "$unit" "$root/systemd/${unit##*/}"
done
for file in LICENSE README.md CHANGELOG.md; do
	put_file "$file" "$root/$file"
done
# What links of the documents lead to in the sources is not here.
{ git ls-files -- docs manifests 2>/dev/null | grep . || find docs manifests -type f; } | while read -r file; do
	put_file "$file" "$root/$file"
done
put_file packaging/INSTALL.md "$root/INSTALL.md"
set_dates
tar -C "$tree" --sort=name --owner=0 --group=0 --numeric-owner --format=ustar -cf - "$name" | gzip -9n >"$tree/$name.tar.gz"
put_result "$tree/$name.tar.gz" "$name.tar.gz"
