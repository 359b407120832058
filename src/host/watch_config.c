/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the file by a table of the keys of an entry. Rejects only values that are wrong for any
 * volume; attach checks later whether a path, a filesystem or an option is valid for its volume.
 */
#include "host/watch_config.h"

#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "common/json.h"
#include "common/mem.h"
#include "kube/kube_yaml.h"
#include "node/options.h"
#include "node/target/paths.h"

#define CONFIG_MAX_BYTES (1024 * 1024)

/* The settings for one volume, or for all volumes without an entry. */
struct watch_way {
	const char *volume; /* "": the default entry */
	const char *mount, *below, *fs_type, *options, *format;
	const char *encryption, *key_file;
	bool device, read_only, ignore;
	int64_t line;
};

#define AT(member) offsetof(struct watch_way, member)
static const struct {
	const char *key;
	bool is_flag;
	size_t at;
} keys[] = {
	{ "mount", false, AT(mount) },       { "below", false, AT(below) },
	{ "fstype", false, AT(fs_type) },    { "options", false, AT(options) },
	{ "format", false, AT(format) },     { "encryption", false, AT(encryption) },
	{ "key-file", false, AT(key_file) }, { "device", true, AT(device) },
	{ "ignore", true, AT(ignore) },      { "read-only", true, AT(read_only) },
};

static const struct watch_way as_device = {
	.volume = "",
	.mount = "",
	.below = "",
	.fs_type = "",
	.options = "",
	.format = "",
	.encryption = "",
	.key_file = "",
	.device = true,
};

static int64_t config_line(const struct json *lines, const char *key)
{
	struct err ignored = ERR_INIT;
	int64_t line = 0;
	const struct json *value = json_member(json_member(lines, key), "");

	IGNORE_RESULT(json_get_i64(value, "", &line, &ignored));
	return line;
}

static int refuse_line(const char *what, int64_t line, struct err *err)
{
	err_wrap(err, "%s: line %lld", what, (long long)line);
	return err_recode(err, ERR_INVALID);
}

/* ---- an entry ---- */

static int refuse_key(const char *key, struct err *err)
{
	struct str known AUTO(str_clear) = STR_INIT(200);

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		str_addf(&known, "%s%s", i ? ", " : "", keys[i].key);
	return err_set(err, ERR_INVALID, "\"%s\" is not a key (expected one of %s)", key,
	               known.ptr);
}

static int config_set(struct watch_way *w, const struct json *value, struct err *err)
{
	const char *key = json_name(value), *text = json_text(value);
	struct err ignored = ERR_INIT;

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		if (!str_eq(keys[i].key, key))
			continue;
		if (!keys[i].is_flag) {
			if (str_empty(text))
				return err_set(err, ERR_INVALID, "%s is not a text", key);
			*(const char **)((char *)w + keys[i].at) = text;
			return 0;
		}
		if (!json_get_bool(value, "", (bool *)((char *)w + keys[i].at), &ignored))
			return 0;
		return err_set(err, ERR_INVALID, "%s is %s%s%s, expected true or false", key,
		               text ? "\"" : "", text ? text : "not a word", text ? "\"" : "");
	}
	return refuse_key(key, err);
}

static int config_check_path(const char *key, const char *path, struct err *err)
{
	struct strs everywhere AUTO(strs_clear) = STRS_INIT;
	struct node_options o = { .kubelet_dir = "/", .volume_dirs = &everywhere };

	if (!*path)
		return 0;
	if (!path[strspn(path, "/")])
		return err_set(err, ERR_INVALID, "%s: \"%s\" is the root directory of the host",
		               key, path);
	return paths_check_point(&o, path, err) ? err_wrap(err, "%s", key) : 0;
}

/* Checks an entry by the rules of the command line, whose options have the names of the keys. */
static int config_check_way(const struct watch_way *w, struct err *err)
{
	struct host_args a = {
		.mount = *w->below ? w->below : w->mount,
		.fs_type = w->fs_type,
		.options = w->options,
		.format = w->format,
		.encryption = w->encryption,
		.key_file = w->key_file,
		.device = w->device,
		.read_only = w->read_only,
	};

	if (w->ignore && (w->device || w->read_only || *w->mount || *w->below || *w->fs_type ||
	                  *w->options || *w->format || *w->encryption || *w->key_file))
		return err_set(err, ERR_INVALID, "ignore excludes all other keys");
	if (*w->mount && !*w->volume)
		return err_set(err, ERR_INVALID,
		               "the default must not have mount, which would mount all volumes "
		               "at one directory; below uses a directory for each");
	if (*w->mount && *w->below)
		return err_set(err, ERR_INVALID, "mount and below exclude each other");
	if (*w->encryption && *w->format && !*w->mount && !*w->below)
		return err_set(err, ERR_INVALID,
		               "an encrypted device is not formatted, because the watch of another "
		               "host could format it at the same time; format it once with \"host "
		               "attach --format\" while no other host has it");
	if (*w->key_file && *w->key_file != '/')
		return err_set(err, ERR_INVALID, "key-file: \"%s\" is not an absolute path",
		               w->key_file);
	if (config_check_path("mount", w->mount, err) || config_check_path("below", w->below, err))
		return -1;
	return host_args_check_way(&a, err);
}

