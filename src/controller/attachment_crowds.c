/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of volumes, each with an array. A member is sought in the array from one end to the
 * other when it goes: 5,000 numbers of four bytes are read in a microsecond or two.
 */
#include "controller/attachment_crowds.h"

#include <assert.h>
#include <stdlib.h>

#include "common/mem.h"

#define LEAST 8 /* buckets, and members */

static struct attachment_crowd **bucket(const struct attachment_crowds *s, uint64_t volume)
{
	return &s->v[volume & (s->cap - 1)];
}

/* Where its link is, or would be: there is a table. */
static struct attachment_crowd **place(const struct attachment_crowds *s, uint64_t volume)
{
	struct attachment_crowd **at = bucket(s, volume);

	while (*at && (*at)->volume != volume)
		at = &(*at)->next;
	return at;
}

static void resize(struct attachment_crowds *s, size_t cap)
{
	struct attachment_crowds old = *s;

	s->cap = cap;
	s->v = xcalloc(cap, sizeof(struct attachment_crowd *));
	for (size_t i = 0; i < old.cap; i++) {
		while (old.v[i]) {
			struct attachment_crowd *first = old.v[i];
			struct attachment_crowd **to = bucket(s, first->volume);

			old.v[i] = first->next;
			first->next = *to;
			*to = first;
		}
	}
	free(old.v);
}

static struct attachment_crowd *begin(struct attachment_crowds *s, uint64_t volume)
{
	struct attachment_crowd *crowd = xcalloc(1, sizeof(*crowd));
	struct attachment_crowd **to;

	if (s->n == s->cap)
		resize(s, s->cap ? s->cap * 2 : LEAST);
	to = bucket(s, volume);
	crowd->volume = volume;
	crowd->next = *to;
	*to = crowd;
	s->n++;
	return crowd;
}

static void end(struct attachment_crowds *s, struct attachment_crowd **at)
{
	struct attachment_crowd *crowd = *at;

	*at = crowd->next;
	free(crowd->members);
	free(crowd);
	s->n--;
	if (s->cap > LEAST && s->n < s->cap / 8)
		resize(s, s->cap / 2);
}

static void make_room(struct attachment_crowds *s, struct attachment_crowd *crowd, uint32_t cap)
{
	s->members = s->members - crowd->cap + cap;
	crowd->cap = cap;
	crowd->members = xrealloc(crowd->members, cap * sizeof(*crowd->members));
}

void attachment_crowds_clear(struct attachment_crowds *s)
{
	for (size_t i = 0; i < s->cap; i++) {
		while (s->v[i]) {
			struct attachment_crowd *first = s->v[i];

			s->v[i] = first->next;
			free(first->members);
			free(first);
		}
	}
	free(s->v);
	*s = (struct attachment_crowds) { .n = 0 };
}

const struct attachment_crowd *attachment_crowds_find(const struct attachment_crowds *s,
                                                      uint64_t volume)
{
	return s->n ? *place(s, volume) : NULL;
}

void attachment_crowds_add(struct attachment_crowds *s, uint64_t volume, uint32_t member)
{
	struct attachment_crowd *crowd = s->n ? *place(s, volume) : NULL;

	if (!crowd)
		crowd = begin(s, volume);
	if (crowd->n == crowd->cap)
		make_room(s, crowd, crowd->cap + crowd->cap / 4 + LEAST);
	crowd->members[crowd->n++] = member;
}

void attachment_crowds_remove(struct attachment_crowds *s, uint64_t volume, uint32_t member)
{
	struct attachment_crowd **at = place(s, volume), *crowd = *at;
	uint32_t i = 0;

	while (i < crowd->n && crowd->members[i] != member)
		i++;
	assert(i < crowd->n);
	crowd->members[i] = crowd->members[--crowd->n];
	if (!crowd->n) {
		s->members -= crowd->cap;
		end(s, at);
	} else if (crowd->n < crowd->cap / 2) {
		make_room(s, crowd, crowd->n + crowd->n / 4 + LEAST);
	}
}

size_t attachment_crowds_size(const struct attachment_crowds *s)
{
	return s->cap * sizeof(*s->v) + s->n * sizeof(**s->v) + s->members * sizeof(uint32_t);
}
