/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chains hold all entries that were added and not removed, and one attachment is found in few
 * steps.
 */
#include "controller/attachment_entries.h"

#include "test/lib/suite.h"

#define VOLUMES 24
#define NODES 8
#define UIDS 3

static uint64_t volume_of(unsigned i)
{
	static struct hash_key key;

	if (!key.k0)
		key = hash_key_random();
	return keyed_hash(&key, &i, sizeof(i));
}

/* Numbers near 0 and far from it. */
static const uint32_t nodes[NODES] = { 0, 1, 2, 3, 10945, 17710, 28656, 46367 };

static struct attachment_entry one(unsigned volume, unsigned node, unsigned uid)
{
	return (struct attachment_entry) { .volume = volume_of(volume),
		                           .node = node & 0xffff,
		                           .uid = { { uid, 0 } },
		                           .flags = 1 };
}

static struct attachment_entry *find(const struct attachment_entries *s, unsigned volume,
                                     unsigned node, unsigned uid)
{
	struct attachment_entry *e = NULL;

	do
		e = attachment_entries_at(s, volume_of(volume), node, e);
	while (e && e->uid.w[0] != uid);
	return e;
}

static unsigned count_of(const struct attachment_entries *s, unsigned volume)
{
	unsigned n = 0;

	for (const struct attachment_entry *e = NULL;
	     (e = attachment_entries_of(s, volume_of(volume), e));)
		n++;
	return n;
}

/* Few chains at first, so that volumes share them, then more and fewer as the array changes. */
START_TEST(whatever_comes_and_goes_the_chains_hold_what_is_there)
{
	static bool there[VOLUMES][NODES][UIDS];
	struct attachment_entries s;
	unsigned random = 1, n = 0;

	attachment_entries_init(&s);
	for (unsigned step = 0; step < 60000; step++) {
		unsigned volume, node, uid, want = 0;
		bool same = true, add = step / 500 % 2 ? random >> 29 < 2 : random >> 29 < 6;

		random = random * 1103515245 + 12345;
		volume = random / 65536 % VOLUMES;
		node = random / 4096 % NODES;
		uid = random / 1024 % UIDS;
		if (add && !there[volume][node][uid]) {
			struct attachment_entry like = one(volume, nodes[node], uid);

			attachment_entries_add(&s, &like);
			n++;
		} else if (!add && there[volume][node][uid]) {
			attachment_entries_remove(&s, find(&s, volume, nodes[node], uid));
			n--;
		}
		there[volume][node][uid] = add;
		/* One assertion: Check records each of them outside the process. */
		for (unsigned i = 0; i < NODES * UIDS; i++) {
			bool is_there = there[volume][i / UIDS][i % UIDS];

			want += is_there;
			same = same &&
			       (find(&s, volume, nodes[i / UIDS], i % UIDS) != NULL) == is_there;
		}
		ck_assert_msg(same && s.n == n && count_of(&s, volume) == want,
		              "step %u: volume %u is not what it should be", step, volume);
	}
	attachment_entries_clear(&s);
}
END_TEST

/* The longest chain of each kind, and the number of entries in all chains of the kind. */
struct chains {
	unsigned pair, volume;
	unsigned pairs, volumes;
};

static struct chains chains_of(const struct attachment_entries *s)
{
	struct chains c = { .pairs = 0 };

	for (uint32_t i = 0; i < s->cap / 4; i++) {
		unsigned pair = 0, volume = 0;

		for (uint32_t at = s->pairs[i]; at != NO_ENTRY; at = s->v[at].next_at)
			pair++;
		for (uint32_t at = s->volumes[i]; at != NO_ENTRY; at = s->v[at].next_volume)
			volume++;
		c.pair = pair > c.pair ? pair : c.pair;
		c.volume = volume > c.volume ? volume : c.volume;
		c.pairs += pair;
		c.volumes += volume;
	}
	return c;
}

static void ck_short_chains(const struct attachment_entries *s, unsigned entries, unsigned volumes)
{
	struct chains c = chains_of(s);

	ck_assert_uint_eq(c.pairs, entries);
	ck_assert_uint_eq(c.volumes, volumes);
	ck_assert_uint_le(c.pair, 40);
	ck_assert_uint_le(c.volume, 40);
}

#define SHARED 50 /* volumes that are each on ON nodes; all others, and many more, are on node 0 */
#define ON 1000
#define SINGLE 50000

/* The time to read a volume that is on all nodes must not grow with the square of their number. */
START_TEST(an_attachment_is_found_in_few_steps_beside_volumes_that_all_nodes_have)
{
	struct attachment_entries s;

	attachment_entries_init(&s);
	for (unsigned i = 0; i < SINGLE; i++) {
		struct attachment_entry like = one(SHARED + i, 0, 0);

		attachment_entries_add(&s, &like);
	}
	for (unsigned i = 0; i < SHARED * ON; i++) {
		struct attachment_entry like = one(i % SHARED, i / SHARED, 0);

		attachment_entries_add(&s, &like);
	}
	ck_short_chains(&s, SINGLE + SHARED * ON, SINGLE + SHARED);
	ck_assert_uint_eq(count_of(&s, 0), ON);
	for (unsigned i = 0; i < ON; i++)
		attachment_entries_remove(&s, find(&s, 0, i, 0));
	ck_assert_uint_eq(count_of(&s, 0), 0);
	ck_assert_uint_eq(count_of(&s, 1), ON);
	ck_short_chains(&s, SINGLE + (SHARED - 1) * ON, SINGLE + SHARED - 1);
	for (unsigned i = ON; i < SHARED * ON; i++)
		attachment_entries_remove(&s, find(&s, i / ON, i % ON, 0));
	for (unsigned i = 0; i < SINGLE; i++)
		attachment_entries_remove(&s, find(&s, SHARED + i, 0, 0));
	ck_short_chains(&s, 0, 0);
	ck_assert_uint_lt(attachment_entries_size(&s), 8192);
	attachment_entries_clear(&s);
}
END_TEST

SUITE("attachment_entries", whatever_comes_and_goes_the_chains_hold_what_is_there,
      an_attachment_is_found_in_few_steps_beside_volumes_that_all_nodes_have);
