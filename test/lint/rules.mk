# Checks of the sources that need not run the driver.
$(OUT)/test/lint/flags_table: $(OUT)/test/lint/flags_table.o $(LIB)
	$(call link,$(LIBS))

.PHONY: lint format flag-docs
## lint: every check of test/lint: arrows, circles, banned functions, layout, cppcheck, shellcheck, documents (25 s)
lint:
	$(Q)$(MAKE) --no-print-directory FLAVOUR=debug $(BUILD)/debug/test/lint/flags_table $(BUILD)/debug/snap-sim $(BUILD)/debug/snap-csi-plugin
	$(Q)FLAGS_TABLE=$(BUILD)/debug/test/lint/flags_table OBJECTS=$(BUILD)/debug PROGRAM=$(BUILD)/debug/snap-csi-plugin test/lint/run.sh

## format: lay out the C files as .clang-format says
format:
	$(Q)find src test -name '*.[ch]' ! -path '*/data/*' -print0 | xargs -0 clang-format -i

## flag-docs: write the table of flags into docs/reference/flags.md
flag-docs: $(OUT)/test/lint/flags_table
	$(Q)FLAGS_TABLE=$< test/lint/flags.sh --write
