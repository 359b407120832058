/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command "luks" with a simulated libcryptsetup: which status and text each result of the library
 * has, with which flags a container is opened, and how the process protects itself. The real library
 * is tested in node/disk/test_crypt_refusals.c, and with device-mapper in test/vm.
 */
#include "test/lib/suite.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <libcryptsetup.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void *find_function(void *library, const char *name);
static int fake_fsync(int fd);

#define dlopen(name, mode) ((void)(name), stdout)
#define dlsym find_function
#define fsync fake_fsync
#include "luks/luks.c" /* NOLINT: its library is simulated */
#undef fsync
#undef dlsym
#undef dlopen

#define VOLUME "pvc-1"
#define REASON "the reason of the library\n"

struct answer {
	int rc;
	bool says; /* the library prints REASON */
};

/* The simulated library. */
struct library {
	struct answer load, activations[3];
	int fsync_errno;
	crypt_keyslot_info slot;
	size_t disk_size;
	/* observed */
	unsigned activated;
	uint32_t flags[3]; /* of each activation */
	char steps[64];
	int dumpable;
	rlim_t core;
};

/* In memory that the test shares with the process of the command. */
static struct library *lib;

static void (*print)(int level, const char *text, void *arg);
static void *print_arg;

static int give(const struct answer *a)
{
	if (a->says)
		print(CRYPT_LOG_ERROR, REASON, print_arg);
	return a->rc;
}

static void step(const char *name)
{
	strncat(lib->steps, name, sizeof(lib->steps) - strlen(lib->steps) - 1);
}

static int fake_fsync(int fd)
{
	step(fd == SPAWN_FD ? "fsync " : "fsync of another file ");
	errno = lib->fsync_errno;
	return errno ? -1 : 0;
}

/* ---- the functions of the library ---- */

void crypt_set_log_callback(struct crypt_device *cd,
                            void (*log)(int level, const char *text, void *arg), void *arg)
{
	(void)cd;
	print = log;
	print_arg = arg;
}

int crypt_init(struct crypt_device **cd, const char *device)
{
	(void)device;
	*cd = NULL;
	return 0;
}

void crypt_free(struct crypt_device *cd)
{
	(void)cd;
}

int crypt_metadata_locking(struct crypt_device *cd, int enable)
{
	(void)cd, (void)enable;
	return 0;
}

void crypt_set_rng_type(struct crypt_device *cd, int type)
{
	(void)cd, (void)type;
}

int crypt_set_pbkdf_type(struct crypt_device *cd, const struct crypt_pbkdf_type *pbkdf)
{
	(void)cd, (void)pbkdf;
	return 0;
}

int crypt_load(struct crypt_device *cd, const char *type, void *params)
{
	struct rlimit core = { .rlim_max = 1 };

	(void)cd, (void)type, (void)params;
	lib->dumpable = prctl(PR_GET_DUMPABLE);
	getrlimit(RLIMIT_CORE, &core);
	lib->core = core.rlim_max;
	return give(&lib->load);
}

int crypt_format(struct crypt_device *cd, const char *type, const char *cipher, const char *mode,
                 const char *uuid, const char *key, size_t n, void *params)
{
	(void)cd, (void)type, (void)cipher, (void)mode, (void)uuid, (void)key, (void)n;
	(void)params;
	step("header ");
	return 0;
}

int crypt_keyslot_add_by_volume_key(struct crypt_device *cd, int slot, const char *volume_key,
                                    size_t volume_key_n, const char *key, size_t n)
{
	(void)cd, (void)slot, (void)volume_key, (void)volume_key_n, (void)key, (void)n;
	step("key ");
	return 0;
}

int crypt_keyslot_add_by_passphrase(struct crypt_device *cd, int slot, const char *was,
                                    size_t was_n, const char *now, size_t now_n)
{
	(void)cd, (void)slot, (void)was, (void)was_n, (void)now, (void)now_n;
	return 0;
}

int crypt_keyslot_destroy(struct crypt_device *cd, int slot)
{
	(void)cd, (void)slot;
	return 0;
}

int crypt_activate_by_passphrase(struct crypt_device *cd, const char *name, int slot,
                                 const char *key, size_t n, uint32_t flags)
{
	(void)cd, (void)name, (void)slot, (void)key, (void)n;
	lib->flags[lib->activated] = flags;
	return give(&lib->activations[lib->activated++]);
}

int crypt_resize(struct crypt_device *cd, const char *name, uint64_t size)
{
	(void)cd, (void)name, (void)size;
	return 0;
}

const char *crypt_get_uuid(struct crypt_device *cd)
{
	static struct luks_name name;

	(void)cd;
	luks_name(VOLUME, &name);
	return name.uuid;
}

const char *crypt_get_label(struct crypt_device *cd)
{
	(void)cd;
	return VOLUME;
}

const char *crypt_get_subsystem(struct crypt_device *cd)
{
	(void)cd;
	return LUKS_SUBSYSTEM;
}

