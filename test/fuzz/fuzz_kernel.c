/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts of the kernel: the first byte chooses a uevent, the options of a mount (lines: its type, its
 * options, those of its filesystem, the flags of a volume) or the BARs of a PCI function.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "node/device/device_function.h"
#include "node/device/uevent.h"
#include "node/mount/mount_same.h"
#include "test/lib/tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define FUNCTION "0000:01:00.1"

static struct tree tree;

static void tidy(void)
{
	tree_clear(&tree);
}

/* In memory of exactly its size, so that a read beyond it is detected. */
static void uevent(const uint8_t *data, size_t n)
{
	static const char *const subsystems[] = { "nvme", "virtio", NULL };
	char *exact AUTO(free) = xmalloc(n ? n : 1);

	if (n)
		memcpy(exact, data, n);
	if (uevent_matters(exact, n, subsystems) && n < strlen("SUBSYSTEM=pci"))
		abort();
}

static const char *next_line(char **rest)
{
	const char *line = strsep(rest, "\n");

	return line ? line : "";
}

static void options(const uint8_t *data, size_t n)
{
	char *text AUTO(free) = xstrndup((const char *)data, n), *rest = text;
	struct mount m = { .target = "/mnt" };
	struct strs flags AUTO(strs_clear) = STRS_INIT;
	struct mount_asked asked = { .flags = &flags };
	const char *what = NULL;
	char *words, *word;

	m.fs_type = next_line(&rest);
	m.options = next_line(&rest);
	m.fs_options = next_line(&rest);
	asked.no_replay = rest && *rest == '-';
	asked.superblock_has_flags = rest && *rest == '+';
	words = rest;
	while ((word = strsep(&words, ",\n")))
		strs_add(&flags, word);
	if (mount_flags_differ(&asked, &m, &what) && !what)
		abort();
}

static void bars(const uint8_t *data, size_t n)
{
	const struct device_world w = { .sysfs = tree.sysfs, .dev = tree.dev };

	if (!*tree.root) {
		tree_unpack(&tree, NULL);
		atexit(tidy);
	}
	tree_write_bytes(&tree, "/sys/bus/pci/devices/" FUNCTION "/resource", data, n);
	if (device_function_without_memory(&w, FUNCTION) && (n < 2 || memcmp(data, "0x", 2) != 0))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static void (*const parsers[])(const uint8_t *, size_t) = { uevent, options, bars };

	if (n > 0)
		parsers[data[0] % ARRAY_LEN(parsers)](data + 1, n - 1);
	return 0;
}
