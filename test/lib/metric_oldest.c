/* SPDX-License-Identifier: Apache-2.0 */
/* See metric_oldest.h. */
#include "test/lib/metric_oldest.h"

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/metric_priv.h"

int64_t metric_oldest(enum metric_id m)
{
	struct metric_spans *all AUTO(free) = xcalloc(metric_rows[m].series, sizeof(*all));
	int64_t oldest = 0;

	metric_spans_read(m, all);
	for (size_t i = 0; i < metric_rows[m].series; i++)
		if (all[i].oldest > oldest)
			oldest = all[i].oldest;
	return oldest;
}
