/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores the attachments as entries (attachment_entries.h), the names of their nodes
 * (node_table.h), and those names of attachments that are not derived from node and volume.
 *
 * Volumes are stored as hashes. If two volumes had the same 64-bit hash, each would appear attached
 * to the other's nodes, which a read of the attachment disproves. The hash has a random key, so
 * such names cannot be chosen. Much of an entry is the attachment's uid, which lets a DELETE name
 * the exact object without a previous read.
 */
#include "controller/attachment_table.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash_table.h"
#include "common/keyed_hash.h"
#include "common/mem.h"
#include "common/str.h"
#include "controller/node_table.h"
#include "controller/attachment_entries.h"
#include "controller/names.h"

/*
 * number of uids of deleted attachments that are remembered; fewer attachments than this are
 * deleted while one request is in flight
 */
#define RECENT 256

enum {
	IS_USED = 1,
	IS_OURS = 2,
	IS_LABELLED = 4,
	IS_SEEN = 8,   /* the watch has delivered it */
	HAS_NAME = 16, /* its name is not derived from node and volume; stored separately */
	IS_ATTACHED = 32,
	HAS_WHOLE_UID = 64, /* the uid is stored, not its hash */
	FLAGS = 127,
};

struct own_name {
	struct hash_link link; /* by a hash that includes the volume: see hash_of_own() */
	struct attachment_uid uid;
	char name[];
};
_Static_assert(offsetof(struct own_name, link) == 0, "names are cast");

struct attachment_table {
	struct hash_key key;
	uint32_t seq; /* the last sequence number given */

	struct attachment_entries entries;
	struct node_table nodes;

	struct hash_table names; /* names that are not derived from node and volume */

	struct attachment_uid gone[RECENT]; /* a ring buffer */
	unsigned n_gone;
};

/* ---- life ---- */

static void table_start(struct attachment_table *t)
{
	attachment_entries_init(&t->entries);
	node_table_init(&t->nodes, t->key);
}

static void free_name(struct hash_link *l)
{
	free(l);
}

static void empty(struct attachment_table *t)
{
	hash_table_each(&t->names, free_name);
	hash_table_clear(&t->names);
	node_table_clear(&t->nodes);
	attachment_entries_clear(&t->entries);
}

struct attachment_table *attachment_table_new(void)
{
	struct attachment_table *t = xcalloc(1, sizeof(*t));

	t->key = hash_key_random();
	table_start(t);
	return t;
}

struct attachment_table *attachment_table_free(struct attachment_table *t)
{
	if (!t)
		return NULL;
	empty(t);
	free(t);
	return NULL;
}

void attachment_table_clear(struct attachment_table *t)
{
	struct hash_key key = t->key;

	empty(t);
	*t = (struct attachment_table) { .key = key };
	table_start(t);
}

static uint64_t hash_of(const struct attachment_table *t, const char *text)
{
	return keyed_hash(&t->key, text, strlen(text));
}

/* ---- counts ---- */

/* Adds the entry to the counts of its node, or removes it from them. */
static void count_entry(struct attachment_table *t, const struct attachment_entry *e, uint32_t by)
{
	struct node_table_entry *node = t->nodes.v[e->node];

	node->all += by;
	if (e->flags & IS_OURS)
		node->ours += by;
	if ((e->flags & (IS_OURS | IS_LABELLED)) == IS_OURS)
		node->unlabelled += by;
}

/* ---- uids ---- */

static struct attachment_uid uid_of(const struct attachment_table *t, const char *text)
{
	struct attachment_uid uid;

	if (!attachment_uid_read(text, &uid))
		uid = (struct attachment_uid) { .w = { hash_of(t, text) } };
	return uid;
}

/* ---- names ---- */

/* Two entries with the same uid have different hashes if their volumes differ. */
static uint64_t hash_of_own(uint64_t volume, struct attachment_uid uid)
{
	return volume ^ uid.w[0];
}

static struct own_name *find_name(const struct attachment_table *t, uint64_t volume,
                                  struct attachment_uid uid)
{
	struct hash_link *l = hash_table_first(&t->names, hash_of_own(volume, uid));

	while (l && !attachment_uid_same(((struct own_name *)l)->uid, uid))
		l = hash_table_next(l);
	return (struct own_name *)l;
}

static void keep_name(struct attachment_table *t, const struct attachment_entry *e,
                      const char *name)
{
	struct own_name *own = xcalloc(1, sizeof(*own) + strlen(name) + 1);

	own->uid = e->uid;
	memcpy(own->name, name, strlen(name) + 1);
	hash_table_add(&t->names, &own->link, hash_of_own(e->volume, e->uid));
}

static void drop_name(struct attachment_table *t, const struct attachment_entry *e)
{
	struct own_name *own = find_name(t, e->volume, e->uid);

	assert(own);
	hash_table_remove(&t->names, &own->link);
	free(own);
}

static bool is_derived(const struct attachment_fact *f)
{
	char derived[OBJECT_NAME_MAX + 1];

	return attachment_object_name(f->node, f->volume, derived) && str_eq(derived, f->name);
}

