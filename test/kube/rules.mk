# A real Kubernetes on this machine (test/kube/cluster.sh), its programs from pinned Go modules.
# KUBE_VERSION=1.37: the Kubernetes of tools/v1.37.mod, in a folder of its own. The other programs are of go.mod.
KUBE_VERSION ?= 1.36
KUBE_BIN := $(BUILD)/kube/bin$(if $(filter-out 1.36,$(KUBE_VERSION)),-$(KUBE_VERSION))
KUBE_MOD := $(if $(filter-out 1.36,$(KUBE_VERSION)),v$(KUBE_VERSION),go)
KUBE_SUMS := test/kube/tools/$(KUBE_MOD).mod test/kube/tools/$(KUBE_MOD).sum
# The sidecars are of the newer one in any case (build-tools.sh).
KUBE_SIDECAR_SUMS := test/kube/tools/v1.37.mod test/kube/tools/v1.37.sum
KUBE_PACKAGES := containerd runc containernetworking-plugins busybox-static iproute2 openssl util-linux
# What plays DPF, the DPU and its virtio-fs devices.
KUBE_SIM := $(SIM) $(SHARE)
KUBE_ENV = BUILD=$(BUILD) FLAVOUR=$(FLAVOUR) KUBE_BIN=$(abspath $(KUBE_BIN))

# One module and one k8s.io version, so that the shared packages compile once. The version is set as in a release
# build: kubelet and API server compare theirs.
$(KUBE_BIN)/.built: $(sort $(KUBE_SUMS) $(KUBE_SIDECAR_SUMS)) test/kube/tools/tools.go
	$(call say,GO,$(KUBE_BIN))
	$(Q)MODFILE=$(KUBE_MOD).mod test/kube/build-tools.sh $(abspath $(KUBE_BIN)) && touch $@

.PHONY: e2e-kube-pods kube-deps kube-tools cluster-up cluster-down cluster-check e2e-kube
## kube-deps: install what a Kubernetes node needs from Debian (containerd, runc, CNI plugins)
kube-deps:
	$(Q)test/lib/apt-missing.sh $(KUBE_PACKAGES)
## kube-tools: build Kubernetes and the sidecars from pinned Go modules (ten minutes the first time; KUBE_VERSION=1.37 for another version)
kube-tools: $(KUBE_BIN)/.built

## cluster-up: start a Kubernetes node with the driver, to play with (root; the first build of its programs takes ten minutes)
cluster-up: $(BIN) $(KUBE_SIM) $(KUBE_BIN)/.built
	$(Q)$(KUBE_ENV) test/kube/cluster.sh up
## cluster-check: say whether every part of the cluster of make cluster-up runs
cluster-check:
	$(Q)$(KUBE_ENV) test/kube/cluster.sh check
## cluster-down: stop the cluster of make cluster-up and remove all of it
cluster-down:
	$(Q)$(KUBE_ENV) test/kube/cluster.sh down
## e2e-kube: claims and pods through a real API server, kubelet and sidecars (root)
e2e-kube: $(BIN) $(KUBE_SIM) $(CSI_CALL) $(KUBE_BIN)/.built $(KUBE_BIN)/helm
	$(Q)$(KUBE_ENV) test/kube/e2e.sh
## e2e-kube-pods: claims and pods with the driver in pods, from manifests/ and the image of make image-test (root)
e2e-kube-pods: $(BIN) $(KUBE_SIM) $(CSI_CALL) $(KUBE_BIN)/.built $(KUBE_BIN)/helm
	$(Q)$(KUBE_ENV) E2E_PODS=1 test/kube/e2e.sh

