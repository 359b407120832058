/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The blank check: reads about 10 MiB of any device, however large; devices up to 16 MiB are read whole.
 * Owns one aligned buffer for the time of a call; no state, any thread.  Writes nothing and decides nothing.
 */
#include "node/mount/blank.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"

#define MIB (1024ULL * 1024)
#define EDGE (4 * MIB)        /* read at the start and at the end */
#define SMALL (16 * MIB)      /* read whole */
#define CHUNK (1 * MIB)       /* one read */
#define SAMPLE (16 * 1024ULL) /* read at each place between */
#define ALIGN 4096            /* for O_DIRECT on any logical block size */
#define EVEN_SAMPLES 64

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

struct scan {
	int fd;
	const char *name;
	uint64_t size;
	uint8_t *buf;
	struct blank *ret;
};

/* Reads [from, to) within the device. 0: all zero, 1: not (ret says where), -1. */
static int scan_range(struct scan *s, uint64_t from, uint64_t to, struct err *err)
{
	while (from < to) {
		size_t n = to - from < CHUNK ? (size_t)(to - from) : CHUNK, at;
		ssize_t got = pread(s->fd, s->buf, n, (off_t)from);

		if (got < 0 && errno == EINTR)
			continue;
		if (got != (ssize_t)n) {
			err_sys(err, got < 0 ? errno : EIO, "read %s at byte %llu", s->name,
			        (unsigned long long)from);
			return err_recode(err, ERR_UNAVAILABLE);
		}
		at = first_nonzero(s->buf, n);
		if (at < n) {
			*s->ret = (struct blank) { false, from + at, s->buf[at] };
			return 1;
		}
		from += n;
	}
	return 0;
}

/* One place between the edges. */
static int scan_sample(struct scan *s, uint64_t at, struct err *err)
{
	uint64_t from = at / ALIGN * ALIGN, to = from + SAMPLE;

	if (from < EDGE)
		from = EDGE;
	if (to > s->size)
		to = s->size;
	return scan_range(s, from, to, err);
}

static int scan_between(struct scan *s, struct err *err)
{
	int rc = 0;

	for (unsigned i = 1; !rc && i < EVEN_SAMPLES; i++)
		rc = scan_sample(s, s->size / EVEN_SAMPLES * i - SAMPLE / 2, err);
	/* 5, 6, 7, 8, 10, 12, 14, 16, 20 ... MiB: the backup superblocks of ext4 and btrfs are among them. */
	for (uint64_t base = EDGE; !rc && base < s->size; base *= 2)
		for (unsigned quarter = 4; !rc && quarter < 8; quarter++)
			if (base / 4 * quarter < s->size)
				rc = scan_sample(s, base / 4 * quarter, err);
	return rc;
}

int blank_check(int fd, const char *name, uint64_t size, struct blank *ret, struct err *err)
{
	uint8_t *buf AUTO(free) = aligned_alloc(ALIGN, CHUNK);
	struct blank found = { .is_blank = true };
	struct scan s = { fd, name, size, buf, &found };
	int rc;

	if (!buf)
		abort();
	if (size <= SMALL) {
		rc = scan_range(&s, 0, size, err);
	} else {
		rc = scan_range(&s, 0, EDGE, err);
		if (!rc)
			rc = scan_range(&s, (size - EDGE) / ALIGN * ALIGN, size, err);
		if (!rc)
			rc = scan_between(&s, err);
	}
	if (rc < 0)
		return -1;
	*ret = found;
	return 0;
}
