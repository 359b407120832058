/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements the command. Single-threaded; the process ends after one operation, so nothing is kept
 * or shared.
 *
 * The header is written by one call with the UUID, the label and the subsystem of the volume, so a
 * header without them was not written by this driver. The key derivation has fixed costs instead of
 * a benchmark: Argon2id with 64 MiB and four lanes is the second recommended option of RFC 9106, with
 * one pass more, because libcryptsetup refuses fewer than four. It fits into the memory limit of the
 * container. libcryptsetup uses no more lanes than the node has processors. Device nodes come from
 * devtmpfs: libdevmapper must not wait for udev, whose semaphores are in another IPC namespace.
 */
#include "luks/luks.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <libcryptsetup.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/secret.h"
#include "common/spawn.h"
#include "common/str.h"
#include "volume/luks_name.h"

#define LIBRARY "libcryptsetup.so.12"
#define CIPHER "aes"
#define CIPHER_MODE "xts-plain64"
#define KEY_BYTES 64 /* of aes-xts: twice 256 bits */
#define SECTOR 4096
#define HEADER_COPY (16 * 1024)        /* bytes of each of the two copies */
#define DERIVATION_MAX_KB (256 * 1024) /* of a slot that this driver opens; it writes 64 MiB */

/* ---- the library ---- */

#define FUNCTIONS(X)                 \
	X(activate_by_passphrase)    \
	X(format)                    \
	X(free)                      \
	X(get_cipher)                \
	X(get_cipher_mode)           \
	X(get_label)                 \
	X(get_subsystem)             \
	X(get_uuid)                  \
	X(get_volume_key_size)       \
	X(init)                      \
	X(keyslot_add_by_passphrase) \
	X(keyslot_add_by_volume_key) \
	X(keyslot_destroy)           \
	X(keyslot_get_encryption)    \
	X(keyslot_get_pbkdf)         \
	X(keyslot_max)               \
	X(keyslot_status)            \
	X(load)                      \
	X(metadata_locking)          \
	X(persistent_flags_get)      \
	X(resize)                    \
	X(set_log_callback)          \
	X(set_pbkdf_type)            \
	X(set_rng_type)

static struct {
#define X(name) __typeof__(&crypt_##name) name;
	FUNCTIONS(X)
#undef X
} cs;

static bool load_library(void)
{
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return false;
	}
