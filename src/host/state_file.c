/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes and reads the state files. The name of a volume is a Kubernetes object name
 * (attachment_file.h), so it is a valid file name.
 *
 * A mount path may consist of any bytes, but JSON is UTF-8. So a string that is not UTF-8 is
 * written as the hex digits of its bytes, under its key with the suffix BYTES.
 */
#include "host/state_file.h"

#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "common/mem.h"

#define STATE_FILE_MAX 65536
#define SUFFIX ".json"
#define BYTES ".bytes"

static char *host_state_dir(const char *state_dir)
{
	return xasprintf("%s/volumes", state_dir);
}

static char *host_state_path(const char *state_dir, const char *volume)
{
	return xasprintf("%s/volumes/%s%s", state_dir, volume, SUFFIX);
}

void host_state_clear(struct host_state *a)
{
	json_free(a->tree);
	*a = (struct host_state) { .tree = NULL };
}

#define AT(member) offsetof(struct host_state, member)
static const struct {
	const char *name;
	size_t at;
} texts[] = {
	{ "volume", AT(volume) },   { "attachment", AT(attachment) },
	{ "uid", AT(uid) },         { "node", AT(node) },
	{ "pci", AT(pci) },         { "device", AT(device) },
	{ "uuid", AT(uuid) },       { "tag", AT(tag) },
	{ "mount", AT(mount) },     { "fsType", AT(fs_type) },
	{ "options", AT(options) }, { "published", AT(published) },
	{ "watched", AT(watched) },
};

/* ---- strings that are not UTF-8 ---- */

static void host_state_set_text(struct json *tree, const char *name, const char *text)
{
	size_t n = strlen(text);
	struct str hex AUTO(str_clear) = STR_INIT(2 * n);
	char *member AUTO(free) = NULL;

	if (utf8_valid(text, n)) {
		json_set_str(tree, name, text);
		return;
	}
	for (size_t i = 0; i < n; i++)
		str_addf(&hex, "%02x", (unsigned char)text[i]);
	member = xasprintf("%s" BYTES, name);
	json_set_str(tree, member, hex.ptr);
}

/*
 * Decodes a string of two hex digits for each byte; no byte may be 0. Returns NULL if it is
 * malformed.
 */
static char *host_state_unhex(const char *hex)
{
	static const char digits[] = "0123456789abcdef";
	size_t n = strlen(hex);
	char *text AUTO(free) = xcalloc(n / 2 + 1, 1);

	if (n % 2 || strspn(hex, digits) != n)
		return NULL;
	for (size_t i = 0; i < n / 2; i++) {
		text[i] = (char)((strchr(digits, hex[2 * i]) - digits) * 16 +
		                 (strchr(digits, hex[2 * i + 1]) - digits));
		if (!text[i])
			return NULL;
	}
	return TAKE(text);
}

static const char *host_state_text(struct json *tree, const char *name, struct err *err)
{
	char *member AUTO(free) = xasprintf("%s" BYTES, name), *text AUTO(free) = NULL;
	const char *hex = json_text(json_member(tree, member));

	if (hex) {
		text = host_state_unhex(hex);
		if (!text) {
			err_set(err, ERR_INVALID, "%s is not an encoded text", member);
			return NULL;
		}
		json_set_str(tree, name, text);
	}
	return json_str(tree, name) ? json_str(tree, name) : "";
}

static int host_state_decode(struct json *tree, struct host_state *ret, struct err *err)
{
	struct host_state a = { .tree = tree };

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		const char *text = host_state_text(tree, texts[i].name, err);

		if (!text)
			return -1;
		*(const char **)((char *)&a + texts[i].at) = text;
	}
	if (json_get_i64(tree, "nsid", &a.nsid, err) < 0 ||
	    json_get_i64(tree, "since", &a.since, err) < 0 ||
	    json_get_bool(tree, "readOnly", &a.read_only, err) < 0 ||
	    json_get_bool(tree, "keyValue", &a.key_value, err) < 0)
		return -1;
	if (str_eq(json_str(tree, "kind"), emulation_name(EMULATION_VIRTIOFS)))
		a.kind = EMULATION_VIRTIOFS;
	*ret = a;
	return 0;
}

int host_state_read(const char *state_dir, const char *boot, const char *volume,
                    struct host_state *ret, struct err *err)
{
	char *path AUTO(free) = host_state_path(state_dir, volume);
	char *text AUTO(free) = NULL;
	struct json *tree AUTO(json_free) = NULL;
	size_t n;

	if (!path_exists(path))
		return HOST_STATE_NONE;
	/* Strings such as paths must be unchanged, so a file with an invalid string is rejected. */
	if (file_read(path, STATE_FILE_MAX, &text, &n, err) ||
	    (!utf8_valid(text, n) && err_set(err, ERR_INVALID, "%s: is damaged", path)) ||
	    json_parse(path, text, n, &tree, err) || host_state_decode(tree, ret, err)) {
		err_wrap(err, "the record of volume %s", volume);
		return err_recode(err, ERR_UNAVAILABLE);
	}
	if (!str_eq(json_str(tree, "boot"), boot) || !str_eq(ret->volume, volume)) {
		*ret = (struct host_state) { .tree = NULL };
		return HOST_STATE_NONE;
	}
	ret->tree = TAKE(tree);
	return 0;
}

int host_state_write(const char *state_dir, const char *boot, const struct host_state *a,
                     struct err *err)
{
	char *dir AUTO(free) = host_state_dir(state_dir),
		  *path AUTO(free) = host_state_path(state_dir, a->volume);
	struct json *tree AUTO(json_free) = json_object();
	char *text AUTO(free) = NULL;

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		const char *value = *(const char *const *)((const char *)a + texts[i].at);

		host_state_set_text(tree, texts[i].name, value ? value : "");
	}
	json_set_str(tree, "kind", emulation_name(a->kind));
	json_set_str(tree, "boot", boot);
	json_set_int(tree, "nsid", a->nsid);
	json_set_int(tree, "since", a->since);
	json_set_bool(tree, "readOnly", a->read_only);
	json_set_bool(tree, "keyValue", a->key_value);
	text = json_print_pretty(tree);
	if (dir_make(dir, 0755, err) || file_replace(path, text, strlen(text), 0600, err))
		return err_wrap(err, "record that volume %s is attached", a->volume);
	return 0;
}

int host_state_remove(const char *state_dir, const char *volume, struct err *err)
{
	char *path AUTO(free) = host_state_path(state_dir, volume);

	return file_remove(path, err);
}

int host_state_list(const char *state_dir, struct strs *ret, struct err *err)
{
	char *dir AUTO(free) = host_state_dir(state_dir);
	struct strs all AUTO(strs_clear) = STRS_INIT;

	if (!path_exists(dir))
		return 0;
	if (dir_list(dir, &all, err))
		return -1;
	for (size_t i = 0; i < all.n; i++)
		if (str_has_suffix(all.v[i], SUFFIX))
			strs_addf(ret, "%.*s", (int)(strlen(all.v[i]) - strlen(SUFFIX)), all.v[i]);
	return 0;
}