const char *crypt_get_cipher(struct crypt_device *cd)
{
	(void)cd;
	return CIPHER;
}

const char *crypt_get_cipher_mode(struct crypt_device *cd)
{
	(void)cd;
	return CIPHER_MODE;
}

int crypt_get_volume_key_size(struct crypt_device *cd)
{
	(void)cd;
	return lib->slot == CRYPT_SLOT_INACTIVE ? -1 : KEY_BYTES;
}

int crypt_persistent_flags_get(struct crypt_device *cd, crypt_flags_type type, uint32_t *flags)
{
	(void)cd, (void)type;
	*flags = 0;
	return 0;
}

int crypt_keyslot_max(const char *type)
{
	(void)type;
	return 2;
}

crypt_keyslot_info crypt_keyslot_status(struct crypt_device *cd, int slot)
{
	(void)cd;
	return slot == 1 ? lib->slot : CRYPT_SLOT_INACTIVE;
}

const char *crypt_keyslot_get_encryption(struct crypt_device *cd, int slot, size_t *n)
{
	(void)cd, (void)slot;
	*n = KEY_BYTES;
	return CIPHER "-" CIPHER_MODE;
}

int crypt_keyslot_get_pbkdf(struct crypt_device *cd, int slot, struct crypt_pbkdf_type *pbkdf)
{
	(void)cd, (void)slot, (void)pbkdf;
	return 0;
}

static void *find_function(void *library, const char *name)
{
	static const struct {
		const char *name;
		void (*function)(void);
	} functions[] = {
#define X(name) { "crypt_" #name, (void (*)(void))crypt_##name },
		FUNCTIONS(X)
#undef X
	};

	(void)library;
	for (size_t i = 0; i < ARRAY_LEN(functions); i++)
		if (str_eq(functions[i].name, name))
			return *(void *const *)&functions[i].function;
	return NULL;
}

/* ---- the process ---- */

static void begin(void)
{
	lib = mmap(NULL, sizeof(*lib), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert(lib != MAP_FAILED);
	lib->slot = CRYPT_SLOT_ACTIVE_LAST;
	lib->dumpable = -1;
	lib->core = 1;
	lib->disk_size = 2 * HEADER_COPY;
}

/* In the child process: the disk is a file, and the passphrase is "key". */
static void run_child(const char *word, int out)
{
	static char program[] = "luks", volume[] = VOLUME;
	char *argv[] = { program, (char *)word, volume };
	int input[2], disk = memfd_create("disk", 0);

	if (disk < 0 || ftruncate(disk, (off_t)lib->disk_size) || pipe(input) ||
	    write(input[1], "key", 4) != 4 || close(input[1]) || dup2(input[0], STDIN_FILENO) < 0 ||
	    dup2(out, STDERR_FILENO) < 0 || dup2(disk, SPAWN_FD) < 0)
		_exit(99);
	_exit(luks_main(ARRAY_LEN(argv), argv));
}

/* Runs the command and returns its status; `text` gets the last line of its messages. */
static int run(const char *word, char text[200])
{
	int ends[2], status;
	ssize_t n;
	char *line;
	pid_t child;

	ck_assert_int_eq(pipe(ends), 0);
	child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0)
		run_child(word, ends[1]);
	close(ends[1]);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status));
	n = read(ends[0], text, 199);
	close(ends[0]);
	text[n > 0 ? n - 1 : 0] = '\0'; /* without its newline */
	line = strrchr(text, '\n');
	if (line)
		memmove(text, line + 1, strlen(line));
	return WEXITSTATUS(status);
}

/* ---- tests ---- */

static const struct {
	const char *what;
	struct answer load;
	size_t disk_size; /* 0: that of a header */
	int status;
	const char *text;
} loads[] = {
	{ "both copies are not valid", { -EINVAL, false }, 0, LUKS_NO_HEADER, "" },
	{ "a copy cannot be read",
	  { -EINVAL, false },
	  512,
	  LUKS_FAILED,
	  "read the header: Invalid argument" },
	{ "the library has a reason", { -EINVAL, true }, 0, LUKS_FAILED, REASON },
	{ "EIO", { -EIO, false }, 0, LUKS_FAILED, "read the header: Input/output error" },
	{ "ENOMEM", { -ENOMEM, false }, 0, LUKS_FAILED, "read the header: Cannot allocate memory" },
	{ "EPERM", { -EPERM, false }, 0, LUKS_FAILED, "read the header: Operation not permitted" },
	{ "EACCES", { -EACCES, false }, 0, LUKS_FAILED, "read the header: Permission denied" },
	{ "EBUSY", { -EBUSY, false }, 0, LUKS_FAILED, "read the header: Device or resource busy" },
	{ "EAGAIN",
	  { -EAGAIN, false },
	  0,
	  LUKS_FAILED,
	  "read the header: Resource temporarily unavailable" },
	{ "ENOENT",
	  { -ENOENT, false },
	  0,
	  LUKS_FAILED,
	  "read the header: No such file or directory" },
};

