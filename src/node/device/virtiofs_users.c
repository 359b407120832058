/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel has no list of the mounts of all namespaces, or of mounts that were detached while
 * their files are open. But each live filesystem holds a reference to the kernel module virtiofs.
 * So if the module has exactly as many references as there are visible virtio-fs filesystems, there
 * are no others. If the driver is built into the kernel, other mounts cannot be ruled out.
 */
#include "node/device/virtiofs_users.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/limits.h"
#include "common/mem.h"
#include "node/device/sysfs.h"

/* ---- mountinfo ---- */

/* Cuts off the next field; returns "" at the end of the line. */
static char *next_field(char **rest)
{
	char *field = *rest;
	char *end = field + strcspn(field, " ");

	*rest = *end ? end + 1 : end;
	*end = '\0';
	return field;
}

static bool is_octal(const char *p)
{
	return p[0] >= '0' && p[0] <= '3' && p[1] >= '0' && p[1] <= '7' && p[2] >= '0' &&
	       p[2] <= '7';
}

/* Decodes octal escapes in place: "a\040b" becomes "a b". */
static void unescape(char *text)
{
	char *to = text;

	for (const char *p = text; *p; p++) {
		if (*p == '\\' && is_octal(p + 1)) {
			*to++ = (char)((p[1] - '0') * 64 + (p[2] - '0') * 8 + (p[3] - '0'));
			p += 3;
		} else {
			*to++ = *p;
		}
	}
	*to = '\0';
}

/* Results from the mounts of one or more namespaces. */
struct seen {
	/* device numbers of the filesystems that the kernel's virtio-fs has mounted */
	struct strs filesystems;
	const char *tag;
	char *mounted_at; /* a mount point of the tag, or NULL */
};

static void seen_clear_p(struct seen *s)
{
	strs_clear(&s->filesystems);
	free(s->mounted_at);
}

/*
 * Returns true for virtio-fs filesystem types, including that of a userspace client
 * ("fuse.virtiofs").
 */
static bool is_virtiofs(const char *fs_type)
{
	return str_eq(fs_type, "virtiofs") || str_eq(fs_type, "fuse.virtiofs");
}

/* Parses a line "id parent major:minor root target options [tags] - type source options". */
static void parse_mount(char *line, struct seen *s)
{
	char *separator = strstr(line, " - ");
	char *rest = line, *behind, *devno, *target, *fs_type, *source;

	if (!separator)
		return;
	*separator = '\0';
	behind = separator + 3;
	fs_type = next_field(&behind);
	source = next_field(&behind);
	if (!is_virtiofs(fs_type))
		return;
	(void)next_field(&rest);
	(void)next_field(&rest);
	devno = next_field(&rest);
	(void)next_field(&rest);
	target = next_field(&rest);
	unescape(source);
	if (str_eq(fs_type, "virtiofs") && !strs_has(&s->filesystems, devno))
		strs_add(&s->filesystems, devno);
	if (!s->mounted_at && (!*s->tag || str_eq(source, s->tag)))
		s->mounted_at = xstrdup(target);
}

static int read_mounts(const struct device_world *w, const char *process, struct seen *s,
                       struct err *err)
{
	char *path AUTO(free) = xasprintf("%s/%s/mountinfo", w->proc ? w->proc : "/proc", process);
	char *text AUTO(free) = NULL;

	if (file_read(path, LIMIT_MOUNTINFO, &text, NULL, err))
		return -1;
	for (char *line = text; *line;) {
		char *end = strchrnul(line, '\n');
		bool last = !*end;

		*end = '\0';
		parse_mount(line, s);
		line = last ? end : end + 1;
	}
	return 0;
}

/* ---- the module ---- */

static int refuse_uncertain_tag(const char *why, struct err *err)
{
	return err_set(err, ERR_PRECONDITION, "could not verify that its tag is not mounted: %s",
	               why);
}

int virtiofs_unused(const struct device_world *w, const char *tag, struct err *err)
{
	char *dir AUTO(free) = xasprintf("%s/module/virtiofs", w->sysfs);
	struct seen s AUTO(seen_clear) = { .filesystems = STRS_INIT, .tag = tag };
	struct err unread = ERR_INIT, ignored = ERR_INIT;
	char *why AUTO(free) = NULL;
	uint64_t references;
	int rc = sysfs_attr_u64(dir, "refcnt", &references, &unread);

	if (read_mounts(w, "self", &s, err))
		return refuse_uncertain_tag(err->msg, err);
	/*
	 * Reads the host's mounts, in case the driver runs in a container. If they are unreadable,
	 * fewer mounts are visible.
	 */
	IGNORE_RESULT(read_mounts(w, "1", &s, &ignored));
	if (s.mounted_at && *tag)
		return err_set(err, ERR_PRECONDITION, "its tag \"%s\" is mounted at %s", tag,
		               s.mounted_at);
	if (s.mounted_at)
		why = xasprintf("it is unknown, and a tag is mounted at %s", s.mounted_at);
	else if (rc)
		why = xasprintf("%s/refcnt is not a number of filesystems", dir);
	else if (references != s.filesystems.n)
		why = xasprintf("%s/refcnt is %" PRIu64 ", but %zu filesystems are visible", dir,
		                references, s.filesystems.n);
	return why ? refuse_uncertain_tag(why, err) : 0;
}
