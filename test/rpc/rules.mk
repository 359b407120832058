# The RPC server on real sockets: each test_*.c is one program; stub_server is what they start when they need a server in
# a process of its own.
RPC_TESTS   := $(patsubst %.c,$(OUT)/%,$(wildcard test/rpc/test_*.c))
STUB_SERVER := $(OUT)/test/rpc/stub_server

$(RPC_TESTS) $(STUB_SERVER): $(OUT)/test/rpc/%: $(OUT)/test/rpc/%.o $(TEST_LIB) $(LIB)
	$(call link,$(LIBS) $(CHECK_LIBS))

.PHONY: rpc-test
## rpc-test: the RPC server on a real socket, one FLAVOUR, with counts
rpc-test: $(RPC_TESTS) $(STUB_SERVER)
	$(Q)CK_FORK=no STUB_SERVER=$(STUB_SERVER) RUN_JOBS=3 test/lib/run-suites.sh "rpc $(FLAVOUR)" $(RPC_TESTS)
