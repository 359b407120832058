/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads mountinfo and evaluates only its lines; never accesses a mount, which may be dead. Changes
 * nothing. libmount is used only for changes (mount.c), because each call reads the table, again
 * after each change, and libmount's objects would cost half as much CPU time as the kernel's own
 * work. Here the words of a line stay in the read buffer, and the table is two allocations.
 */
#include "node/mount/mountinfo.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/limits.h"
#include "common/mem.h"
#include "common/str.h"

/* ---- the table ---- */

/* Cuts off the next word, which may be empty. Returns NULL at the end of the line. */
static char *next_word(char **rest)
{
	return strsep(rest, " ");
}

static int octal(const char *p)
{
	int value = 0;

	for (int i = 0; i < 3; i++) {
		if (p[i] < '0' || p[i] > '7')
			return -1;
		value = value * 8 + p[i] - '0';
	}
	return value > 0 && value < 256 ? value : -1;
}

/*
 * Decodes the kernel's octal escapes (\040 and so on) of space, tab, newline and backslash in
 * place.
 */
static char *unescaped(char *word)
{
	char *to = word ? strchr(word, '\\') : NULL;

	for (const char *from = to; from && (*to = *from) != '\0'; from++, to++) {
		int c = *from == '\\' ? octal(from + 1) : -1;

		if (c < 0)
			continue;
		*to = (char)c;
		from += 3;
	}
	return word;
}

static bool parse_number(char **rest, int *ret)
{
	const char *word = next_word(rest);
	struct err ignored = ERR_INIT;
	uint64_t n;

	if (!word || parse_u64("", word, &n, &ignored) || n > INT_MAX)
		return false;
	*ret = (int)n;
	return true;
}

/* Parses a device number, "259:3". */
static bool parse_devno(char **rest, dev_t *ret)
{
	char *minor_no = next_word(rest), *major_no = strsep(&minor_no, ":");
	struct err ignored = ERR_INIT;
	uint64_t a, b;

	if (!minor_no || parse_u64("", major_no, &a, &ignored) ||
	    parse_u64("", minor_no, &b, &ignored) || a > UINT_MAX || b > UINT_MAX)
		return false;
	*ret = makedev((unsigned)a, (unsigned)b);
	return true;
}

/* Returns true if the options start with "ro"; the kernel starts both lists with "ro" or "rw". */
static bool is_read_only(const char *options)
{
	return str_eq(options, "ro") || str_has_prefix(options, "ro,");
}

bool mount_is_share(const struct mount *m)
{
	return str_eq(m->fs_type, "virtiofs") || str_eq(m->fs_type, "fuse.virtiofs");
}

/* Returns true if the word is one of the options, which are separated by commas. */
static bool has_option(const char *options, const char *word)
{
	size_t n = strlen(word);

	for (const char *at = options; (at = strstr(at, word)); at += n)
		if ((at == options || at[-1] == ',') && (at[n] == ',' || at[n] == '\0'))
			return true;
	return false;
}

bool mount_turned_read_only(const struct mount *m)
{
	return !is_read_only(m->options) &&
	       (m->read_only || has_option(m->fs_options, "emergency_ro"));
}

bool mount_has_shut_down(const struct mount *m)
{
	return has_option(m->fs_options, "shutdown");
}

/* Parses a line; the strings of *m are parts of it. Returns false if the line is malformed. */
static bool mountinfo_parse_line(char *line, struct mount *m)
{
	const char *word;

	*m = (struct mount) { .id = 0 };
	if (!parse_number(&line, &m->id) || !parse_number(&line, &m->parent_id) ||
	    !parse_devno(&line, &m->devno))
		return false;
	m->root = unescaped(next_word(&line));
	m->target = unescaped(next_word(&line));
	m->options = unescaped(next_word(&line));
	while ((word = next_word(&line)) && !str_eq(word, "-")) {
		m->shared |= str_has_prefix(word, "shared:");
		m->slave |= str_has_prefix(word, "master:");
	}
	m->fs_type = unescaped(next_word(&line));
	m->source = unescaped(next_word(&line));
	m->fs_options = unescaped(line);
	if (!m->target || m->target[0] != '/' || !m->fs_options)
		return false;
	m->read_only = is_read_only(m->options) || is_read_only(m->fs_options);
	return true;
}

static size_t count_lines(const char *text)
{
	size_t n = 0;

	for (; (text = strchr(text, '\n')); text++)
		n++;
	return n;
}

/*
 * Parses the table. A malformed line, or a last line without its newline, is an error, because it
 * could be the line of the mount in question.
 */
static bool mountinfo_parse(char *text, size_t len, struct mount_table *t)
{
	if (strlen(text) != len || (len && text[len - 1] != '\n'))
		return false;
	t->v = xcalloc(count_lines(text) + 1, sizeof(*t->v));
	while (*text) {
		char *line = strsep(&text, "\n");

		if (!mountinfo_parse_line(line, &t->v[t->n++]))
			return false;
	}
	return true;
}

