/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration file of host watch: the settings of each volume, and the line of a mistake. */
#include "test/lib/suite.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "host/watch_config.h"

static int parse(const char *text, struct watch_config *ret, struct err *err)
{
	return watch_config_parse("it", text, strlen(text), ret, err);
}

static const struct {
	const char *what, *text, *error;
} wrongs[] = {
	{ "a key of the file", "defaults: {}\n", "it: line 1: \"defaults\" is not a key" },
	{ "a key of a volume", "volumes:\n  a:\n    device: true\n    fsType: xfs\n",
	  "it: line 4: \"fsType\" is not a key (expected one of mount, below, fstype, options, format, "
	  "encryption, key-file, device, ignore, read-only" },
	{ "a key of the default", "\n\ndefault: {mountpoint: /srv}\n",
	  "it: line 3: \"mountpoint\" is not a key" },
	{ "a text for a flag", "volumes:\n  a:\n    device: yes\n",
	  "it: line 3: device is \"yes\", expected true or false" },
	{ "a flag in capitals", "volumes: {a: {device: True}}\n",
	  "it: line 1: device is \"True\", expected true or false" },
	{ "a list for a flag", "volumes: {a: {device: []}}\n",
	  "it: line 1: device is not a word, expected true or false" },
	{ "a flag for a text", "volumes: {a: {mount: true}}\n", "it: line 1: mount is not a text" },
	{ "an empty text", "volumes:\n  a:\n    mount: \"\"\n", "it: line 3: mount is not a text" },
	{ "a list for a volume", "volumes:\n  a: [device]\n",
	  "it: line 2: is not a map of keys: write {device: true} for a device" },
	{ "a list of volumes", "volumes:\n- a\n", "it: line 1: volumes is not a map" },
	{ "a list", "- a\n", "it: has no keys: default and volumes" },
	{ "a name", "volumes:\n  ../a: {device: true}\n",
	  "it: line 2: \"../a\" is not a valid volume name" },
	{ "a volume twice", "volumes:\n  a: {device: true}\n  a: {ignore: true}\n",
	  "it: line 3: the key \"a\" occurs twice" },
	{ "a mount point twice", "volumes:\n  a: {mount: /srv/a}\n  b: {mount: /srv/a}\n",
	  "it: line 3: /srv/a is already the mount point of volume a (line 2)" },
	{ "a relative path", "volumes:\n  a: {mount: srv}\n", "it: line 2: mount: " },
	{ "a path upwards", "default:\n  below: /srv/../etc\n", "it: line 1: below: " },
	{ "the root", "volumes:\n  a: {mount: //}\n",
	  "it: line 2: mount: \"//\" is the root directory of the host" },
	{ "a mount point of all", "default: {mount: /srv}\n",
	  "it: line 1: the default must not have mount" },
	{ "two ways", "volumes: {a: {mount: /a, device: true}}\n",
	  "it: line 1: --device and --mount exclude each other" },
	{ "two places", "volumes: {a: {mount: /a, below: /b}}\n",
	  "it: line 1: mount and below exclude each other" },
	{ "a filesystem of a device", "volumes: {a: {fstype: xfs}}\n",
	  "it: line 1: --fstype, --options and --format need --mount" },
	{ "a policy", "volumes: {a: {mount: /a, format: always}}\n",
	  "it: line 1: --format: \"always\"" },
	{ "something beside ignore", "volumes: {a: {ignore: true, mount: /a}}\n",
	  "it: line 1: ignore excludes all other keys" },
	{ "a key beside ignore", "volumes: {a: {ignore: true, key-file: /k}}\n",
	  "it: line 1: ignore excludes all other keys" },
	{ "encryption beside ignore", "volumes: {a: {ignore: true, encryption: luks2}}\n",
	  "it: line 1: ignore excludes all other keys" },
	{ "encryption without a key", "volumes:\n  a: {mount: /a, encryption: luks2}\n",
	  "it: line 2: --encryption and --key-file need each other" },
	{ "a key without encryption", "default: {below: /a, key-file: /k}\n",
	  "it: line 1: --encryption and --key-file need each other" },
	{ "another encryption", "volumes: {a: {encryption: luks1, key-file: /k}}\n",
	  "it: line 1: --encryption: \"luks1\" is not luks2" },
	{ "an encrypted device that is formatted",
	  "default: {encryption: luks2, key-file: /k, format: blank}\n",
	  "it: line 1: an encrypted device is not formatted, because the watch of another host" },
	{ "a relative key file", "volumes: {a: {encryption: luks2, key-file: k}}\n",
	  "it: line 1: key-file: \"k\" is not an absolute path" },
	{ "no YAML", "volumes: [\n", "it: line 2: " },
	{ "a second document", "default: {ignore: true}\n---\ndefault: {}\n",
	  "it: has several documents" },
	{ "nothing", "# nothing\n", "it: is empty" },
};