static int config_read_way(const char *what, const struct json *entry, const struct json *lines,
                           const char *volume, int64_t line, struct watch_way *ret, struct err *err)
{
	struct watch_way w = as_device;

	w.volume = volume;
	w.line = line;
	w.device = false;
	if (!json_is_object(entry)) {
		err_set(err, ERR_INVALID,
		        "is not a map of keys: write {device: true} for a "
		        "device");
		return refuse_line(what, line, err);
	}
	json_foreach (value, entry)
		if (config_set(&w, value, err))
			return refuse_line(what, config_line(lines, json_name(value)), err);
	if (config_check_way(&w, err))
		return refuse_line(what, line, err);
	*ret = w;
	return 0;
}

/* ---- the file ---- */

static int config_check_volume(const struct watch_config *c, const struct watch_way *w,
                               struct err *err)
{
	if (!dns1123_subdomain(w->volume))
		return err_set(err, ERR_INVALID, "\"%s\" is not a valid volume name", w->volume);
	for (size_t i = 0; i < c->n; i++)
		if (*w->mount && str_eq(c->volumes[i].mount, w->mount))
			return err_set(err, ERR_INVALID,
			               "%s is already the mount point of volume %s (line %lld)",
			               w->mount, c->volumes[i].volume,
			               (long long)c->volumes[i].line);
	return 0;
}

static int config_read_volumes(const char *what, const struct json *volumes,
                               const struct json *lines, struct watch_config *c, struct err *err)
{
	c->volumes = xcalloc(json_count(volumes) + 1, sizeof(*c->volumes));
	json_foreach (entry, volumes) {
		const char *volume = json_name(entry);
		int64_t line = config_line(lines, volume);
		struct watch_way *w = &c->volumes[c->n];

		if (config_read_way(what, entry, json_member(lines, volume), volume, line, w, err))
			return -1;
		if (config_check_volume(c, w, err))
			return refuse_line(what, line, err);
		c->n++;
	}
	return 0;
}

static int config_read_default(const char *what, const struct json *entry, const struct json *lines,
                               struct watch_config *c, struct err *err)
{
	c->otherwise = xcalloc(1, sizeof(*c->otherwise));
	return config_read_way(what, entry, json_member(lines, "default"), "",
	                       config_line(lines, "default"), c->otherwise, err);
}

static int config_read_tree(const char *what, const struct json *lines, struct watch_config *c,
                            struct err *err)
{
	if (!json_is_object(c->tree))
		return err_set(err, ERR_INVALID, "%s: has no keys: default and volumes", what);
	json_foreach (entry, c->tree) {
		const char *key = json_name(entry);
		int rc = 0;

		if (str_eq(key, "default"))
			rc = config_read_default(what, entry, lines, c, err);
		else if (str_eq(key, "volumes") && json_is_object(entry))
			rc = config_read_volumes(what, entry, json_member(lines, key), c, err);
		else if (str_eq(key, "volumes") && !json_is_null(entry))
			rc = err_set(err, ERR_INVALID, "%s: line %lld: volumes is not a map", what,
			             (long long)config_line(lines, key));
		else if (!str_eq(key, "volumes"))
			rc = err_set(err, ERR_INVALID,
			             "%s: line %lld: \"%s\" is not a key (expected default or "
			             "volumes)",
			             what, (long long)config_line(lines, key), key);
		if (rc)
			return -1;
	}
	return 0;
}

int watch_config_parse(const char *what, const char *text, size_t n, struct watch_config *ret,
                       struct err *err)
{
	struct watch_config c AUTO(watch_config_clear) = WATCH_CONFIG_INIT;
	struct json *lines AUTO(json_free) = NULL;

	if (kube_yaml_parse_lined(what, text, n, &c.tree, &lines, err) ||
	    config_read_tree(what, lines, &c, err))
		return -1;
	*ret = c;
	c = (struct watch_config)WATCH_CONFIG_INIT;
	return 0;
}

int watch_config_read(const char *path, struct watch_config *ret, struct err *err)
{
	const char *file = *path ? path : WATCH_CONFIG_FILE;
	char *text AUTO(free) = NULL;
	size_t n;

	if (!*path && !path_exists(file))
		return 0;
	if (file_read(file, CONFIG_MAX_BYTES, &text, &n, err))
		return -1;
	return watch_config_parse(file, text, n, ret, err);
}

void watch_config_clear(struct watch_config *c)
{
	json_free(c->tree);
	free(c->volumes);
	free(c->otherwise);
	*c = (struct watch_config)WATCH_CONFIG_INIT;
}

int watch_config_way(const struct watch_config *c, const char *volume, const struct host_args *base,
                     struct host_args *ret, char **ret_mount)
{
	const struct watch_way *w = c->otherwise ? c->otherwise : &as_device;

	for (size_t i = 0; i < c->n; i++)
		if (str_eq(c->volumes[i].volume, volume))
			w = &c->volumes[i];
	if (w->ignore)
		return WATCH_IGNORED;
	*ret_mount = *w->below ? xasprintf("%s/%s", w->below, volume) : xstrdup(w->mount);
	*ret = *base;
	ret->command = HOST_ATTACH;
	ret->mount = *ret_mount;
	ret->fs_type = w->fs_type;
	ret->options = w->options;
	ret->format = w->format;
	ret->encryption = w->encryption;
	ret->key_file = w->key_file;
	ret->read_only = w->read_only;
	ret->device = !**ret_mount;
	return 0;
}
