#!/usr/bin/env bash
# build-tools.sh DIR: etcd, Kubernetes and the sidecars from test/kube/tools, the module that pins them, into DIR.
set -eu
out=$1
cd "$(dirname "$0")/tools"
mkdir -p "$out"
version=$(awk '$1 == "k8s.io/kubernetes" && $2 ~ /^v/ {print $2; exit}' go.mod)
minor=${version#v1.}
package=k8s.io/component-base/version
# shellcheck disable=SC2046 # a list of packages
go build -mod=readonly -p "$(nproc)" -o "$out/" \
	-ldflags "-s -w -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=${minor%%.*}" \
	$(sed -n 's/^[[:space:]]*_ "\(.*\)"$/\1/p' tools.go)
# The program of go.etcd.io/etcd/server/v3 gets a name by the module's last word.
for name in server v3; do
	[ ! -e "$out/$name" ] || mv -f "$out/$name" "$out/etcd"
done
