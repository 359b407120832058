/* SPDX-License-Identifier: Apache-2.0 */
/* The table of attachments: lookups, removals, memory. */
#include "controller/attachment_table.h"

#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "common/str.h"
#include "test/lib/suite.h"

static void put(struct attachment_table *t, const char *volume, const char *node, const char *uid,
                enum attachment_source source)
{
	char *name AUTO(free) = xasprintf("%s-%s", node, volume);
	struct attachment_fact f = {
		.volume = volume, .node = node, .name = name, .uid = uid, .ours = true
	};

	attachment_table_put(t, &f, source);
}

/* "node/name ..." of the attachments, sorted by node name. */
static void finds(const struct attachment_table *t, const char *volume, const char *except,
                  const char *want)
{
	struct attachment_refs p AUTO(attachment_refs_clear) = { .n = 0 };
	struct strs found AUTO(strs_clear) = STRS_INIT;
	char *text AUTO(free) = NULL;

	attachment_table_find(t, volume, except, ATTACHMENT_ANY_AGE, 100, &p);
	for (size_t i = 0; i < p.n; i++)
		strs_addf(&found, "%s/%s", p.v[i].node, p.v[i].name);
	strs_sort(&found);
	text = strs_join(&found, " ");
	ck_assert_str_eq(text ? text : "", want);
	ck_assert_uint_eq(p.all, p.n);
}

START_TEST(a_volumes_attachments_are_found_with_their_names)
{
	struct attachment_table *t = attachment_table_new();
	struct attachment_fact own = {
		.volume = "v", .node = "n3", .name = "by-hand", .uid = "u3", .ours = false
	};
	struct attachment_refs p = { .n = 0 };

	put(t, "v", "n1", "u1", ATTACHMENT_LISTED);
	put(t, "v", "n2", "u2", ATTACHMENT_CHANGED);
	attachment_table_put(t, &own, ATTACHMENT_LISTED);
	put(t, "w", "n2", "u4", ATTACHMENT_LISTED);
	finds(t, "v", NULL, "n1/n1-v n2/n2-v n3/by-hand");
	finds(t, "v", "n2", "n1/n1-v n3/by-hand");
	finds(t, "x", NULL, "");
	attachment_table_find(t, "v", "n1", ATTACHMENT_ANY_AGE, 1, &p);
	ck_assert(p.n == 1 && p.all == 2);
	ck_assert(attachment_table_is_on(t, "v", "n1") && attachment_table_is_on(t, "v", "n3"));
	ck_assert(!attachment_table_is_on(t, "w", "n1") && !attachment_table_is_on(t, "v", "n9"));
	attachment_table_drop(t, "v", &p.v[0]);
	attachment_refs_clear(&p);
	attachment_table_find(t, "v", NULL, ATTACHMENT_ANY_AGE, 9, &p);
	ck_assert_uint_eq(p.n, 2);
	attachment_refs_clear(&p);
	attachment_table_remove(t, "v", "n3", "u3");
	attachment_table_free(t);
}
END_TEST

START_TEST(what_is_attached_stays_so_until_the_watch_says_otherwise)
{
	static const struct {
		enum attachment_source source;
		bool says, attached;
	} steps[] = {
		{ ATTACHMENT_WRITTEN, false, false }, { ATTACHMENT_CHANGED, false, false },
		{ ATTACHMENT_WRITTEN, true, true },   { ATTACHMENT_WRITTEN, false, true },
		{ ATTACHMENT_CHANGED, true, true },   { ATTACHMENT_CHANGED, false, false },
		{ ATTACHMENT_LISTED, true, true },    { ATTACHMENT_LISTED, false, false },
	};
	struct attachment_table *t = attachment_table_new();
	struct attachment_fact f = { .volume = "v", .node = "n", .name = "n-v", .uid = "u" };

	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		struct attachment_refs p AUTO(attachment_refs_clear) = { .n = 0 };

		f.attached = steps[i].says;
		attachment_table_put(t, &f, steps[i].source);
		attachment_table_find(t, "v", NULL, ATTACHMENT_ANY_AGE, 9, &p);
		ck_assert_uint_eq(p.n, 1);
		ck_assert_msg(p.v[0].attached == steps[i].attached, "step %zu", i);
	}
	attachment_table_free(t);
}
END_TEST

