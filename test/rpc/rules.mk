# The transport on real sockets: each test_*.c is one program; stub_server is what they start when
# a process of its own is needed.
RPC_TESTS   := $(patsubst %.c,$(OUT)/%,$(wildcard test/rpc/test_*.c))
RPC_SHARED  := $(patsubst %.c,$(OUT)/%.o,$(filter-out test/rpc/test_% test/rpc/stub_server.c,$(wildcard test/rpc/*.c)))
STUB_SERVER := $(OUT)/test/rpc/stub_server
# gRPC is not instrumented; what it orders is told by annotations in rpc_server.c.
RPC_ENV = TSAN_OPTIONS="ignore_noninstrumented_modules=1 $$TSAN_OPTIONS" CK_FORK=no STUB_SERVER=$(STUB_SERVER)

$(RPC_TESTS) $(STUB_SERVER): $(OUT)/test/rpc/%: $(OUT)/test/rpc/%.o $(RPC_SHARED) $(TEST_LIB) $(LIB)
	$(call link,$(LIBS) $(CHECK_LIBS))

.PHONY: rpc-test
## rpc-test: the RPC server on a real socket, one FLAVOUR, with counts
rpc-test: $(RPC_TESTS) $(STUB_SERVER)
	$(Q)$(RPC_ENV) test/lib/run-suites.sh "rpc $(FLAVOUR)" $(RPC_TESTS)
