#!/usr/bin/env bash
# build-e2e-tools.sh DIR: Kubernetes' own end-to-end suite (e2e.test), ginkgo to run it, and agnhost, the program of its
# pods, into DIR, from test/kube/tools. Apart from build-tools.sh: only make e2e-external needs them, and they take ten
# minutes. MODFILE: as for build-tools.sh.
set -eu
out=$1
cd "$(dirname "$0")/tools"
mkdir -p "$out"
modfile=${MODFILE:-go.mod}
version=$(awk '$1 == "k8s.io/kubernetes" && $2 ~ /^v/ {print $2; exit}' "$modfile")
package=k8s.io/component-base/version
# No vet: it is not our code.
go test -mod=readonly -modfile="$modfile" -vet=off -p "$(nproc)" -c -ldflags "-s -w -X $package.gitVersion=$version" -o "$out/e2e.test" \
	k8s.io/kubernetes/test/e2e
go build -mod=readonly -modfile="$modfile" -ldflags '-s -w' -o "$out/" github.com/onsi/ginkgo/v2/ginkgo
# Static, for an image without libraries; with cgo, since without it everything would be compiled a second time. The
# linker warns of name services, which are not used here.
go build -mod=readonly -modfile="$modfile" -p "$(nproc)" -ldflags '-s -w -linkmode external -extldflags "-static -w"' -o "$out/" \
	k8s.io/kubernetes/test/images/agnhost
