# The Kubernetes client over TLS and HTTP/2: nghttpx (Debian's nghttp2-proxy) in front of the scripted server or of
# snap-sim, with certificates that openssl makes for each test.
KUBECLIENT_TESTS  := $(patsubst %.c,$(OUT)/%,$(wildcard test/kubeclient/test_*.c))
KUBECLIENT_SHARED := $(OUT)/test/kubeclient/front.o $(OUT)/test/kubeclient/relay.o
KUBECLIENT_PEER   := $(BUILD)/h2-peer
KUBECLIENT_IDLE   := $(OUT)/test/kubeclient/idle

$(KUBECLIENT_TESTS) $(KUBECLIENT_IDLE): $(OUT)/test/kubeclient/%: $(OUT)/test/kubeclient/%.o $(KUBECLIENT_SHARED) $(TEST_LIB) $(LIB)
	$(call link,$(LIBS) $(CHECK_LIBS))

$(KUBECLIENT_PEER): test/kubeclient/peer/main.go test/kubeclient/peer/go.mod
	$(call say,GO,$@)
	$(Q)mkdir -p $(@D) && cd test/kubeclient/peer && go build -mod=readonly -o $(abspath $@) .

.PHONY: kubeclient-test kubeclient-idle kubeclient-answers
## kubeclient-test: the Kubernetes client over TLS and HTTP/2, one FLAVOUR, with counts
kubeclient-test: $(KUBECLIENT_TESTS) $(KUBECLIENT_PEER) $(SIM)
	$(Q)SNAP_SIM=$(SIM) H2_PEER=$(abspath $(KUBECLIENT_PEER)) RUN_JOBS=3 test/lib/run-suites.sh "kubeclient $(FLAVOUR)" $(KUBECLIENT_TESTS)
## kubeclient-idle: memory of a process whose client has an open watch over TLS
kubeclient-idle: $(KUBECLIENT_IDLE)
	$(Q)CK_FORK=no $(KUBECLIENT_IDLE)
ANSWERS ?= 5000
## kubeclient-answers: how long ANSWERS (5000) small and large answers take over one connection beside a watch
kubeclient-answers: $(OUT)/test/kubeclient/test_answers $(KUBECLIENT_PEER)
	$(Q)H2_PEER=$(abspath $(KUBECLIENT_PEER)) ANSWERS=$(ANSWERS) $<