/* Orders by target; mounts of one target stay in the kernel's order. */
static int compare_targets(const void *a, const void *b, void *arg)
{
	const struct mount *v = arg;
	unsigned i = *(const unsigned *)a, k = *(const unsigned *)b;
	int rc = strcmp(v[i].target, v[k].target);

	return rc ? rc : i < k ? -1 : 1;
}

static int compare_ids(const void *a, const void *b)
{
	int i = *(const int *)a, k = *(const int *)b;

	return i < k ? -1 : i > k;
}

static void find_parents(struct mount_table *t)
{
	int *ids AUTO(free) = xcalloc(t->n + 1, sizeof(*ids));

	for (size_t i = 0; i < t->n; i++)
		ids[i] = t->v[i].id;
	qsort(ids, t->n, sizeof(*ids), compare_ids);
	for (size_t i = 0; i < t->n; i++)
		t->v[i].has_parent =
			t->v[i].parent_id != t->v[i].id &&
			bsearch(&t->v[i].parent_id, ids, t->n, sizeof(*ids), compare_ids);
}

/*
 * Sorts the lines, so that looking up each of thousands of mounts does not scan the whole table
 * each time.
 */
static void sort_lines(struct mount_table *t)
{
	find_parents(t);
	if (t->n < 2)
		return;
	t->order = xcalloc(t->n, sizeof(*t->order));
	for (size_t i = 0; i < t->n; i++)
		t->order[i] = (unsigned)i;
	qsort_r(t->order, t->n, sizeof(*t->order), compare_targets, t->v);
}

int mount_table_read_of(const char *proc_root, const char *pid, struct mount_table *ret,
                        struct err *err)
{
	char *path AUTO(free) = xasprintf("%s/%s/mountinfo", proc_root, pid);
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	size_t len = 0;

	if (file_read(path, LIMIT_MOUNTINFO, &t.text, &len, err))
		return err_recode(err, err->sys ? ERR_UNAVAILABLE : ERR_INTERNAL);
	if (!mountinfo_parse(t.text, len, &t))
		return err_set(err, ERR_INTERNAL, "read %s: a line is not in mountinfo format",
		               path);
	sort_lines(&t);
	*ret = t;
	t = (struct mount_table)MOUNT_TABLE_INIT;
	return 0;
}

int mount_table_read(const char *proc_root, struct mount_table *ret, struct err *err)
{
	return mount_table_read_of(proc_root, "self", ret, err);
}

void mount_table_clear(struct mount_table *t)
{
	free(t->v);
	free(t->order);
	free(t->text);
	*t = (struct mount_table)MOUNT_TABLE_INIT;
}

/*
 * Returns a table with one mount. The strings of a line are in its order, and end with fs_options.
 */
static struct mount_table table_of_one(const struct mount *m)
{
	size_t len = (size_t)(m->fs_options - m->root) + strlen(m->fs_options) + 1;
	struct mount_table t = { .v = xcalloc(1, sizeof(*m)), .n = 1, .text = xcalloc(1, len) };
	const char **const strings[] = { &t.v->root,   &t.v->target,  &t.v->fs_type,
		                         &t.v->source, &t.v->options, &t.v->fs_options };

	memcpy(t.text, m->root, len);
	*t.v = *m;
	for (size_t i = 0; i < ARRAY_LEN(strings); i++)
		*strings[i] = t.text + (*strings[i] - m->root);
	return t;
}

void mount_table_keep(struct mount_table *t, const struct mount **m)
{
	struct mount_table one = *m ? table_of_one(*m) : (struct mount_table)MOUNT_TABLE_INIT;

	mount_table_clear(t);
	*t = one;
	*m = one.v;
}

/* ---- look-ups ---- */

/* Returns true if `path` is the directory `dir` or below it. */
static bool is_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	if (str_eq(dir, "/"))
		return path[0] == '/';
	return strncmp(path, dir, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

static const struct mount *parent_of(const struct mount_table *t, const struct mount *m)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->v[i].id == m->parent_id && m->id != m->parent_id)
			return &t->v[i];
	return NULL;
}

static const struct mount *at_index(const struct mount_table *t, size_t index)
{
	return &t->v[t->order ? t->order[index] : index];
}

/* Compares like strcmp(), with the first `n` bytes of `path`. */
static int compare_start(const char *target, const char *path, size_t n)
{
	int rc = strncmp(target, path, n);

	return rc ? rc : target[n] != '\0';
}

/* Returns the index of the first mount whose target is not before the first `n` bytes of `path`. */
static size_t first_index(const struct mount_table *t, const char *path, size_t n)
{
	size_t from = 0, to = t->n;

	while (from < to) {
		size_t half = from + (to - from) / 2;

		if (compare_start(at_index(t, half)->target, path, n) < 0)
			from = half + 1;
		else
			to = half;
	}
	return from;
}

