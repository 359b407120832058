/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stages of encrypted volumes that are refused: code and text, and a disk that has the same bytes as
 * before. Headers are written by libcryptsetup; device-mapper is not needed, because no container is
 * opened. The program also serves as the command "luks", which the driver runs by /proc/self/exe.
 */
#include "test/lib/suite.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"
#include "common/mem.h"
#include "common/metric.h"
#include "common/secret.h"
#include "luks/luks.h"
#include "node/disk/crypt.h"
#include "node/work/disk_record.h"
#include "test/lib/node_world.h"
#include "test/lib/skip.h"

#define UUID "11111111-aaaa-4bbb-8ccc-000000000001"
#define PASSPHRASE "correct horse"

static struct node_world w;
static struct nvme_disk *disk;

__attribute__((constructor)) static void serve_as_luks(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "luks") == 0)
		_exit(luks_main(argc - 1, argv + 1));
}

static struct passphrases *passphrase(void)
{
	struct passphrases *p = passphrases_new();

	p->current.n = strlen(PASSPHRASE);
	memcpy(p->current.text, PASSPHRASE, p->current.n);
	return p;
}

static const struct volume_params encrypted = { .encryption = ENCRYPTION_LUKS2, .kdf = KDF_PBKDF2 };

/* ---- the disk before the stage ---- */

static void has_header_of(const char *volume_id)
{
	struct passphrases *keys AUTO(passphrases_free) = passphrase();
	int fd AUTO(fd) = open(disk->loop, O_RDWR | O_CLOEXEC);
	struct device dev = { .size = disk->size };
	const struct crypt_request r = {
		.node = &w.node,
		.volume_id = volume_id,
		.disk = &dev,
		.fd = fd,
		.params = &encrypted,
		.keys = keys,
	};
	struct err err = ERR_INIT;

	ck_assert_int_ge(fd, 0);
	snprintf(dev.path, sizeof(dev.path), "%s", disk->loop);
	ck_assert_msg(crypt_format(&r, &err) == 0, "%s", err.msg);
}

static void plain_data(void)
{
	run_tool("mkfs.ext4 -q %s", disk->loop);
}

static void own_header(void)
{
	has_header_of(VOLUME_ID);
}

static void header_of_another_volume(void)
{
	has_header_of("pvc-2");
}

/* The texts of both copies of the header. */
static void damaged_header(void)
{
	static const char zeros[64];

	own_header();
	nvme_disk_write(disk, 4096, zeros, sizeof(zeros));
	nvme_disk_write(disk, 16384 + 4096, zeros, sizeof(zeros));
}

/*
 * The volume's header, with the cipher of the data or of the key slot replaced, which needs no
 * passphrase. The checksums of the headers are correct.
 */
static void edited_header(const char *edit, const char *value)
{
	own_header();
	run_tool("python3 test/unit/node/disk/edit_header.py %s %s %s", disk->loop, edit, value);
}

static void plain_cipher(void)
{
	edited_header("segments", "cipher_null-ecb");
}

static void plain_key_slot(void)
{
	edited_header("keyslots", "cipher_null-ecb");
}

static void much_memory(void)
{
	edited_header("memory", "4194304");
}

/* As an interrupted format leaves it. */
static void no_key_slot(void)
{
	edited_header("remove", "keyslots");
}

/* ---- refusals ---- */

static const struct {
	void (*prepare)(void);
	const char *fs_type; /* NULL: raw block */
	bool encrypted;      /* by the class */
	const char *reason;  /* of the metric */
	const char *texts[2];
} refusals[] = {
	{ plain_data,
	  "ext4",
	  true,
	  "not encrypted",
	  { "contains ext4", ", but the volume is to be encrypted "
	                     "(csi.snap.nvidia.com/encryption: luks2)" } },
	{ plain_data,
	  NULL,
	  true,
	  "not encrypted",
	  { "contains ext4", "it is neither mounted nor formatted" } },
	{ header_of_another_volume,
	  "ext4",
	  true,
	  "other encryption",
	  { "its LUKS2 header is not of this volume (label \"pvc-2\"", "expected \"pvc-1\"" } },
	{ damaged_header,
	  "ext4",
	  true,
	  "incomplete encryption",
	  { "its LUKS2 header is damaged", "it is not formatted" } },
	{ no_key_slot,
	  "ext4",
	  true,
	  "incomplete encryption",
	  { "its LUKS2 header has no passphrase", "it is not formatted" } },
	{ plain_cipher,
	  "ext4",
	  true,
	  "other encryption",
	  { "its LUKS2 header has another encryption (the cipher cipher_null-ecb, expected "
	    "aes-xts-plain64)",
	    "it is neither opened nor formatted" } },
	{ plain_key_slot,
	  NULL,
	  true,
	  "other encryption",
	  { "has another encryption (a key slot with cipher_null-ecb, expected",
	    "luksHeaderRestore" } },
	{ much_memory,
	  "ext4",
	  true,
	  "other encryption",
	  { "has another encryption (a key slot whose derivation needs 4096 MiB of memory, expected "
	    "at most 256)",
	    "it is neither opened nor formatted" } },
	{ own_header,
	  "ext4",
	  false,
	  "foreign signature",
	  { "contains crypto_LUKS", "needs csi.snap.nvidia.com/encryption: luks2" } },
	{ header_of_another_volume,
	  NULL,
	  false,
	  "foreign signature",
	  { "contains an encrypted volume of this driver", "handed out without decryption" } },
};

static void begin(void)
{
	node_world_init(&w);
	disk = nvme_world_add(&w.nvme, 1, UUID, 64 * MIB);
}

static void end(void)
{
	node_world_clear(&w);
}

static int stage(const char *fs_type, const struct passphrases *keys, struct err *err)
{
	struct stage_request r = stage_request(&w, disk, fs_type, MODE_SINGLE_NODE_WRITER);

	if (keys)
		r.params = encrypted;
	r.keys = keys;
	return node_stage(&w.node, &r, soon(), err);
}

START_TEST(a_disk_that_is_not_the_volumes_container_is_refused_and_not_changed)
{
	struct passphrases *keys AUTO(passphrases_free) = NULL;
	char *record AUTO(free) = NULL;
	struct err err = ERR_INIT;
	int64_t before;

	SKIP_UNLESS_LOOP();
	begin();
	before = metric_value(METRIC_REFUSALS, LABELS(refusals[_i].reason));
	record = disk_record_path(&w.node, VOLUME_ID, DISK_RECORD_MKFS);
	refusals[_i].prepare();
	run_tool("sha256sum %s > %s/sum", disk->loop, w.nvme.root);
	if (refusals[_i].encrypted)
		keys = passphrase();
	ck_assert_int_eq(stage(refusals[_i].fs_type, keys, &err), -1);
	for (size_t i = 0; i < ARRAY_LEN(refusals[_i].texts); i++)
		ck_assert_msg(err.code == ERR_PRECONDITION &&
		                      strstr(err.msg, refusals[_i].texts[i]),
		              "%s: %s", err_code_name(err.code), err.msg);
	ck_assert_int_eq(metric_value(METRIC_REFUSALS, LABELS(refusals[_i].reason)), before + 1);
	run_tool("sha256sum --status -c %s/sum", w.nvme.root);
	ck_assert_uint_eq(mounts_below(w.nvme.root), 0);
	ck_assert(!path_exists(record));
	end();
}
END_TEST

SUITE("crypt_refusals", LOOP(a_disk_that_is_not_the_volumes_container_is_refused_and_not_changed,
                             ARRAY_LEN(refusals)));
