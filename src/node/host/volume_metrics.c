/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last sample is stored as text. `lock` protects it, and is held only while it is copied. The
 * volume's name is read from the file that kubelet stores beside the staging path (vol_data.json);
 * for raw block it is the name of the block file. A volume without a name has no series.
 */
#include "node/host/volume_metrics.h"

#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/file.h"
#include "common/json.h"
#include "common/mem.h"
#include "common/metric.h"
#include "node/host/count.h"
#include "node/target/guard.h"
#include "node/target/usage.h"

#define TEXT_MAX (2 * 1024 * 1024)
#define STAT_MAX 4096
#define VOL_DATA_MAX 65536
#define GLOBAL_MOUNT "/globalmount"
/* maximum time of a sample, in ms, for all filesystems; each that hangs takes guard_ms once */
#define ASK_MS 5000
#define SECTOR 512

struct volume_metrics {
	pthread_mutex_t lock;
	char *text; /* NULL: no sample yet */
};

/* One sample. */
struct sampling {
	struct node *node;
	struct deadline ask_until;
	struct volume_numbers *v;
	size_t n;
};

struct volume_metrics *volume_metrics_new(void)
{
	struct volume_metrics *v = xcalloc(1, sizeof(*v));

	pthread_mutex_init(&v->lock, NULL);
	return v;
}

struct volume_metrics *volume_metrics_free(struct volume_metrics *v)
{
	if (!v)
		return NULL;
	pthread_mutex_destroy(&v->lock);
	free(v->text);
	free(v);
	return NULL;
}

/* ---- the volume of a mountpoint ---- */

/* Returns the volume's name, malloc'ed; NULL: unknown. */
static char *volume_metrics_id(const struct mountpoint *p)
{
	char *path AUTO(free) = NULL, *text AUTO(free) = NULL;
	struct json *tree AUTO(json_free) = NULL;
	struct err ignored = ERR_INIT;
	size_t n;

	if (p->kind == MOUNTPOINT_BLOCK)
		return xstrdup(strrchr(p->path, '/') + 1);
	if (!str_has_suffix(p->path, GLOBAL_MOUNT))
		return NULL;
	path = xasprintf("%.*s/vol_data.json", (int)(strlen(p->path) - strlen(GLOBAL_MOUNT)),
	                 p->path);
	if (file_read(path, VOL_DATA_MAX, &text, &n, &ignored) ||
	    json_parse(path, text, n, &tree, &ignored))
		return NULL;
	return xstrdup_or_null(json_str(tree, "volumeHandle"));
}

/* ---- values of a volume ---- */

static void set(struct volume_numbers *v, enum volume_metric m, int64_t value)
{
	v->values[m] = value;
	v->known[m] = true;
}

/*
 * The fields of Documentation/block/stat.rst, and the factors that convert them to the metric's
 * unit.
 */
static const struct {
	enum volume_metric metric;
	int64_t unit;
} stat_fields[] = {
	[0] = { VOLUME_METRIC_READS, 1 },
	[2] = { VOLUME_METRIC_READ_BYTES, SECTOR },
	[3] = { VOLUME_METRIC_READ_TIME, NS_PER_MS },
	[4] = { VOLUME_METRIC_WRITES, 1 },
	[6] = { VOLUME_METRIC_WRITTEN_BYTES, SECTOR },
	[7] = { VOLUME_METRIC_WRITE_TIME, NS_PER_MS },
	[8] = { VOLUME_METRIC_IN_FLIGHT, 1 },
	[9] = { VOLUME_METRIC_IO, NS_PER_MS },
	[11] = { VOLUME_METRIC_DISCARDS, 1 },
	[14] = { VOLUME_METRIC_DISCARD_TIME, NS_PER_MS },
	[15] = { VOLUME_METRIC_FLUSHES, 1 },
	[16] = { VOLUME_METRIC_FLUSH_TIME, NS_PER_MS },
};
#define STAT_FIELDS_ALWAYS 11 /* Linux 4.18 added the fields of discards, 5.5 those of flushes */