static void same_text(const char *what, const char *got, const char *want)
{
	ck_assert_msg(strlen(got) == strcspn(want, "\n") && str_has_prefix(want, got),
	              "%s: got \"%s\", want \"%s\"", what, got, want);
}

START_TEST(only_a_header_that_is_not_valid_is_none)
{
	char text[200];

	begin();
	lib->load = loads[_i].load;
	if (loads[_i].disk_size)
		lib->disk_size = loads[_i].disk_size;
	ck_assert_int_eq(run("open", text), loads[_i].status);
	same_text(loads[_i].what, text, loads[_i].text);
	ck_assert_uint_eq(lib->activated, 0);
}
END_TEST

static const struct {
	const char *what;
	crypt_keyslot_info slot;
	struct answer activations[3];
	unsigned activated;
	int status;
	const char *text;
} opens[] = {
	{ "no slot", CRYPT_SLOT_INACTIVE, { { 0 } }, 0, LUKS_NO_KEY, "" },
	{ "a slot that cannot be used",
	  CRYPT_SLOT_ACTIVE_LAST,
	  { { -ENOENT, false } },
	  1,
	  LUKS_FAILED,
	  "open: No such file or directory" },
	{ "a slot of another key",
	  CRYPT_SLOT_UNBOUND,
	  { { -ENOENT, false } },
	  1,
	  LUKS_FAILED,
	  "open: No such file or directory" },
	{ "another passphrase",
	  CRYPT_SLOT_ACTIVE,
	  { { -EPERM, false } },
	  1,
	  LUKS_WRONG_PASSPHRASE,
	  "" },
	{ "the library has a reason",
	  CRYPT_SLOT_ACTIVE,
	  { { -EIO, true } },
	  1,
	  LUKS_FAILED,
	  REASON },
	{ "no memory",
	  CRYPT_SLOT_ACTIVE,
	  { { -ENOMEM, false } },
	  1,
	  LUKS_FAILED,
	  "open: Cannot allocate memory" },
	{ "a kernel before 5.9",
	  CRYPT_SLOT_ACTIVE,
	  { { -EINVAL, true }, { 1, false } },
	  2,
	  LUKS_DONE,
	  REASON },
	{ "the reason is of the first attempt",
	  CRYPT_SLOT_ACTIVE,
	  { { -EINVAL, true }, { -ENOMEM, false } },
	  2,
	  LUKS_FAILED,
	  "open: Cannot allocate memory" },
	{ "opened", CRYPT_SLOT_ACTIVE, { { 1, false } }, 1, LUKS_DONE, "" },
};

START_TEST(each_result_of_an_open_has_its_status_and_text)
{
	char text[200];

	begin();
	lib->slot = opens[_i].slot;
	memcpy(lib->activations, opens[_i].activations, sizeof(lib->activations));
	ck_assert_int_eq(run("open", text), opens[_i].status);
	same_text(opens[_i].what, text, opens[_i].text);
	ck_assert_uint_eq(lib->activated, opens[_i].activated);
}
END_TEST

START_TEST(a_kernel_that_refuses_to_skip_the_work_queues_is_asked_without)
{
	const uint32_t skip = CRYPT_ACTIVATE_NO_READ_WORKQUEUE | CRYPT_ACTIVATE_NO_WRITE_WORKQUEUE;
	char text[200];

	begin();
	lib->activations[0].rc = -EINVAL;
	ck_assert_int_eq(run("open", text), LUKS_DONE);
	ck_assert_uint_eq(lib->activated, 2);
	ck_assert_uint_eq(lib->flags[0], CRYPT_ACTIVATE_IGNORE_PERSISTENT | skip);
	ck_assert_uint_eq(lib->flags[1], CRYPT_ACTIVATE_IGNORE_PERSISTENT);
}
END_TEST

START_TEST(a_new_header_is_written_back_before_the_command_succeeds)
{
	char text[200];

	begin();
	ck_assert_int_eq(run("format", text), LUKS_DONE);
	ck_assert_str_eq(lib->steps, "header key fsync ");
	lib->fsync_errno = EIO;
	ck_assert_int_eq(run("format", text), LUKS_FAILED);
	ck_assert_str_eq(text, "write back: Input/output error");
}
END_TEST

START_TEST(the_process_has_no_core_dump_and_cannot_be_traced)
{
	char text[200];

	begin();
	lib->load.rc = -EIO;
	ck_assert_int_eq(run("open", text), LUKS_FAILED);
	ck_assert_int_eq(lib->dumpable, 0);
	ck_assert_uint_eq(lib->core, 0);
}
END_TEST

SUITE("luks", LOOP(only_a_header_that_is_not_valid_is_none, ARRAY_LEN(loads)),
      LOOP(each_result_of_an_open_has_its_status_and_text, ARRAY_LEN(opens)),
      a_kernel_that_refuses_to_skip_the_work_queues_is_asked_without,
      a_new_header_is_written_back_before_the_command_succeeds,
      the_process_has_no_core_dump_and_cannot_be_traced);