/* ---- entries ---- */

static struct attachment_entry *find_entry(const struct attachment_table *t, uint64_t volume,
                                           uint32_t node, struct attachment_uid uid)
{
	struct attachment_entry *e = NULL;

	do
		e = attachment_entries_at(&t->entries, volume, node, e);
	while (e && !attachment_uid_same(e->uid, uid));
	return e;
}

static void remove_entry(struct attachment_table *t, struct attachment_entry *e)
{
	uint32_t node = e->node;

	if (e->flags & HAS_NAME)
		drop_name(t, e);
	count_entry(t, e, (uint32_t)-1);
	if (!t->nodes.v[node]->all)
		node_table_forget(&t->nodes, node);
	attachment_entries_remove(&t->entries, e);
}

static struct attachment_entry *add_entry(struct attachment_table *t,
                                          const struct attachment_fact *f, uint64_t volume,
                                          uint32_t node)
{
	struct attachment_uid whole;
	struct attachment_entry like = { .volume = volume,
		                         .node = node & ((1u << NODE_NUMBER_BITS) - 1),
		                         .uid = uid_of(t, f->uid),
		                         .flags = IS_USED };

	if (attachment_uid_read(f->uid, &whole))
		like.flags |= HAS_WHOLE_UID;
	if (!is_derived(f)) {
		like.flags |= HAS_NAME;
		keep_name(t, &like, f->name);
	}
	count_entry(t, &like, 1);
	return attachment_entries_add(&t->entries, &like);
}

static uint32_t next_seq(struct attachment_table *t)
{
	do
		t->seq++;
	while (t->seq == 0 || t->seq == ATTACHMENT_UNSEEN || t->seq == ATTACHMENT_ANY_AGE);
	return t->seq;
}

static void set_flag(struct attachment_entry *e, unsigned flag, bool on)
{
	e->flags = (on ? e->flags | flag : e->flags & ~flag) & FLAGS;
}

/*
 * Returns true if the uid is known to be deleted. An answer may be read after the event of the same
 * object's deletion, which no later event repeats.
 */
static bool uid_is_gone(const struct attachment_table *t, struct attachment_uid uid)
{
	for (unsigned i = 0; i < RECENT && i < t->n_gone; i++)
		if (attachment_uid_same(t->gone[i], uid))
			return true;
	return false;
}

bool attachment_table_put(struct attachment_table *t, const struct attachment_fact *f,
                          enum attachment_source source)
{
	uint64_t volume = hash_of(t, f->volume);
	struct attachment_uid uid = uid_of(t, f->uid);
	uint32_t node;
	struct attachment_entry *e;
	bool written;

	if (source == ATTACHMENT_WRITTEN && uid_is_gone(t, uid))
		return false;
	node = node_table_put(&t->nodes, f->node);
	e = find_entry(t, volume, node, uid);
	written = e != NULL;
	if (!e)
		e = add_entry(t, f, volume, node);
	count_entry(t, e, (uint32_t)-1);
	set_flag(e, IS_OURS, f->ours);
	set_flag(e, IS_LABELLED, f->labelled);
	count_entry(t, e, 1);
	set_flag(e, IS_ATTACHED,
	         f->attached || (source == ATTACHMENT_WRITTEN && e->flags & IS_ATTACHED));
	if (source == ATTACHMENT_WRITTEN || e->flags & IS_SEEN)
		return false;
	e->flags |= IS_SEEN;
	e->seq = source == ATTACHMENT_LISTED ? 0 : next_seq(t);
	return written;
}

static struct attachment_entry *find_by_names(const struct attachment_table *t, const char *volume,
                                              const char *node, struct attachment_uid uid)
{
	uint32_t i = node_table_find(&t->nodes, node);

	return i == NODE_NUMBER_NONE ? NULL : find_entry(t, hash_of(t, volume), i, uid);
}

void attachment_table_remove(struct attachment_table *t, const char *volume, const char *node,
                             const char *uid)
{
	struct attachment_uid its = uid_of(t, uid);
	struct attachment_entry *e = find_by_names(t, volume, node, its);

	if (e)
		remove_entry(t, e);
	if (!str_empty(uid))
		t->gone[t->n_gone++ % RECENT] = its;
}

void attachment_table_drop(struct attachment_table *t, const char *volume,
                           const struct attachment_ref *p)
{
	struct attachment_entry *e = find_by_names(t, volume, p->node, p->uid);

	if (e)
		remove_entry(t, e);
}

/* ---- questions ---- */

static uint32_t seq_of(const struct attachment_entry *e)
{
	return e && e->flags & IS_SEEN ? e->seq : ATTACHMENT_UNSEEN;
}

uint32_t attachment_table_seq(const struct attachment_table *t, const char *volume,
                              const char *node, const char *uid)
{
	return seq_of(find_by_names(t, volume, node, uid_of(t, uid)));
}

/* The numbers wrap around after 4 billion attachments, so their distances are compared. */
bool attachment_is_older(uint32_t a, uint32_t b)
{
	if (a == ATTACHMENT_UNSEEN || (b == 0 && a != 0))
		return false;
	return a == 0 || b == ATTACHMENT_UNSEEN || (int32_t)(a - b) < 0;
}