static void volume_metrics_read_io(const struct node *n, const char *device,
                                   struct volume_numbers *v)
{
	char *path AUTO(free) = xasprintf("%s/class/block/%s/stat", n->o.world.sysfs, device);
	char *text AUTO(free) = NULL, *at, *end;
	int64_t values[ARRAY_LEN(stat_fields)];
	struct err ignored = ERR_INIT;
	size_t fields = 0;

	if (file_read_line(path, STAT_MAX, &text, &ignored))
		return;
	for (at = text; fields < ARRAY_LEN(values); at = end, fields++) {
		values[fields] = strtoll(at, &end, 10);
		if (end == at)
			break;
	}
	for (size_t i = 0; fields >= STAT_FIELDS_ALWAYS && i < fields; i++)
		if (stat_fields[i].unit)
			set(v, stat_fields[i].metric, values[i] * stat_fields[i].unit);
}

static void sample_bytes(const struct sampling *l, const struct mountpoint *p,
                         struct volume_numbers *v)
{
	struct err ignored = ERR_INIT;
	struct statvfs fs;
	struct usage bytes;

	if (deadline_passed(l->ask_until) ||
	    guard_statvfs(l->node->guard, p->disk, p->path, &fs, &ignored))
		return;
	bytes = usage_bytes(&fs);
	set(v, VOLUME_METRIC_SIZE, (int64_t)bytes.total);
	set(v, VOLUME_METRIC_USED, (int64_t)bytes.used);
	set(v, VOLUME_METRIC_AVAILABLE, (int64_t)bytes.available);
}

static void volume_metrics_add(void *arg, const struct mountpoint *p, const struct device *dev)
{
	struct sampling *l = arg;
	char *volume = volume_metrics_id(p);
	struct volume_numbers *v;

	if (!volume)
		return;
	l->v = xrealloc(l->v, (l->n + 1) * sizeof(*l->v));
	v = &l->v[l->n++];
	*v = (struct volume_numbers) {
		.volume = volume,
		.device = xstrdup(*dev->name ? dev->name : p->m->source),
	};
	if (*dev->name)
		volume_metrics_read_io(l->node, dev->name, v);
	if (p->kind == MOUNTPOINT_BLOCK)
		set(v, VOLUME_METRIC_SIZE, (int64_t)dev->size);
	else
		sample_bytes(l, p, v);
}

/* ---- a sample ---- */

static int by_volume(const void *a, const void *b)
{
	return strcmp(((const struct volume_numbers *)a)->volume,
	              ((const struct volume_numbers *)b)->volume);
}

/*
 * If two volumes have the same name, keeps only the first, because a scraper would reject a page
 * with both.
 */
static void volume_metrics_deduplicate(struct sampling *l)
{
	size_t kept = 0;

	if (l->n)
		qsort(l->v, l->n, sizeof(*l->v), by_volume);
	for (size_t i = 0; i < l->n; i++) {
		if (kept && str_eq(l->v[kept - 1].volume, l->v[i].volume)) {
			free(l->v[i].volume);
			free(l->v[i].device);
		} else {
			l->v[kept++] = l->v[i];
		}
	}
	l->n = kept;
}

void volume_metrics_sample(struct volume_metrics *v, struct node *n)
{
	struct sampling l = { .node = n, .ask_until = deadline_in_ms(ASK_MS) };
	struct str text = STR_INIT(TEXT_MAX);
	char *before;

	node_each_staged(n, volume_metrics_add, &l);
	volume_metrics_deduplicate(&l);
	metric_print_volumes(&text, l.v, l.n);
	for (size_t i = 0; i < l.n; i++) {
		free(l.v[i].volume);
		free(l.v[i].device);
	}
	free(l.v);
	{
		WITH_LOCK(&v->lock);
		before = v->text;
		v->text = str_take(&text);
	}
	free(before);
}

void volume_metrics_print(struct volume_metrics *v, struct str *out)
{
	WITH_LOCK(&v->lock);
	if (v->text)
		str_add(out, v->text);
}