START_TEST(a_late_deletion_removes_only_the_object_that_it_is_about)
{
	struct attachment_table *t = attachment_table_new();

	put(t, "v", "n1", "today", ATTACHMENT_WRITTEN);
	attachment_table_remove(t, "v", "n1", "yesterday");
	finds(t, "v", NULL, "n1/n1-v");
	/* Its ADDED may be this late. */
	put(t, "v", "n1", "yesterday", ATTACHMENT_CHANGED);
	attachment_table_remove(t, "v", "n1", "yesterday");
	finds(t, "v", NULL, "n1/n1-v");
	attachment_table_remove(t, "v", "n1", "today");
	finds(t, "v", NULL, "");
	attachment_table_remove(t, "v", "n1", "today");
	attachment_table_free(t);
}
END_TEST

START_TEST(one_that_has_gone_is_not_written_again)
{
	struct attachment_table *t = attachment_table_new();

	/* The answer of a request is read after the event of the object's deletion. */
	attachment_table_remove(t, "v", "n1", "u");
	put(t, "v", "n1", "u", ATTACHMENT_WRITTEN);
	finds(t, "v", NULL, "");
	put(t, "v", "n1", "w", ATTACHMENT_WRITTEN);
	finds(t, "v", NULL, "n1/n1-v");
	attachment_table_free(t);
}
END_TEST

#define UID(last) "01234567-89ab-cdef-0123-4567fedcba9" last

#define FACT(v_, n_, name_, uid_)                                            \
	{                                                                    \
		.volume = (v_), .node = (n_), .name = (name_), .uid = (uid_) \
	}