bool attachment_table_uid(const struct attachment_table *t, const char *volume, const char *node,
                          char ret[ATTACHMENT_UID_MAX + 1])
{
	uint64_t hash = hash_of(t, volume);
	uint32_t its_node = node_table_find(&t->nodes, node);
	const struct attachment_entry *found = NULL;

	for (const struct attachment_entry *e = NULL;
	     (e = attachment_entries_at(&t->entries, hash, its_node, e));) {
		if (e->flags & HAS_NAME)
			continue;
		if (found)
			return false;
		found = e;
	}
	if (!found || !(found->flags & HAS_WHOLE_UID))
		return false;
	attachment_uid_print(found->uid, ret);
	return true;
}

bool attachment_table_is_on(const struct attachment_table *t, const char *volume, const char *node)
{
	return attachment_entries_at(&t->entries, hash_of(t, volume),
	                             node_table_find(&t->nodes, node), NULL);
}

static struct attachment_ref attachment_ref_of(const struct attachment_table *t,
                                               const struct attachment_entry *e, const char *volume)
{
	const char *node = t->nodes.v[e->node]->name;
	char name[OBJECT_NAME_MAX + 1];
	bool derived = !(e->flags & HAS_NAME) && attachment_object_name(node, volume, name);

	return (struct attachment_ref) {
		.node = xstrdup(node),
		.name = xstrdup(derived               ? name
		                : e->flags & HAS_NAME ? find_name(t, e->volume, e->uid)->name
		                                      : ""),
		.attached = e->flags & IS_ATTACHED,
		.uid = e->uid,
		.seq = seq_of(e),
	};
}

struct candidate {
	const struct attachment_entry *entry;
	const char *node;
};

static int by_node(const void *a, const void *b)
{
	const struct candidate *one = a, *other = b;

	return strcmp(one->node, other->node);
}

struct candidates {
	struct candidate *v;
	size_t n, most;
};

/* Adds a candidate. If the list is full, it replaces the last one in order, or is dropped. */
static void add_candidate(struct candidates *s, struct candidate one)
{
	struct candidate *last = s->v;

	if (s->n < s->most) {
		s->v = xrealloc(s->v, (s->n + 1) * sizeof(*s->v));
		s->v[s->n++] = one;
		return;
	}
	for (size_t i = 1; i < s->n; i++)
		if (by_node(&s->v[i], last) > 0)
			last = &s->v[i];
	if (s->n && by_node(&one, last) < 0)
		*last = one;
}

/* Adds the candidates in the order of their nodes, which is also the order of a list. */
static void add_refs(const struct attachment_table *t, const char *volume, struct candidates *s,
                     struct attachment_refs *ret)
{
	if (!s->n)
		return;
	qsort(s->v, s->n, sizeof(*s->v), by_node);
	ret->n = s->n;
	ret->v = xcalloc(ret->n, sizeof(*ret->v));
	for (size_t i = 0; i < ret->n; i++)
		ret->v[i] = attachment_ref_of(t, s->v[i].entry, volume);
}

void attachment_table_find(const struct attachment_table *t, const char *volume, const char *except,
                           uint32_t than, size_t most, struct attachment_refs *ret)
{
	uint64_t hash = hash_of(t, volume);
	uint32_t node = except ? node_table_find(&t->nodes, except) : NODE_NUMBER_NONE;
	struct candidates found = { .most = most };

	*ret = (struct attachment_refs) { .n = 0 };
	for (const struct attachment_entry *e = NULL;
	     (e = attachment_entries_of(&t->entries, hash, e));) {
		if (than != ATTACHMENT_ANY_AGE && !attachment_is_older(seq_of(e), than))
			continue;
		if (e->node == node)
			continue;
		ret->all++;
		add_candidate(&found, (struct candidate) { e, t->nodes.v[e->node]->name });
	}
	add_refs(t, volume, &found, ret);
	free(found.v);
}

void attachment_refs_clear(struct attachment_refs *p)
{
	for (size_t i = 0; i < p->n; i++) {
		free(p->v[i].node);
		free(p->v[i].name);
	}
	free(p->v);
	*p = (struct attachment_refs) { .n = 0 };
}

struct attachment_count attachment_table_count(const struct attachment_table *t, const char *node)
{
	uint32_t i = node_table_find(&t->nodes, node);

	if (i == NODE_NUMBER_NONE)
		return (struct attachment_count) { .all = 0 };
	return (struct attachment_count) { .all = t->nodes.v[i]->all,
		                           .ours = t->nodes.v[i]->ours,
		                           .unlabelled = t->nodes.v[i]->unlabelled };
}

struct attachment_size attachment_table_size(const struct attachment_table *t)
{
	size_t bytes = sizeof(*t) + attachment_entries_size(&t->entries) +
	               hash_table_size(&t->names) + node_table_size(&t->nodes);

	return (struct attachment_size) { .attachments = t->entries.n,
		                          .nodes = t->nodes.names.n,
		                          .names = t->names.n,
		                          .bytes = bytes };
}
