# snap-sim: all of it but main.c is also linked into its tests (test/sim/test).
SIM_SRCS := $(filter-out test/sim/main.c test/sim/test/%,$(wildcard test/sim/*.c test/sim/*/*.c))
SIM_OBJS := $(SIM_SRCS:%.c=$(OUT)/%.o)
SIM_LIBS := -lmicrohttpd -lcjson -lyaml -lpthread -lm

.PHONY: sim sim-test
## sim: snap-sim, the fake cluster and DPU for tests and development (test/sim/README.md)
sim: $(SIM)
# It starts snap-share, and is not linked with it.
$(SIM): $(OUT)/test/sim/main.o $(SIM_OBJS) $(LIB) | $(SHARE)
	$(call link,$(SIM_LIBS))

SIM_TEST_SRCS := $(wildcard test/sim/test/test_*.c)
SIM_TEST_BINS := $(SIM_TEST_SRCS:%.c=$(OUT)/%)
SIM_TEST_OBJS := $(patsubst %.c,$(OUT)/%.o,$(filter-out $(SIM_TEST_SRCS),$(wildcard test/sim/test/*.c)))
$(OUT)/test/sim/test/test_%: $(OUT)/test/sim/test/test_%.o $(SIM_TEST_OBJS) $(SIM_OBJS) $(TEST_LIB) $(LIB) | $(SHARE)
	$(call link,$(SIM_LIBS) $(CHECK_LIBS))

## sim-test: the tests of snap-sim itself in one FLAVOUR
# Naming the object files keeps make from removing them as intermediate.
sim-test: $(SIM_TEST_BINS) $(SIM) | $(SIM_TEST_SRCS:%.c=$(OUT)/%.o) $(SIM_TEST_OBJS)
	$(Q)SNAP_SIM=$(SIM) test/lib/run-suites.sh "sim $(FLAVOUR)" $(SIM_TEST_BINS) test/sim/cases.py