/*
 * Returns true if path resolution enters `m`. A mount over the root itself is visible to no
 * process, because resolution begins beneath it.
 */
static bool is_entered(const struct mount *from, const struct mount *m)
{
	if (!from)
		return !m->has_parent;
	return m->parent_id == from->id && m != from && !str_eq(m->target, "/");
}

/*
 * Among the mounts at the first `n` bytes of `path`, returns the last one whose parent is `from`, or
 * NULL.
 */
static const struct mount *entered_at(const struct mount_table *t, const struct mount *from,
                                      const char *path, size_t n)
{
	const struct mount *last = NULL;

	for (size_t i = first_index(t, path, n); i < t->n; i++) {
		const struct mount *m = at_index(t, i);

		if (compare_start(m->target, path, n) != 0)
			break;
		if (is_entered(from, m))
			last = m;
	}
	return last;
}

/*
 * Returns the mount that path resolution enters next between the mount `from` (NULL: the process's
 * root) and `path`, or NULL. Of the mounts within `from`, it first enters the one nearest to the
 * root.
 */
static const struct mount *next_on_way(const struct mount_table *t, const struct mount *from,
                                       const char *path)
{
	const struct mount *next = path[0] == '/' ? entered_at(t, from, path, 1) : NULL;

	for (size_t n = 1; !next && path[n - 1]; n++)
		if (n > 1 && (path[n] == '/' || path[n] == '\0'))
			next = entered_at(t, from, path, n);
	return next;
}

const struct mount *mount_containing(const struct mount_table *t, const char *path)
{
	const struct mount *in = NULL, *next;

	/*
	 * Takes at most as many steps as there are mounts, so the loop ends even if the parents
	 * form a cycle.
	 */
	for (size_t i = 0; i < t->n && (next = next_on_way(t, in, path)); i++)
		in = next;
	return in;
}

const struct mount *mount_at(const struct mount_table *t, const char *target)
{
	const struct mount *m = mount_containing(t, target);

	return m && str_eq(m->target, target) ? m : NULL;
}

const struct mount *mount_hidden_at(const struct mount_table *t, const char *target)
{
	if (mount_at(t, target))
		return NULL;
	for (size_t i = t->n; i > 0; i--)
		if (str_eq(t->v[i - 1].target, target))
			return &t->v[i - 1];
	return NULL;
}

const struct mount *mount_of(const struct mount_table *t, dev_t devno, const char *root,
                             const struct mount *after)
{
	for (size_t i = after ? (size_t)(after - t->v) + 1 : 0; i < t->n; i++)
		if (t->v[i].devno == devno && (!root || str_eq(t->v[i].root, root)))
			return &t->v[i];
	return NULL;
}

/*
 * Converts a path below a mount to a path within its filesystem, which is the same for every mount
 * of it.
 */
static char *path_in_filesystem(const struct mount *parent, const char *path)
{
	const char *rest = path + (str_eq(parent->target, "/") ? 0 : strlen(parent->target));

	return xasprintf("%s%s", str_eq(parent->root, "/") ? "" : parent->root, rest);
}

bool mount_same_mountpoint(const struct mount_table *t, const struct mount *a,
                           const struct mount *b)
{
	const struct mount *up_a = parent_of(t, a), *up_b = parent_of(t, b);
	char *path_a AUTO(free) = NULL, *path_b AUTO(free) = NULL;

	if (str_eq(a->target, b->target))
		return true;
	if (!up_a || !up_b || up_a->devno != up_b->devno || !is_below(a->target, up_a->target) ||
	    !is_below(b->target, up_b->target))
		return false;
	path_a = path_in_filesystem(up_a, a->target);
	path_b = path_in_filesystem(up_b, b->target);
	return str_eq(path_a, path_b);
}

/* ---- paths ---- */

int mount_resolve_path(const char *path, char **ret, struct err *err)
{
	char *copy_of AUTO(free) = xstrdup(path);
	size_t n = strlen(copy_of);
	char *slash, *dir AUTO(free) = NULL;
	const char *name;

	while (n > 1 && copy_of[n - 1] == '/')
		copy_of[--n] = '\0';
	slash = strrchr(copy_of, '/');
	name = slash ? slash + 1 : copy_of;
	if (str_empty(name) || str_eq(name, ".") || str_eq(name, ".."))
		return err_set(err, ERR_INVALID, "path %s: its last component is not a name", path);
	if (slash)
		*slash = '\0';
	dir = realpath(!slash ? "." : slash == copy_of ? "/" : copy_of, NULL);
	if (!dir && (errno == ENOENT || errno == ENOTDIR))
		return MOUNT_DIR_ABSENT;
	if (!dir)
		return err_sys(err, errno, "resolve the directory of %s", path);
	*ret = xasprintf("%s/%s", str_eq(dir, "/") ? "" : dir, name);
	return 0;
}