#define X(name)                                                       \
	*(void **)&cs.name = dlsym(library, "crypt_" #name);          \
	if (!cs.name) {                                               \
		fprintf(stderr, LIBRARY " has no crypt_" #name "\n"); \
		return false;                                         \
	}
	FUNCTIONS(X)
#undef X
	return true;
}

/* ---- one operation ---- */

struct luks {
	struct luks_name name;
	struct passphrases *keys;
	struct crypt_device *cd;
	bool pbkdf2, read_only, allow_discards, shared;
	bool explained; /* the library has printed the reason of an error */
	unsigned sector;
};

static void log_error(int level, const char *text, void *arg)
{
	struct luks *l = arg;

	if (level != CRYPT_LOG_ERROR)
		return;
	fputs(text, stderr);
	l->explained = true;
}

/* Maps an errno of the library to a status; without a message of the library, prints its text. */
static int luks_failed(const struct luks *l, const char *what, int rc)
{
	const bool unsupported = rc == -ENOTSUP || rc == -ENODEV || rc == -ENOTBLK;

	if (!l->explained)
		fprintf(stderr, "%s: %s\n", what, strerrordesc_np(-rc));
	return unsupported && access("/sys/module/dm_crypt", F_OK) ? LUKS_NO_DM_CRYPT : LUKS_FAILED;
}

static struct crypt_pbkdf_type derivation(const struct luks *l)
{
	if (l->pbkdf2)
		return (struct crypt_pbkdf_type) {
			.type = CRYPT_KDF_PBKDF2,
			.hash = "sha256",
			.iterations = 1000, /* the least that LUKS2 permits */
			.flags = CRYPT_PBKDF_NO_BENCHMARK,
		};
	return (struct crypt_pbkdf_type) {
		.type = CRYPT_KDF_ARGON2ID,
		.hash = "sha256",
		.iterations = 4, /* the least that libcryptsetup permits */
		.max_memory_kb = 64 * 1024,
		.parallel_threads = 4,
		.flags = CRYPT_PBKDF_NO_BENCHMARK,
	};
}

/*
 * Sectors of 4096 bytes need a sixteenth of the IVs, but are only written as a whole by a disk whose
 * physical blocks are as large.
 */
static unsigned sector_size(const struct luks *l)
{
	unsigned physical = 0;
	uint64_t size = 0;

	if (l->sector)
		return l->sector;
	return ioctl(SPAWN_FD, BLKPBSZGET, &physical) == 0 && physical >= SECTOR &&
	                       ioctl(SPAWN_FD, BLKGETSIZE64, &size) == 0 && size % SECTOR == 0
	               ? SECTOR
	               : 512;
}

static int luks_format(struct luks *l)
{
	const struct secret *key = &l->keys->current;
	struct crypt_pbkdf_type pbkdf = derivation(l);
	struct crypt_params_luks2 params = {
		.pbkdf = &pbkdf,
		.sector_size = sector_size(l),
		.label = l->name.label,
		.subsystem = LUKS_SUBSYSTEM,
	};
	int rc = cs.set_pbkdf_type(l->cd, &pbkdf);

	if (rc < 0)
		return luks_failed(l, "key derivation", rc);
	cs.set_rng_type(l->cd, CRYPT_RNG_URANDOM);
	rc = cs.format(l->cd, CRYPT_LUKS2, CIPHER, CIPHER_MODE, l->name.uuid, NULL, KEY_BYTES,
	               &params);
	if (rc < 0)
		return luks_failed(l, "write the header", rc);
	rc = cs.keyslot_add_by_volume_key(l->cd, CRYPT_ANY_SLOT, NULL, KEY_BYTES, key->text,
	                                  key->n);
	if (rc < 0)
		return luks_failed(l, "write the key slot", rc);
	return fsync(SPAWN_FD) < 0 ? luks_failed(l, "write back", -errno) : LUKS_DONE;
}

static int refuse_cipher(const char *what, const char *found)
{
	fprintf(stderr, "%s %.60s, expected " CIPHER "-" CIPHER_MODE "\n", what, found);
	return LUKS_OTHER_CIPHER;
}

/*
 * Checks that the key derivation of a slot fits into the memory of the container: a changed header
 * could request so much that the kernel kills the driver.
 */
static int check_derivation(const struct luks *l, int slot)
{
	struct crypt_pbkdf_type pbkdf = { .max_memory_kb = 0 };

	if (cs.keyslot_get_pbkdf(l->cd, slot, &pbkdf) < 0)
		return luks_failed(l, "read a key slot", -EINVAL);
	if (pbkdf.max_memory_kb <= DERIVATION_MAX_KB)
		return LUKS_DONE;
	fprintf(stderr, "a key slot whose derivation needs %u MiB of memory, expected at most %d\n",
	        pbkdf.max_memory_kb / 1024, DERIVATION_MAX_KB / 1024);
	return LUKS_OTHER_CIPHER;
}

/* Checks the encryption of the keys, and that there are any. */
static int check_slots(const struct luks *l)
{
	unsigned keys = 0;
	int rc;

	for (int slot = 0; slot < cs.keyslot_max(CRYPT_LUKS2); slot++) {
		const char *cipher;
		size_t n = 0;

		if (cs.keyslot_status(l->cd, slot) == CRYPT_SLOT_INACTIVE)
			continue;
		keys++;
		cipher = cs.keyslot_get_encryption(l->cd, slot, &n);
		if (!str_eq(cipher, CIPHER "-" CIPHER_MODE) || n != KEY_BYTES)
			return refuse_cipher("a key slot with", cipher ? cipher : "none");
		rc = check_derivation(l, slot);
		if (rc)
			return rc;
	}
	return keys ? LUKS_DONE : LUKS_NO_KEY;
}

/*
 * A header is not authenticated. Its ciphers can be replaced on the backend without the passphrase,
 * and with cipher_null the kernel would write plain data to the disk.
 */
static int check_cipher(const struct luks *l)
{
	const char *cipher = cs.get_cipher(l->cd), *mode = cs.get_cipher_mode(l->cd);
	char found[64];
	uint32_t requirements = 0;
	int rc;

	snprintf(found, sizeof(found), "%s-%s", cipher ? cipher : "", mode ? mode : "");
	if (!str_eq(cipher, CIPHER) || !str_eq(mode, CIPHER_MODE))
		return refuse_cipher("the cipher", found);
	if (cs.persistent_flags_get(l->cd, CRYPT_FLAGS_REQUIREMENTS, &requirements) < 0 ||
	    requirements)
		return refuse_cipher("an unfinished reencryption of", found);
	rc = check_slots(l);
	/* A header without a key slot does not have the size of the volume key. */
	if (rc || cs.get_volume_key_size(l->cd) == KEY_BYTES)
		return rc;
	return refuse_cipher("a volume key of another size for", found);
}

/* Reads both copies of the header, from the disk and not from the page cache. */
static bool header_is_readable(void)
{
	char copies[2 * HEADER_COPY];

	IGNORE_RESULT(posix_fadvise(SPAWN_FD, 0, sizeof(copies), POSIX_FADV_DONTNEED));
	return pread(SPAWN_FD, copies, sizeof(copies), 0) == (ssize_t)sizeof(copies);
}

/*
 * Reads the header, and checks that it belongs to the volume and has the format of this driver. A
 * disk without a valid header may be formatted again, so every other cause must be excluded. For a
 * header that is not valid, libcryptsetup returns EINVAL without a message. It also does so if it
 * could not read one of the copies.
 */
static int load_header(struct luks *l)
{
	const char *uuid, *label, *subsystem;
	int rc = cs.load(l->cd, CRYPT_LUKS2, NULL);

	if (rc == -EINVAL && !l->explained && header_is_readable())
		return LUKS_NO_HEADER;
	if (rc < 0)
		return luks_failed(l, "read the header", rc);
	uuid = cs.get_uuid(l->cd);
	label = cs.get_label(l->cd);
	subsystem = cs.get_subsystem(l->cd);
	if (str_eq(uuid, l->name.uuid) && str_eq(label, l->name.label) &&
	    str_eq(subsystem, LUKS_SUBSYSTEM))
		return check_cipher(l);
	fprintf(stderr,
	        "label \"%.47s\", subsystem \"%.47s\", UUID %.36s; expected \"%s\", \"%s\", %s\n",
	        label ? label : "", subsystem ? subsystem : "", uuid ? uuid : "none", l->name.label,
	        LUKS_SUBSYSTEM, l->name.uuid);
	return LUKS_OTHER_VOLUME;
}

/* Returns the slot that this passphrase opens, or a negative errno. */
static int slot_of(struct luks *l, const struct secret *key)
{
	return cs.activate_by_passphrase(l->cd, NULL, CRYPT_ANY_SLOT, key->text, key->n, 0);
}

/*
 * Removes the slot of the previous passphrase. An earlier rotation may have been interrupted before
 * this step, so it is done whenever a previous passphrase is given.
 */
static int remove_previous(struct luks *l, int current)
{
	int slot, rc;

	if (!l->keys->previous.n)
		return LUKS_DONE;
	slot = slot_of(l, &l->keys->previous);
	if (slot < 0 || slot == current) /* removed already, or it is the current passphrase */
		return slot == -EPERM || slot >= 0 ? LUKS_DONE
		                                   : luks_failed(l, "find the slot", slot);
	rc = cs.keyslot_destroy(l->cd, slot);
	return rc < 0 ? luks_failed(l, "remove the previous passphrase", rc) : LUKS_ROTATED;
}

/* Adds the current passphrase to a header that has only the previous one. */
static int add_current(struct luks *l)
{
	const struct secret *now = &l->keys->current, *was = &l->keys->previous;
	struct crypt_pbkdf_type pbkdf = derivation(l);
	int rc = cs.set_pbkdf_type(l->cd, &pbkdf);

	if (rc >= 0)
		rc = cs.keyslot_add_by_passphrase(l->cd, CRYPT_ANY_SLOT, was->text, was->n,
		                                  now->text, now->n);
	return rc;
}

static int activate(struct luks *l, const struct secret *key, uint32_t flags)
{
	return cs.activate_by_passphrase(l->cd, l->name.mapping, CRYPT_ANY_SLOT, key->text, key->n,
	                                 flags);
}

/* Kernels before 5.9 refuse the flags that skip the work queues. */
static int activate_fast(struct luks *l, const struct secret *key)
{
	/* Flags in the header are not authenticated, so they are ignored. */
	uint32_t flags = CRYPT_ACTIVATE_IGNORE_PERSISTENT |
	                 (l->read_only ? CRYPT_ACTIVATE_READONLY : 0) |
	                 (l->allow_discards ? CRYPT_ACTIVATE_ALLOW_DISCARDS : 0);
	int rc = activate(l, key,
	                  flags | CRYPT_ACTIVATE_NO_READ_WORKQUEUE |
	                          CRYPT_ACTIVATE_NO_WRITE_WORKQUEUE);

	if (rc != -EINVAL)
		return rc;
	l->explained = false;
	return activate(l, key, flags);
}

/*
 * Rotates in this order: add the current passphrase, open with it, remove the previous one. After an
 * interruption, the header has at least one of the two. Two nodes that rotated at the same time
 * could remove both, so a shared disk is opened with either passphrase and not changed.
 */
static int luks_open(struct luks *l)
{
	const bool fixed = l->read_only || l->shared;
	const struct secret *now = &l->keys->current, *was = &l->keys->previous;
	int rc = load_header(l);

	if (rc)
		return rc;
	rc = activate_fast(l, now);
	if (rc == -EPERM && was->n && fixed) {
		rc = activate_fast(l, was);
	} else if (rc == -EPERM && was->n) {
		rc = add_current(l);
		if (rc >= 0)
			rc = activate_fast(l, now);
	}
	if (rc == -EPERM)
		return LUKS_WRONG_PASSPHRASE;
	if (rc < 0)
		return luks_failed(l, "open", rc);
	if (fixed)
		return LUKS_DONE;
	rc = remove_previous(l, rc);
	/* The volume is open, and the next open removes the passphrase. */
	return rc == LUKS_FAILED ? LUKS_NOT_ROTATED : rc;
}

/*
 * Loads the volume key again, which the kernel needs for a mapping of another size. During a
 * rotation, the header may still have only the previous passphrase.
 */
static int luks_resize(struct luks *l)
{
	const struct secret *keys[] = { &l->keys->current, &l->keys->previous };
	int rc = load_header(l);

	if (rc)
		return rc;
	rc = -EPERM;
	for (size_t i = 0; i < ARRAY_LEN(keys) && rc == -EPERM && keys[i]->n; i++)
		rc = cs.activate_by_passphrase(l->cd, NULL, CRYPT_ANY_SLOT, keys[i]->text,
		                               keys[i]->n, CRYPT_ACTIVATE_KEYRING_KEY);
	if (rc >= 0)
		rc = cs.resize(l->cd, l->name.mapping, 0);
	else if (rc == -EPERM)
		return LUKS_WRONG_PASSPHRASE;
	return rc < 0 ? luks_failed(l, "resize", rc) : LUKS_DONE;
}

/* ---- the command line ---- */

static const struct operation {
	const char *word;
	int (*run)(struct luks *l);
	bool ends_with_driver;
} operations[] = {
	/* A format is found by the lock of its disk (node/work/orphan_tool.h). */
	{ "format", luks_format, false },
	{ "open", luks_open, true },
	{ "resize", luks_resize, true },
};

/* Reads up to `max` bytes; returns their number, or -1. */
static ssize_t read_all(char *buf, size_t max)
{
	size_t n = 0;

	while (n < max) {
		ssize_t got = read(STDIN_FILENO, buf + n, max - n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -1;
		if (got == 0)
			break;
		n += (size_t)got;
	}
	return (ssize_t)n;
}

static bool take(const char *from, size_t n, struct secret *ret)
{
	if (n > sizeof(ret->text))
		return false;
	memcpy(ret->text, from, n);
	ret->n = n;
	return true;
}

static bool read_passphrases(struct passphrases *ret)
{
	/* The same protected memory holds the input. */
	struct passphrases *input AUTO(passphrases_free) = passphrases_new();
	char *text = (char *)input, *end;
	ssize_t n = read_all(text, sizeof(*input));

	end = n > 0 ? memchr(text, '\0', (size_t)n) : NULL;
	if (!end || end == text || !take(text, (size_t)(end - text), &ret->current))
		return false;
	n -= end + 1 - text;
	return take(end + 1, (size_t)n, &ret->previous);
}

static bool luks_option(struct luks *l, const char *word)
{
	if (str_eq(word, "--kdf=pbkdf2"))
		l->pbkdf2 = true;
	else if (str_eq(word, "--sector=512"))
		l->sector = 512;
	else if (str_eq(word, "--read-only"))
		l->read_only = true;
	else if (str_eq(word, "--allow-discards"))
		l->allow_discards = true;
	else if (str_eq(word, "--shared"))
		l->shared = true;
	else
		return false;
	return true;
}

static int luks_run(struct luks *l, const struct operation *o)
{
	int rc;

	if (!load_library())
		return LUKS_NO_LIBRARY;
	cs.set_log_callback(NULL, log_error, l);
	/* The lock files would be below /run, which is read-only in the container. */
	cs.metadata_locking(NULL, 0);
	rc = cs.init(&l->cd, SPAWN_FD_PATH);
	if (rc < 0)
		return luks_failed(l, "open the disk", rc);
	if (o->ends_with_driver)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	rc = o->run(l);
	cs.free(l->cd);
	return rc;
}

static void protect_process(void)
{
	static char no_udev[] = "DM_DISABLE_UDEV=1", *environment[] = { no_udev, NULL };
	const struct rlimit none = { 0, 0 };

	prctl(PR_SET_NAME, "snap-csi-luks");
	prctl(PR_SET_DUMPABLE, 0);
	IGNORE_RESULT(setrlimit(RLIMIT_CORE, &none));
	environ = environment;
}

int luks_main(int argc, char *const argv[])
{
	struct luks l = { .cd = NULL };
	int rc = LUKS_USAGE;

	protect_process();
	if (argc < 3)
		return LUKS_USAGE;
	luks_name(argv[2], &l.name);
	for (int i = 3; i < argc; i++)
		if (!luks_option(&l, argv[i]))
			return LUKS_USAGE;
	l.keys = passphrases_new();
	for (size_t i = 0; i < ARRAY_LEN(operations); i++)
		if (str_eq(argv[1], operations[i].word))
			rc = read_passphrases(l.keys) ? luks_run(&l, &operations[i]) : LUKS_USAGE;
	l.keys = passphrases_free(l.keys);
	return rc;
}