START_TEST(what_is_wrong_is_refused_with_its_line)
{
	struct watch_config c AUTO(watch_config_clear) = WATCH_CONFIG_INIT;
	struct err err = ERR_INIT;

	ck_assert_msg(parse(wrongs[_i].text, &c, &err) == -1, "%s", wrongs[_i].what);
	ck_assert_msg(strncmp(err.msg, wrongs[_i].error, strlen(wrongs[_i].error)) == 0,
	              "%s: \"%s\"", wrongs[_i].what, err.msg);
	ck_assert_int_eq(err.code, ERR_INVALID);
	ck_assert_uint_eq(c.n, 0);
}
END_TEST

static const char good[] = "default:\n"
			   "  below: /srv/volumes\n"
			   "  format: blank\n"
			   "volumes:\n"
			   "  data-1:\n"
			   "    mount: /srv/data\n"
			   "    fstype: xfs\n"
			   "    options: noatime,nodev\n"
			   "    read-only: true\n"
			   "  secret: {mount: /srv/s, encryption: luks2, key-file: /etc/s.key}\n"
			   "  raw: {encryption: luks2, key-file: /etc/r.key}\n"
			   "  \"1\": {device: true}\n"
			   "  other.x: {ignore: true}\n";

/* "mount|fstype|options|format|encryption|key-file|read-only|device", or "ignored". */
static char *way(const struct watch_config *c, const char *volume)
{
	const struct host_args base = { .state_dir = "/state", .node = "n", .command = HOST_WATCH };
	struct host_args a;
	char *mount AUTO(free) = NULL;

	if (watch_config_way(c, volume, &base, &a, &mount))
		return xstrdup("ignored");
	ck_assert_int_eq(a.command, HOST_ATTACH);
	ck_assert_str_eq(a.state_dir, "/state");
	return xasprintf("%s|%s|%s|%s|%s|%s|%d|%d", a.mount, a.fs_type, a.options, a.format,
	                 a.encryption, a.key_file, a.read_only, a.device);
}

static const struct {
	const char *volume, *want;
} ways[] = {
	{ "data-1", "/srv/data|xfs|noatime,nodev||||1|0" },
	{ "secret", "/srv/s||||luks2|/etc/s.key|0|0" },
	{ "raw", "||||luks2|/etc/r.key|0|1" },
	{ "1", "||||||0|1" },
	{ "other.x", "ignored" },
	{ "any", "/srv/volumes/any|||blank|||0|0" },
};

START_TEST(each_volume_has_its_way)
{
	struct watch_config c AUTO(watch_config_clear) = WATCH_CONFIG_INIT;
	struct err err = ERR_INIT;
	char *got AUTO(free) = NULL;

	ck_assert_msg(parse(good, &c, &err) == 0, "%s", err.msg);
	got = way(&c, ways[_i].volume);
	ck_assert_str_eq(got, ways[_i].want);
}
END_TEST

START_TEST(without_a_default_a_volume_is_a_device)
{
	struct watch_config c AUTO(watch_config_clear) = WATCH_CONFIG_INIT;
	struct err err = ERR_INIT;
	char *none AUTO(free) = way(&c, "any"), *got AUTO(free) = NULL;

	ck_assert_msg(!parse("volumes:\n", &c, &err), "%s", err.msg);
	watch_config_clear(&c);
	ck_assert_msg(!parse("volumes: {}\n", &c, &err), "%s", err.msg);
	watch_config_clear(&c);
	ck_assert_str_eq(none, "||||||0|1");
	ck_assert_int_eq(parse("volumes: {a: {ignore: true}}\n", &c, &err), 0);
	got = way(&c, "any");
	ck_assert_str_eq(got, "||||||0|1");
}
END_TEST

START_TEST(a_file_that_was_asked_for_has_to_be_there)
{
	struct watch_config c AUTO(watch_config_clear) = WATCH_CONFIG_INIT;
	struct err err = ERR_INIT;

	ck_assert_int_eq(watch_config_read("/nowhere/host.yaml", &c, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.msg, "/nowhere/host.yaml"));
}
END_TEST

SUITE("watch config", LOOP(what_is_wrong_is_refused_with_its_line, ARRAY_LEN(wrongs)),
      LOOP(each_volume_has_its_way, ARRAY_LEN(ways)), without_a_default_a_volume_is_a_device,
      a_file_that_was_asked_for_has_to_be_there);
