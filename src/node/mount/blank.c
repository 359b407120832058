/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The blank check: reads about 10 MiB of any device, however large; devices up to 16 MiB are read
 * whole. The places are listed first and then read by a few threads of the call's own: most of the
 * hundred reads are small, and on network storage each of them waits for its own round trip. Writes
 * nothing and decides nothing.
 */
#include "node/mount/blank.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/thread.h"

#define MIB (1024ULL * 1024)
#define EDGE (4 * MIB)        /* read at the start and at the end */
#define SMALL (16 * MIB)      /* read whole */
#define CHUNK (MIB / 16)      /* one read; each reader has a buffer of it */
#define SAMPLE (16 * 1024ULL) /* read at each place between */
#define ALIGN 4096            /* for O_DIRECT on any logical block size */
#define EVEN_SAMPLES 64
#define READERS 8
/* The edges, or a small device; the even samples; four for each doubling of 64 bits. */
#define RANGES_MAX (SMALL / CHUNK + 2 + EVEN_SAMPLES + 4 * 64)

/* The first byte that is not zero, or n. */
static size_t first_nonzero(const uint8_t *buf, size_t n)
{
	size_t i = 0;

	if (n == 0 || (buf[0] == 0 && memcmp(buf, buf + 1, n - 1) == 0))
		return n;
	while (buf[i] == 0)
		i++;
	return i;
}

/* ---- where to look ---- */

struct range {
	uint64_t from;
	size_t n; /* at most CHUNK */
};

struct plan {
	struct range ranges[RANGES_MAX];
	size_t n;
};

/* Adds [from, to) in pieces. */
static void add(struct plan *p, uint64_t from, uint64_t to)
{
	while (from < to) {
		size_t n = to - from < CHUNK ? (size_t)(to - from) : CHUNK;

		assert(p->n < RANGES_MAX);
		p->ranges[p->n++] = (struct range) { from, n };
		from += n;
	}
}

/* One place between the edges. */
static void add_sample(struct plan *p, uint64_t at, uint64_t size)
{
	uint64_t from = at / ALIGN * ALIGN, to = from + SAMPLE;

	if (from < EDGE)
		from = EDGE;
	if (to > size)
		to = size;
	add(p, from, to);
}

static void make_plan(struct plan *p, uint64_t size)
{
	if (size <= SMALL) {
		add(p, 0, size);
		return;
	}
	add(p, 0, EDGE);
	add(p, (size - EDGE) / ALIGN * ALIGN, size);
	for (unsigned i = 1; i < EVEN_SAMPLES; i++)
		add_sample(p, size / EVEN_SAMPLES * i - SAMPLE / 2, size);
	/*
	 * 5, 6, 7, 8, 10, 12, 14, 16, 20 ... MiB: the backup superblocks of ext4 and btrfs are
	 * among them.
	 */
	for (uint64_t base = EDGE; base < size && base < UINT64_MAX / 2; base *= 2)
		for (unsigned quarter = 4; quarter < 8; quarter++)
			if (base / 4 * quarter < size)
				add_sample(p, base / 4 * quarter, size);
}

/* ---- looking ---- */

struct scan {
	int fd;
	const char *name;
	struct plan plan;
	atomic_size_t next; /* the first range that no reader has taken */
	atomic_size_t zero; /* how many ranges were read and are zero */
	/* The first range known not to be zero, or unreadable; or plan.n. The rest is not read. */
	atomic_size_t decided;
	pthread_mutex_t lock; /* of what that range gave: */
	int rc;
	struct blank found;
	struct err err;
};

enum { RANGE_NOT_ZERO = 1 };
/* Reads one range. 0: all zero. RANGE_NOT_ZERO: *ret says where. */
static int scan_range(const struct scan *s, const struct range *r, uint8_t *buf, struct blank *ret,
                      struct err *err)
{
	ssize_t got;
	size_t at;

	do
		got = pread(s->fd, buf, r->n, (off_t)r->from);
	while (got < 0 && errno == EINTR);
	if (got != (ssize_t)r->n) {
		err_sys(err, got < 0 ? errno : EIO, "read %s at byte %llu", s->name,
		        (unsigned long long)r->from);
		return err_recode(err, ERR_UNAVAILABLE);
	}
	at = first_nonzero(buf, r->n);
	if (at == r->n)
		return 0;
	*ret = (struct blank) { false, r->from + at, buf[at] };
	return RANGE_NOT_ZERO;
}

static void decide(struct scan *s, size_t i, int rc, const struct blank *found,
                   const struct err *err)
{
	pthread_mutex_lock(&s->lock);
	if (i < s->decided) {
		s->decided = i;
		s->rc = rc;
		s->found = *found;
		s->err = *err;
	}
	pthread_mutex_unlock(&s->lock);
}

/* Takes range after range, in order: all in front of the one that decides are read, too. */
static void *read_ranges(void *arg)
{
	struct scan *s = arg;
	uint8_t *buf AUTO(free) = aligned_alloc(ALIGN, CHUNK);
	size_t i;

	if (!buf)
		abort();
	while ((i = s->next++) < s->decided) {
		struct blank found = { .is_blank = true };
		struct err err = ERR_INIT;
		int rc = scan_range(s, &s->plan.ranges[i], buf, &found, &err);

		if (rc)
			decide(s, i, rc, &found, &err);
		else
			s->zero++;
	}
	return NULL;
}

int blank_check(int fd, const char *name, uint64_t size, struct blank *ret, struct err *err)
{
	struct scan *s AUTO(free) = xcalloc(1, sizeof(*s));
	pthread_t helpers[READERS - 1];
	unsigned n = 0;

	s->fd = fd;
	s->name = name;
	pthread_mutex_init(&s->lock, NULL);
	make_plan(&s->plan, size);
	s->decided = s->plan.n;
	thread_rest(); /* the reads may hang */
	/* Without helpers it only takes longer. */
	while (n < READERS - 1 && pthread_create(&helpers[n], NULL, read_ranges, s) == 0)
		n++;
	read_ranges(s);
	while (n > 0)
		pthread_join(helpers[--n], NULL);
	pthread_mutex_destroy(&s->lock);
	if (s->rc < 0) {
		*err = s->err;
		return -1;
	}
	/* Blank means that every range was read; "nothing was found" would not do. */
	assert(s->rc || s->zero == s->plan.n);
	*ret = s->rc == RANGE_NOT_ZERO ? s->found : (struct blank) { .is_blank = true };
	return 0;
}