START_TEST(a_uid_is_known_where_it_can_only_be_the_right_one)
{
	static const struct {
		const char *what;
		struct attachment_fact facts[2];
		const char *uid; /* NULL: it is not known */
	} rows[] = {
		{ "one", { FACT("v", "n", "n-v", UID("1")) }, UID("1") },
		{ "none", { FACT("v", "m", "m-v", UID("1")) }, NULL },
		{ "another volume", { FACT("w", "n", "n-w", UID("1")) }, NULL },
		{ "two, of which one has gone",
		  { FACT("v", "n", "n-v", UID("1")), FACT("v", "n", "n-v", UID("2")) },
		  NULL },
		{ "with a name of its own", { FACT("v", "n", "by-hand", UID("1")) }, NULL },
		{ "beside one with a name of its own",
		  { FACT("v", "n", "by-hand", UID("1")), FACT("v", "n", "n-v", UID("f")) },
		  UID("f") },
		{ "beside another node's",
		  { FACT("v", "m", "m-v", UID("1")), FACT("v", "n", "n-v", UID("0")) },
		  UID("0") },
		{ "no uid", { FACT("v", "n", "n-v", "") }, NULL },
		{ "a uid that is no UUID", { FACT("v", "n", "n-v", "uid-1") }, NULL },
		{ "upper case", { FACT("v", "n", "n-v", UID("F")) }, NULL },
		{ "too long", { FACT("v", "n", "n-v", UID("11")) }, NULL },
		{ "too short", { FACT("v", "n", "n-v", UID("")) }, NULL },
		{ "a hyphen too few",
		  { FACT("v", "n", "n-v", "01234567089ab-cdef-0123-4567fedcba91") },
		  NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct attachment_table *t = attachment_table_new();
		char uid[ATTACHMENT_UID_MAX + 1] = "";

		for (size_t k = 0; k < 2 && rows[i].facts[k].volume; k++)
			attachment_table_put(t, &rows[i].facts[k], ATTACHMENT_CHANGED);
		ck_assert_msg(attachment_table_uid(t, "v", "n", uid) == (rows[i].uid != NULL), "%s",
		              rows[i].what);
		ck_assert_msg(str_eq(uid, rows[i].uid ? rows[i].uid : ""), "%s: %s", rows[i].what,
		              uid);
		attachment_table_free(t);
	}
}
END_TEST

START_TEST(the_order_of_the_watch_says_which_is_older)
{
	struct attachment_table *t = attachment_table_new();
	uint32_t listed, first, second;

	put(t, "v", "n2", "b", ATTACHMENT_WRITTEN);
	ck_assert_uint_eq(attachment_table_seq(t, "v", "n2", "b"), ATTACHMENT_UNSEEN);
	put(t, "v", "n0", "l", ATTACHMENT_LISTED);
	put(t, "v", "n1", "a", ATTACHMENT_CHANGED);
	put(t, "v", "n2", "b", ATTACHMENT_CHANGED);
	put(t, "v", "n1", "a", ATTACHMENT_CHANGED);
	listed = attachment_table_seq(t, "v", "n0", "l");
	first = attachment_table_seq(t, "v", "n1", "a");
	second = attachment_table_seq(t, "v", "n2", "b");
	ck_assert(attachment_is_older(first, second) && !attachment_is_older(second, first));
	ck_assert(attachment_is_older(listed, first) && !attachment_is_older(first, listed));
	ck_assert(attachment_is_older(listed, listed)); /* that cannot be said */
	ck_assert(!attachment_is_older(ATTACHMENT_UNSEEN, first));
	ck_assert(attachment_is_older(first, ATTACHMENT_UNSEEN));
	ck_assert(attachment_is_older(UINT32_MAX - 5, 7) &&
	          !attachment_is_older(7, UINT32_MAX - 5));
	ck_assert_uint_eq(attachment_table_seq(t, "v", "n1", "other"), ATTACHMENT_UNSEEN);
	attachment_table_free(t);
}
END_TEST

START_TEST(a_node_counts_what_is_ours_and_is_forgotten_with_its_last)
{
	struct attachment_table *t = attachment_table_new();
	struct attachment_fact f = { .volume = "v", .node = "n", .name = "n-v", .uid = "u" };
	struct attachment_count c;

	attachment_table_put(t, &f, ATTACHMENT_LISTED);
	c = attachment_table_count(t, "n");
	ck_assert(c.all == 1 && c.ours == 0 && c.unlabelled == 0);
	f.ours = true;
	attachment_table_put(t, &f, ATTACHMENT_CHANGED);
	c = attachment_table_count(t, "n");
	ck_assert(c.all == 1 && c.ours == 1 && c.unlabelled == 1);
	f.labelled = true;
	attachment_table_put(t, &f, ATTACHMENT_CHANGED);
	c = attachment_table_count(t, "n");
	ck_assert(c.all == 1 && c.ours == 1 && c.unlabelled == 0);
	for (int i = 0; i < 1000; i++) {
		char node[20];

		snprintf(node, sizeof(node), "node-%d", i);
		put(t, "x", node, "u", ATTACHMENT_CHANGED);
		attachment_table_remove(t, "x", node, "u");
	}
	ck_assert_uint_eq(attachment_table_size(t).nodes, 1);
	attachment_table_remove(t, "v", "n", "u");
	c = attachment_table_count(t, "n");
	ck_assert(c.all == 0 && c.ours == 0);
	ck_assert_uint_eq(attachment_table_size(t).nodes, 0);
	ck_assert_uint_lt(attachment_table_size(t).bytes, 10240);
	attachment_table_free(t);
}
END_TEST

#define MANY 200000

/* Names as long as in a cluster: none of them may be stored per attachment. */
static void of_number(unsigned i, char volume[64], char node[64], char uid[64])
{
	snprintf(volume, 64, "pvc-%08x-1234-5678-9abc-def012345678", i);
	snprintf(node, 64, "worker-%04u.rack-17.cluster.example.com", i % 5000);
	snprintf(uid, 64, "%08x-aaaa-bbbb-cccc-dddddddddddd", i);
}

START_TEST(two_hundred_thousand_take_52_bytes_each_at_most_and_none_when_they_have_gone)
{
	struct attachment_table *t = attachment_table_new();
	struct attachment_size size;
	char volume[64], node[64], uid[64];

	for (unsigned i = 0; i < MANY; i++) {
		of_number(i, volume, node, uid);
		put(t, volume, node, uid, ATTACHMENT_LISTED);
	}
	size = attachment_table_size(t);
	printf("%zu attachments on %zu nodes: %zu bytes, %.1f each\n", size.attachments, size.nodes,
	       size.bytes, (double)size.bytes / (double)size.attachments);
	ck_assert(size.attachments == MANY && size.nodes == 5000 && size.names == 0);
	ck_assert_uint_lt(size.bytes, MANY * 52);
	ck_assert_uint_eq(attachment_table_count(t, node).ours, MANY / 5000);
	/* Every second one is removed, the others are all found. */
	for (unsigned i = 0; i < MANY; i += 2) {
		of_number(i, volume, node, uid);
		attachment_table_remove(t, volume, node, uid);
	}
	for (unsigned i = 0; i < MANY; i++) {
		struct attachment_refs p AUTO(attachment_refs_clear) = { .n = 0 };

		of_number(i, volume, node, uid);
		attachment_table_find(t, volume, NULL, ATTACHMENT_ANY_AGE, 9, &p);
		ck_assert_msg(p.n == i % 2, "%u: %zu", i, p.n);
	}
	for (unsigned i = 1; i < MANY; i += 2) {
		of_number(i, volume, node, uid);
		attachment_table_remove(t, volume, node, uid);
	}
	size = attachment_table_size(t);
	ck_assert(size.attachments == 0 && size.nodes == 0);
	/* The table of entries is small again; the table of node numbers stays. */
	ck_assert_uint_lt(size.bytes, 1024 * 1024);
	attachment_table_clear(t);
	ck_assert_uint_lt(attachment_table_size(t).bytes, 8192);
	attachment_table_free(t);
}
END_TEST

/* Its size is that of the attachments plus the smallest table. */
static void ck_compact(const struct attachment_table *t, size_t n, size_t most)
{
	struct attachment_size size = attachment_table_size(t);

	ck_assert_uint_eq(size.attachments, n);
	ck_assert_msg(size.bytes < n * most + 20000, "%zu attachments: %zu bytes", n, size.bytes);
}

START_TEST(the_table_is_as_large_as_its_attachments_at_any_time)
{
	struct attachment_table *t = attachment_table_new();
	char volume[64], node[64], uid[64];

	for (unsigned i = 0; i < 70000; i++) {
		of_number(i, volume, node, uid);
		put(t, volume, "node", uid, ATTACHMENT_CHANGED);
		ck_compact(t, i + 1, 52);
	}
	for (unsigned i = 70000; i-- > 0;) {
		of_number(i, volume, node, uid);
		attachment_table_remove(t, volume, "node", uid);
		ck_compact(t, i, 93); /* half of it may be free */
	}
	attachment_table_free(t);
}
END_TEST

START_TEST(names_of_their_own_are_kept_and_forgotten)
{
	struct attachment_table *t = attachment_table_new();

	for (int round = 0; round < 2; round++) {
		for (unsigned i = 0; i < 2000; i++) {
			char volume[64], node[64], uid[64];
			char *name AUTO(free) = xasprintf("other-%u", i);
			struct attachment_fact f = {
				.volume = volume, .node = node, .name = name, .uid = uid
			};

			of_number(i, volume, node, uid);
			attachment_table_put(t, &f, ATTACHMENT_LISTED);
			if (i == 1234) {
				char *want AUTO(free) = xasprintf("%s/other-1234", node);

				finds(t, volume, NULL, want);
			}
		}
		ck_assert_uint_eq(attachment_table_size(t).names, 2000);
		for (unsigned i = 0; i < 2000; i++) {
			char volume[64], node[64], uid[64];

			of_number(i, volume, node, uid);
			attachment_table_remove(t, volume, node, uid);
		}
		ck_assert_uint_eq(attachment_table_size(t).names, 0);
	}
	attachment_table_free(t);
}
END_TEST

/* `there` is the state of one volume: NODES_N nodes with UIDS_N attachments each. */
enum { NODES_N = 5, UIDS_N = 2 };

static void ck_as_list(const struct attachment_table *t, const char *volume,
                       bool there[NODES_N][UIDS_N], size_t most)
{
	struct attachment_refs p AUTO(attachment_refs_clear) = { .n = 0 };
	size_t all = 0;
	bool same = true;

	attachment_table_find(t, volume, NULL, ATTACHMENT_ANY_AGE, most, &p);
	for (unsigned k = 0; k < NODES_N * UIDS_N; k++) {
		char node[16];

		snprintf(node, sizeof(node), "n%u", k / UIDS_N);
		same = same && attachment_table_is_on(t, volume, node) ==
		                       (there[k / UIDS_N][0] || there[k / UIDS_N][1]);
		if (!there[k / UIDS_N][k % UIDS_N])
			continue;
		if (all++ < most && all <= p.n)
			same = same && str_eq(p.v[all - 1].node, node);
	}
	/* One assertion: Check records each of them outside the process. */
	ck_assert_msg(same && p.all == all && p.n == (all < most ? all : most),
	              "volume %s is not on the nodes that it should be on", volume);
}

/* Compared with a list that is searched linearly. */
START_TEST(whatever_comes_and_goes_it_knows_what_a_list_knows)
{
	enum { VOLUMES_N = 40, STEPS = 30000 };
	static bool there[VOLUMES_N][NODES_N][UIDS_N];
	struct attachment_table *t = attachment_table_new();
	unsigned random = 1;

	for (int i = 0; i < STEPS; i++) {
		unsigned v, n, u;
		char volume[16], node[16], uid[16];

		random = random * 1103515245 + 12345;
		v = random / 65536 % VOLUMES_N;
		n = random / 7 % NODES_N;
		u = random / 131072 % UIDS_N;
		snprintf(volume, sizeof(volume), "v%u", v);
		snprintf(node, sizeof(node), "n%u", n);
		snprintf(uid, sizeof(uid), "u%u-%u-%u", v, n, u);
		there[v][n][u] = random / 1048576 % 2;
		if (there[v][n][u])
			put(t, volume, node, uid, ATTACHMENT_CHANGED);
		else
			attachment_table_remove(t, volume, node, uid);
		ck_as_list(t, volume, there[v], 100);
		ck_as_list(t, volume, there[v], (unsigned)i % 4);
	}
	attachment_table_free(t);
}
END_TEST

SUITE("attachment_table", a_volumes_attachments_are_found_with_their_names,
      what_is_attached_stays_so_until_the_watch_says_otherwise,
      a_late_deletion_removes_only_the_object_that_it_is_about,
      one_that_has_gone_is_not_written_again, a_uid_is_known_where_it_can_only_be_the_right_one,
      the_order_of_the_watch_says_which_is_older,
      a_node_counts_what_is_ours_and_is_forgotten_with_its_last,
      two_hundred_thousand_take_52_bytes_each_at_most_and_none_when_they_have_gone,
      the_table_is_as_large_as_its_attachments_at_any_time,
      names_of_their_own_are_kept_and_forgotten,
      whatever_comes_and_goes_it_knows_what_a_list_knows);
