#!/usr/bin/env bash
# build-tools.sh DIR: etcd, Kubernetes and the sidecars from test/kube/tools, the module that pins them, into DIR.
# Environment: MODFILE, another file of requirements than go.mod of that folder (v1.37.mod). The sidecars are those of
# v1.37.mod in any case: they need CSI 1.13, with which Kubernetes 1.36 does not compile, so one file cannot have both.
set -eu
out=$1
cd "$(dirname "$0")/tools"
mkdir -p "$out"
modfile=${MODFILE:-go.mod}
package=k8s.io/component-base/version

build() { # MODFILE PACKAGE...
	local version minor
	version=$(awk '$1 == "k8s.io/kubernetes" && $2 ~ /^v/ {print $2; exit}' "$1")
	minor=${version#v1.}
	go build -mod=readonly -modfile="$1" -p "$(nproc)" -o "$out/" \
		-ldflags "-s -w -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=${minor%%.*}" "${@:2}"
}

mapfile -t packages < <(sed -n 's/^[[:space:]]*_ "\(.*\)"$/\1/p' tools.go)
mapfile -t sidecars < <(printf '%s\n' "${packages[@]}" | grep '^github.com/kubernetes-csi/')
mapfile -t kubernetes < <(printf '%s\n' "${packages[@]}" | grep -v '^github.com/kubernetes-csi/')
build "$modfile" "${kubernetes[@]}"
build v1.37.mod "${sidecars[@]}"
# The program of go.etcd.io/etcd/server/v3 gets a name by the module's last word.
for name in server v3; do
	[ ! -e "$out/$name" ] || mv -f "$out/$name" "$out/etcd"
done
