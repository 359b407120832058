#!/usr/bin/env bash
# The version is a line of the Makefile. What cannot read it there repeats it, and is listed here.
# Usage: version.sh          prints it
#        version.sh check    each of the others says the same, CHANGELOG.md has a section for it
#        version.sh set X    writes X into all of them (make set-version VERSION=X)
set -eu
cd "$(dirname "$0")/.."
version=$(sed -n 's/^VERSION := //p' Makefile)

# file|expression of sed in which @ stands for the version
places() {
	cat <<-'END'
		manifests/base/kustomization.yaml|newTag: @$
		README.md|snap-csi(-[a-z]+)?:@( |$)
		docs/install/kustomize.md|newTag: @\}
		docs/install/air-gapped.md|snap-csi(-[a-z]+)?:@( |$)
		docs/install/air-gapped.md|snap-csi(-[a-z]+)?-@-oci\.tar
		docs/hosts/host-package.md|snap-csi_@_
		charts/snap-csi/Chart.yaml|^version: @$
		charts/snap-csi/Chart.yaml|^appVersion: "?@"?$
		charts/snap-csi/values.yaml|tag: "?@"?$
		manifests/examples/dpuservice/dpudeployment.yaml|^ *version: @$
		manifests/examples/dpuservice/dpuservice.yaml|^ *version: @$
		manifests/examples/nomad/plugin.nomad.hcl|localhost/snap-csi:@"
		manifests/examples/nomad/controller.nomad.hcl|localhost/snap-csi:@"
		manifests/examples/nomad/node.nomad.hcl|localhost/snap-csi:@"
	END
}
# What a version looks like, as an expression. Not with any word behind it: snap-csi-1.2.3-oci.tar is of 1.2.3.
any='[0-9]+\.[0-9]+\.[0-9]+(-(alpha|beta|rc)\.?[0-9]+)?'

case ${1-} in
'') echo "$version" ;;
check)
	bad=0
	while IFS='|' read -r file place; do
		[ -e "$file" ] || continue
		while IFS=: read -r line text; do
			if ! grep -qE -e "${place//@/${version//./\\.}}" <<<"$text"; then
				echo "$file:$line: it is not of version $version: packaging/version.sh set $version"
				bad=1
			fi
		done < <(grep -nE -e "${place//@/$any}" "$file")
	done < <(places)
	if ! grep -qE "^## ${version//./\\.}(,|\$)" CHANGELOG.md; then
		echo "CHANGELOG.md:1: there is no section \"## $version\""
		bad=1
	fi
	exit $bad
	;;
set)
	new=${2-}
	if ! grep -qxE "$any" <<<"$new"; then
		echo "version.sh: \"$new\" is no version: write 1.2.3 or 1.2.3-rc.1" >&2
		exit 2
	fi
	while IFS='|' read -r file place; do
		[ ! -e "$file" ] || sed -i -E "\\%${place//@/$any}% s/$any/$new/g" "$file"
	done < <(places)
	sed -i "s/^VERSION := .*/VERSION := $new/" Makefile
	;;
*)
	sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"
	exit 2
	;;
esac
