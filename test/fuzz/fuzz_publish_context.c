/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines "key=value" as publish and volume context, through the node's parsers of the values that
 * the controller and PersistentVolumes pass on, such as the PCI address.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "volume/context_keys.h"
#include "common/cleanup.h"
#include "common/mem.h"
#include "volume/publish_context.h"
#include "volume/volume_params.h"
#include "node/device/pci.h"
#include "node/context.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define PAIRS 16

static size_t split(char *text, struct kv pairs[PAIRS])
{
	size_t n = 0;
	char *at = text;

	while (at && *at && n < PAIRS) {
		char *line = strsep(&at, "\n"), *value = strchr(line, '=');

		if (!value)
			continue;
		*value++ = '\0';
		pairs[n++] = (struct kv) { line, value };
	}
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	char *text AUTO(free) = xstrndup((const char *)data, n);
	struct kv pairs[PAIRS];
	struct kvs map = { pairs, split(text, pairs) };
	struct volume_params params;
	struct device_want want;
	struct err err = ERR_INIT;
	struct pci_address address;
	const struct volume_params of_kind = { .emulation = publish_context_emulation(
						       &map, EMULATION_NVME) };

	if (context_want(&map, &of_kind, &want, &err) == 0) {
		if (str_empty(want.pci) ||
		    (want.emulation == EMULATION_NVME ? !want.nsid : str_empty(want.tag)))
			abort();
		err_clear(&err);
		IGNORE_RESULT(pci_parse(want.pci, &address, &err));
	}
	err_clear(&err);
	IGNORE_RESULT(volume_params_parse(&map, EMULATION_NVME, "ext4", &params, &err));
	return 0;
}