.PHONY: e2e-kube-api bench-kube kube-suites
$(KUBE_BIN)/load: $(wildcard test/kube/tools/load/*.go) test/kube/tools/go.mod test/kube/tools/go.sum
	$(call say,GO,$@)
	$(Q)cd test/kube/tools && go build -mod=readonly -ldflags '-s -w' -o $(abspath $@) ./load
## e2e-kube-api: what a real API server does to a client: conflicts, 410, 429, restarts, tokens and CAs replaced (root)
e2e-kube-api: $(BIN) $(SIM) $(CSI_CALL) $(KUBE_BIN)/.built $(KUBE_BIN)/load
	$(Q)$(KUBE_ENV) test/kube/api.sh
## bench-kube: the controller on a real API server over TLS, beside a client that does the least (root; BENCH_OBJECTS=0,100000 and more)
bench-kube: $(BIN) stripped $(OUT)/curl-floor $(KUBE_BIN)/.built $(KUBE_BIN)/load
	$(Q)$(KUBE_ENV) test/kube/api.sh bench

.PHONY: bench-kube-pods
## bench-kube-pods: where the start of a pod goes, with kubelet's defaults and with a faster node status (root; ten minutes)
bench-kube-pods: $(BIN) $(KUBE_SIM) $(KUBE_BIN)/.built
	$(Q)$(KUBE_ENV) test/kube/pod-start.sh

# Separate, since the programs that only Kubernetes' own storage suite needs take ten minutes more to build.
$(KUBE_BIN)/.built-e2e: $(KUBE_SUMS) test/kube/tools/e2e.go
	$(call say,GO,$(KUBE_BIN)/e2e.test)
	$(Q)MODFILE=$(KUBE_MOD).mod test/kube/build-e2e-tools.sh $(abspath $(KUBE_BIN)) && touch $@
EXTERNAL := $(BIN) $(KUBE_SIM) $(KUBE_BIN)/.built $(KUBE_BIN)/.built-e2e

.PHONY: kube-e2e-tools e2e-external e2e-external-subset
## kube-e2e-tools: build Kubernetes' own storage suite (ten minutes the first time)
kube-e2e-tools: $(KUBE_BIN)/.built-e2e
## e2e-external: Kubernetes' own storage suite against the driver; E2E_FOCUS=REGEX for a slice (root)
e2e-external: $(EXTERNAL)
	$(Q)$(KUBE_ENV) test/kube/external.sh
## e2e-external-subset: the part of Kubernetes' own storage suite that tells most, in under ten minutes (root)
e2e-external-subset: $(EXTERNAL)
	$(Q)$(KUBE_ENV) E2E_FOCUS_FILE=test/kube/external-subset.txt test/kube/external.sh

.PHONY: e2e-kube-swap
$(KUBE_BIN)/peer: test/kube/tools/peer/main.go test/kube/tools/go.mod test/kube/tools/go.sum
	$(call say,GO,$@)
	$(Q)cd test/kube/tools && go build -mod=readonly -ldflags '-s -w' -o $(abspath $@) ./peer
## e2e-kube-swap: our image in the Go plugin's deployment, and the volumes that it left (root; after make image-test)
e2e-kube-swap: $(KUBE_SIM) $(BIN) $(CSI_CALL) $(KUBE_BIN)/.built $(KUBE_BIN)/peer $(KUBE_BIN)/helm
	$(Q)$(KUBE_ENV) test/kube/swap.sh

# The Helm chart; most of helm's packages are those of kubectl, which are compiled already.
HELM := $(KUBE_BIN)/helm
DECODE := $(KUBE_BIN)/decode
$(HELM): test/kube/tools/go.mod test/kube/tools/go.sum test/kube/tools/helm.go
	$(call say,GO,$@)
	$(Q)cd test/kube/tools && go build -mod=readonly -ldflags '-s -w' -o $(abspath $@) helm.sh/helm/v4/cmd/helm && touch $(abspath $@)
$(DECODE): test/kube/tools/decode/main.go test/kube/tools/go.mod test/kube/tools/go.sum
	$(call say,GO,$@)
	$(Q)cd test/kube/tools && go build -mod=readonly -ldflags '-s -w' -o $(abspath $@) ./decode && touch $(abspath $@)

# The API of the oldest version of each overlay.
OLDER := $(KUBE_BIN)/older-26 $(KUBE_BIN)/older-28 $(KUBE_BIN)/older-35
$(OLDER): $(KUBE_BIN)/older-%: test/kube/tools/older/main.go $(wildcard test/kube/tools/older/*.mod test/kube/tools/older/*.sum)
	$(call say,GO,$@)
	$(Q)cd test/kube/tools/older && go build -mod=readonly -modfile=v1.$*.mod -ldflags '-s -w' -o $(abspath $@) . && touch $(abspath $@)

.PHONY: chart-test
## chart-test: charts/snap-csi: the same objects as manifests/, strictly decoded; installed, upgraded, removed on an API server (root)
chart-test: $(HELM) $(DECODE) $(OLDER) $(KUBE_BIN)/.built
	$(Q)$(KUBE_ENV) test/kube/api.sh chart

# Suites that run beside each other must not build the same file at the same time.
## kube-suites: build what the suites on a Kubernetes start, and run none of them
kube-suites: $(BIN) $(KUBE_SIM) $(CSI_CALL) $(HELM) $(DECODE) $(OLDER) $(addprefix $(KUBE_BIN)/,.built .built-e2e load peer)
