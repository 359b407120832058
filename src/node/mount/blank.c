/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The blank check: reads at most 16 MiB of a device of any size. The ranges are selected first
 * (blank_places.h) and then read by several threads of the call, because most of the 1,300 reads
 * are small, and each takes a round trip on network storage. Writes nothing and decides nothing.
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
#include "node/mount/blank_places.h"

#define HELPERS 31 /* maximum number of threads per check; 1,300 reads of 1 ms then take 50 ms */
/* maximum number of threads of all checks; each has a buffer of BLANK_CHUNK */
#define ALL_HELPERS 1024

/* Returns the offset of the first non-zero byte, or n. */
static size_t first_nonzero(const uint8_t *buf, size_t n)
{
	size_t i = 0;

	if (n == 0 || (buf[0] == 0 && memcmp(buf, buf + 1, n - 1) == 0))
		return n;
	while (buf[i] == 0)
		i++;
	return i;
}

struct scan {
	int fd;
	const char *name;
	struct blank_places places;
	atomic_size_t next; /* index of the first range that no reader has taken */
	atomic_size_t zero; /* number of ranges that were read and are all zeros */
	/*
	 * Index of the first range that is not all zeros or cannot be read, or places.n. Later
	 * ranges are not read.
	 */
	atomic_size_t decided;
	pthread_mutex_t lock; /* protects the result for that range: */
	int rc;
	struct blank found;
	struct err err;
};

enum { PLACE_NOT_ZERO = 1 };
/* Reads one range. Returns 0 if it is all zeros, or PLACE_NOT_ZERO; *ret then has the offset. */
static int scan_place(const struct scan *s, const struct blank_place *r, uint8_t *buf,
                      struct blank *ret, struct err *err)
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
	return PLACE_NOT_ZERO;
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

/* Reads ranges in order, so that all ranges before the decisive one are read as well. */
static void *read_places(void *arg)
{
	struct scan *s = arg;
	uint8_t *buf AUTO(free) = aligned_alloc(BLANK_ALIGN, BLANK_CHUNK);
	size_t i;

	if (!buf)
		abort();
	while ((i = s->next++) < s->decided) {
		struct blank found = { .is_blank = true };
		struct err err = ERR_INIT;
		int rc = scan_place(s, &s->places.v[i], buf, &found, &err);

		if (rc)
			decide(s, i, rc, &found, &err);
		else
			s->zero++;
	}
	return NULL;
}

static atomic_uint helpers_left = ALL_HELPERS;

/*
 * Reserves some of the remaining helpers and leaves some to other checks, even if devices hang. The
 * caller releases them.
 */
static unsigned reserve_helpers(void)
{
	unsigned left = helpers_left, n;

	do {
		n = left / (HELPERS + 1);
		if (n > HELPERS)
			n = HELPERS;
	} while (!atomic_compare_exchange_weak(&helpers_left, &left, left - n));
	return n;
}

int blank_check(int fd, const char *name, uint64_t size, const char *seed, struct blank *ret,
                struct err *err)
{
	struct scan *s AUTO(free) = xcalloc(1, sizeof(*s));
	pthread_t helpers[HELPERS];
	unsigned n = 0, most;

	s->fd = fd;
	s->name = name;
	pthread_mutex_init(&s->lock, NULL);
	blank_places(&s->places, size, seed);
	s->decided = s->places.n;
	thread_rest(); /* the reads may hang */
	/* Without helpers, the check only takes longer. */
	most = reserve_helpers();
	while (n < most && pthread_create(&helpers[n], NULL, read_places, s) == 0)
		n++;
	read_places(s);
	while (n > 0)
		pthread_join(helpers[--n], NULL);
	helpers_left += most;
	pthread_mutex_destroy(&s->lock);
	if (s->rc < 0) {
		*err = s->err;
		return -1;
	}
	/*
	 * The result is "blank" only if every range was read; that no data was found is not
	 * sufficient.
	 */
	assert(s->rc || s->zero == s->places.n);
	*ret = s->rc == PLACE_NOT_ZERO ? s->found : (struct blank) { .is_blank = true };
	return 0;
}
