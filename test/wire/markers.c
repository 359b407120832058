/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends every request of CSI with a marker in every field that the official file marks as secret,
 * and in the values of context keys with names like secrets, whole and damaged; then searches for
 * the marker in every log line (at the highest verbosity), every error and every file that the driver
 * has written. First to services that succeed, then to services that fail, then to the driver itself,
 * with snap-sim (whose bearer token is also the marker) behind it. The volumes are encrypted, with the
 * marker as their passphrase. Usage: markers SECRETS_LIST [DRIVER SNAP_SIM].
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "csi/csi.pb-c.h"

#include "volume/context_keys.h"
#include "common/file.h"
#include "common/limits.h"
#include "common/log.h"
#include "rpc/wire_check.h"
#include "test/lib/rpc_fixture.h"
#include "test/lib/wait.h"

#define MARKER "xyzzy-marker"
#define LOG_MAX (64 * 1024 * 1024)

extern char **environ;

static const char *list_path, *driver, *sim;

static const ProtobufCServiceDescriptor *const service_list[] = {
	&csi__v1__identity__descriptor,
	&csi__v1__controller__descriptor,
	&csi__v1__group_controller__descriptor,
	&csi__v1__snapshot_metadata__descriptor,
	&csi__v1__node__descriptor,
};

/* Keys that kubelet and administrators put into volume contexts and parameters. */
static const char *const sensitive_keys[] = {
	"csi.storage.k8s.io/serviceAccount.tokens", "password", "apiKey", "clientSecret", "TOKEN",
};

/* Keys of the secrets of an encrypted volume, and one that the driver does not know. */
static const char *const secret_keys[] = {
	SECRET_PASSPHRASE,
	SECRET_PASSPHRASE_PREVIOUS,
	MARKER "-key",
};

/* ---- requests ---- */

/* WHOLE has the fields that a sidecar sends; FULL also those that are refused as unsupported. */
enum damage { WHOLE, FULL, CUT, TOO_LONG, NUL_INSIDE, NOT_UTF8, DAMAGES };

static void add_varint(struct str *s, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		str_addn(s, &(char) { (char)(v | 0x80) }, 1);
	str_addn(s, &(char) { (char)v }, 1);
}

static void add_bytes(struct str *s, uint32_t field, const char *bytes, size_t n)
{
	add_varint(s, (uint64_t)field << 3 | 2);
	add_varint(s, n);
	str_addn(s, bytes, n);
}

static void add_entry(struct str *s, uint32_t field, const char *key, const char *value, size_t n)
{
	struct str entry AUTO(str_clear) = STR_INIT(LIMIT_RPC_MESSAGE);

	add_bytes(&entry, 1, key, strlen(key));
	add_bytes(&entry, 2, value, n);
	add_bytes(s, field, entry.ptr, entry.len);
}

static void add_marker(struct str *s, uint32_t field, const char *key, enum damage damage)
{
	char *value AUTO(free) = xcalloc(1, 70000);
	size_t n = strlen(MARKER);

	memcpy(value, MARKER, n);
	if (damage == TOO_LONG) {
		memset(value + n, 'x', 66000);
		n += 66000;
	} else if (damage == NUL_INSIDE) {
		n += 3;
	} else if (damage == NOT_UTF8) {
		value[n++] = '\xff';
	}
	add_entry(s, field, key, value, n);
}

static const char *plausible(const char *field)
{
	if (str_has_suffix(field, "_path"))
		return "/nonexistent/snap-csi/marker-test";
	if (str_eq(field, "mount_flags"))
		return "noatime";
	return str_eq(field, "fs_type") ? "ext4" : "marker-test";
}

static void add_message(struct str *s, const ProtobufCMessageDescriptor *d, enum damage damage);

/* Values that pass the handlers' first checks. */
static void add_known_keys(struct str *s, const ProtobufCFieldDescriptor *f)
{
	static const struct {
		const char *map, *key, *value;
	} known[] = {
		{ "parameters", PARAM_POLICY, "example-policy" },
		{ "parameters", PARAM_ENCRYPTION, "luks2" },
		{ "volume_context", PARAM_ENCRYPTION, "luks2" },
		{ "publish_context", PUBLISH_PCI_ADDRESS, "0000:26:00.1" },
		{ "publish_context", PUBLISH_NVME_NSID, "1" },
	};

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (str_eq(known[i].map, f->name))
			add_entry(s, f->id, known[i].key, known[i].value, strlen(known[i].value));
}

static void add_map(struct str *s, const ProtobufCFieldDescriptor *f, enum damage damage)
{
	if (wire_is_secret(f)) {
		for (size_t i = 0; i < ARRAY_LEN(secret_keys); i++)
			add_marker(s, f->id, secret_keys[i], damage);
		return;
	}
	add_known_keys(s, f);
	for (size_t i = 0; i < ARRAY_LEN(sensitive_keys); i++)
		add_marker(s, f->id, sensitive_keys[i], damage);
}

static void add_field(struct str *s, const ProtobufCFieldDescriptor *f, enum damage damage)
{
	struct str below AUTO(str_clear) = STR_INIT(LIMIT_RPC_MESSAGE);

	if (wire_is_map(f)) {
		add_map(s, f, damage);
		return;
	}
	switch ((int)f->type) {
	case PROTOBUF_C_TYPE_STRING:
		add_bytes(s, f->id, plausible(f->name), strlen(plausible(f->name)));
		break;
	case PROTOBUF_C_TYPE_MESSAGE:
		add_message(&below, f->descriptor, damage);
		add_bytes(s, f->id, below.ptr, below.len);
		break;
	default: /* numbers, enums and booleans are varints in CSI */
		add_varint(s, (uint64_t)f->id << 3);
		add_varint(s, f->type == PROTOBUF_C_TYPE_INT64 ? 1 << 30 : 1);
		break;
	}
}

static bool is_supported(const char *field)
{
	return !str_eq(field, "volume_content_source") && !str_eq(field, "mutable_parameters") &&
	       !str_eq(field, "readonly");
}

static void add_message(struct str *s, const ProtobufCMessageDescriptor *d, enum damage damage)
{
	for (unsigned i = 0; i < d->n_fields; i++)
		if (damage != WHOLE || is_supported(d->fields[i].name))
			add_field(s, &d->fields[i], damage);
}

/* Sends the request and returns the code. The test fails if the error contains the marker. */
static int send_damaged(struct rpc_client *c, const char *service,
                        const ProtobufCMethodDescriptor *m, enum damage damage, int timeout_ms)
{
	struct str in AUTO(str_clear) = STR_INIT(LIMIT_RPC_MESSAGE);
	char *path AUTO(free) = xasprintf("/%s/%s", service, m->name);
	struct rpc_answer answer;
	int code;

	add_message(&in, m->input, damage);
	code = rpc_client_call_bytes(c, path, in.ptr, damage == CUT && in.len ? in.len - 1 : in.len,
	                             timeout_ms, &answer);
	ck_assert_msg(!strstr(answer.text, MARKER), "%s says \"%s\"", path, answer.text);
	rpc_answer_clear(&answer);
	return code;
}

/* All methods, all damages. Returns the number of requests sent. */
static int send_all(struct rpc_client *c, bool expect_ok, int timeout_ms)
{
	int sent = 0;

	for (size_t i = 0; i < ARRAY_LEN(service_list); i++)
		for (unsigned k = 0; k < service_list[i]->n_methods; k++)
			for (enum damage damage = WHOLE; damage < DAMAGES; damage++, sent++) {
				int code = send_damaged(c, service_list[i]->name,
				                        &service_list[i]->methods[k], damage,
				                        timeout_ms);

				ck_assert(!expect_ok || damage != WHOLE || code == ERR_OK);
			}
	return sent;
}

/* ---- services that have every method ---- */

struct all_services {
	struct rpc_service services[ARRAY_LEN(service_list)];
	struct rpc_method *methods[ARRAY_LEN(service_list)];
	bool fail;
	_Atomic int handled;
};

/* By name or path. */
static const ProtobufCMethodDescriptor *method_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;

	for (size_t i = 0; i < ARRAY_LEN(service_list); i++)
		for (unsigned k = 0; k < service_list[i]->n_methods; k++)
			if (str_eq(service_list[i]->methods[k].name, name))
				return &service_list[i]->methods[k];
	return NULL;
}

static int handle(void *self, struct rpc_call *call, const void *req, ProtobufCMessage **resp,
                  struct err *err)
{
	struct all_services *all = self;

	(void)req;
	all->handled++;
	if (all->fail)
		return err_set(err, ERR_UNAVAILABLE, "%s: not today", call->method);
	*resp = rpc_new_message(call, method_of(call->method)->output);
	return 0;
}

static void all_services_init(struct all_services *all, bool fail)
{
	*all = (struct all_services) { .fail = fail };
	for (size_t i = 0; i < ARRAY_LEN(service_list); i++) {
		unsigned n = service_list[i]->n_methods;

		all->methods[i] = xcalloc(n, sizeof(struct rpc_method));
		for (unsigned k = 0; k < n; k++)
			all->methods[i][k] =
				(struct rpc_method) { .name = service_list[i]->methods[k].name,
				                      .handler = handle };
		all->services[i] = (struct rpc_service) { .descriptor = service_list[i],
			                                  .methods = all->methods[i],
			                                  .n_methods = n,
			                                  .self = all };
	}
}

static void all_services_clear(struct all_services *all)
{
	for (size_t i = 0; i < ARRAY_LEN(service_list); i++)
		free(all->methods[i]);
}

/* ---- the log ---- */

struct seen {
	pthread_mutex_t lock;
	int lines, marked, with_keys;
	char first[500];
};

static void see_line(void *arg, const char *line)
{
	struct seen *seen = arg;

	WITH_LOCK(&seen->lock);
	seen->lines++;
	seen->with_keys += strstr(line, "serviceAccount.tokens") != NULL;
	if (strstr(line, MARKER) && seen->marked++ == 0)
		snprintf(seen->first, sizeof(seen->first), "%s", line);
}

static void serve_and_look(bool fail)
{
	struct rpc_fixture f AUTO(rpc_fixture_clear);
	struct seen seen = { .lock = PTHREAD_MUTEX_INITIALIZER };
	struct all_services all;
	struct err err = ERR_INIT;
	int sent;

	rpc_fixture_init(&f);
	all_services_init(&all, fail);
	log_setup(10, false);
	log_redirect(see_line, &seen);
	ck_assert_int_eq(rpc_server_start(&f.options, all.services, ARRAY_LEN(all.services),
	                                  &f.server, &err),
	                 0);
	f.client = rpc_client_new(&(struct rpc_client_options) { .path = f.path });
	sent = send_all(f.client, !fail, 30000);
	rpc_client_free(TAKE(f.client));
	rpc_server_stop(TAKE(f.server), 1000);
	log_redirect(NULL, NULL);
	printf("sent %d requests to services that %s: %d reached a handler, %d log lines\n", sent,
	       fail ? "fail" : "succeed", all.handled, seen.lines);
	ck_assert_int_eq(seen.lines, sent);
	ck_assert_int_ge(all.handled, sent / DAMAGES);
	ck_assert_msg(seen.marked == 0, "%d lines, the first: %s", seen.marked, seen.first);
	ck_assert_int_gt(seen.with_keys, 5); /* key names are logged at this verbosity */
	all_services_clear(&all);
}

START_TEST(answers_of_services_that_succeed_show_no_secret)
{
	serve_and_look(false);
}
END_TEST

START_TEST(answers_of_services_that_fail_show_no_secret)
{
	serve_and_look(true);
}
END_TEST

/* ---- what the official file calls secret ---- */

static bool is_filled(const char *message, const char *field)
{
	for (size_t i = 0; i < ARRAY_LEN(service_list); i++)
		for (unsigned k = 0; k < service_list[i]->n_methods; k++) {
			const ProtobufCMessageDescriptor *d = service_list[i]->methods[k].input;
			const ProtobufCFieldDescriptor *f =
				protobuf_c_message_descriptor_get_field_by_name(d, field);

			if (str_eq(d->name, message))
				return f && wire_is_map(f) && wire_is_secret(f);
		}
	return false;
}

START_TEST(every_secret_field_of_the_official_file_is_one_here)
{
	FILE *list AUTO(fclose) = fopen(list_path, "re");
	char message[100], field[100];
	int n = 0;

	ck_assert_ptr_nonnull(list);
	for (; fscanf(list, "%99s %99s", message, field) == 2; n++)
		ck_assert_msg(is_filled(message, field), "%s.%s", message, field);
	ck_assert_int_eq(n, 22);
}
END_TEST

/* ---- the driver ---- */

static pid_t spawn_driver(const struct rpc_fixture *f, const char *log)
{
	char *address AUTO(free) = xasprintf("--bind-address=unix://%s", f->path);
	char *kubeconfig AUTO(free) = xasprintf("--kubeconfig=%s/kubeconfig", f->dir);
	char *sysfs AUTO(free) = xasprintf("--sysfs-root=%s/sys", f->dir);
	char *dev AUTO(free) = xasprintf("--dev-root=%s/dev", f->dir);
	char *const argv[] = { (char *)driver,
		               (char *)"--mode=all",
		               (char *)"--v=10",
		               (char *)"--namespace=marker-test",
		               (char *)"--node-id=marker-test",
		               (char *)"--volume-dir=/",
		               (char *)"--node-nvme-load-driver=false",
		               (char *)"--node-nvme-create-vfs=false",
		               address,
		               kubeconfig,
		               sysfs,
		               dev,
		               NULL };
	posix_spawn_file_actions_t actions;
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log,
	                                 O_CREAT | O_WRONLY | O_APPEND, 0600);
	ck_assert_int_eq(posix_spawn(&pid, driver, &actions, NULL, argv, environ), 0);
	posix_spawn_file_actions_destroy(&actions);
	child_started(pid);
	return pid;
}

static pid_t spawn_sim(const struct rpc_fixture *f)
{
	char *kubeconfig AUTO(free) = xasprintf("--write-kubeconfig=%s/kubeconfig", f->dir);
	char *written AUTO(free) = xasprintf("%s/kubeconfig", f->dir);
	char *const argv[] = { (char *)sim,
		               (char *)"--no-fabric",
		               (char *)"--seed",
		               (char *)"--namespace=marker-test",
		               (char *)"--node=marker-test",
		               (char *)"--token=" MARKER,
		               kubeconfig,
		               NULL };
	pid_t pid;

	ck_assert_int_eq(posix_spawn(&pid, sim, NULL, NULL, argv, environ), 0);
	child_started(pid);
	WAIT_UNTIL(!access(written, F_OK));
	return pid;
}

static void make_roots(const struct rpc_fixture *f)
{
	char *sys AUTO(free) = xasprintf("%s/sys", f->dir);
	char *dev AUTO(free) = xasprintf("%s/dev", f->dir);

	ck_assert_int_eq(mkdir(sys, 0700), 0);
	ck_assert_int_eq(mkdir(dev, 0700), 0);
}

/*
 * Creates and attaches a volume, and repeats both requests with other secrets, for the texts that
 * name differences.
 */
static void send_a_life(struct rpc_client *c)
{
	static const char *const methods[] = { "CreateVolume", "CreateVolume",
		                               "ControllerPublishVolume",
		                               "ValidateVolumeCapabilities",
		                               "ControllerPublishVolume" };

	for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
		const ProtobufCMethodDescriptor *m = method_of(methods[i]);
		int code = send_damaged(c, "csi.v1.Controller", m, WHOLE, 30000);

		ck_assert_msg(code == ERR_OK, "%s: %d", methods[i], code);
	}
}

/* The disk does not exist: both calls fail after they have read the passphrases. */
static void send_to_node(struct rpc_client *c)
{
	static const struct {
		const char *method;
		int code;
	} calls[] = {
		{ "NodeStageVolume", ERR_DEADLINE },
		{ "NodeExpandVolume", ERR_NOT_FOUND },
	};

	for (size_t i = 0; i < ARRAY_LEN(calls); i++)
		ck_assert_int_eq(
			send_damaged(c, "csi.v1.Node", method_of(calls[i].method), WHOLE, 3000),
			calls[i].code);
}

/* Searches the files of the driver. The kubeconfig of snap-sim has the token. */
static void look_into_files(const char *dir, int *files)
{
	DIR *d = opendir(dir);
	struct err err = ERR_INIT;
	struct dirent *e;

	ck_assert_ptr_nonnull(d);
	while ((e = readdir(d))) {
		char *path AUTO(free) = xasprintf("%s/%s", dir, e->d_name);
		char *text AUTO(free) = NULL;
		size_t n = 0;

		if (e->d_type == DT_DIR && e->d_name[0] != '.')
			look_into_files(path, files);
		if (e->d_type != DT_REG || str_eq(e->d_name, "kubeconfig"))
			continue;
		ck_assert_int_eq(file_read(path, LOG_MAX, &text, &n, &err), 0);
		ck_assert_msg(!memmem(text, n, MARKER, strlen(MARKER)), "%s", path);
		++*files;
	}
	closedir(d);
}

START_TEST(the_driver_shows_no_secret)
{
	struct rpc_fixture f AUTO(rpc_fixture_clear);
	char *log AUTO(free) = NULL;
	char *text AUTO(free) = NULL;
	struct err err = ERR_INIT;
	pid_t pid, sim_pid;
	int sent, files = 0;
	char *last_errors AUTO(free) = NULL;

	if (!driver || !sim) {
		puts("SKIP: no driver and no snap-sim were given");
		return;
	}
	rpc_fixture_init(&f);
	make_roots(&f);
	sim_pid = spawn_sim(&f);
	log = xasprintf("%s/log", f.dir);
	pid = spawn_driver(&f, log);
	f.client = rpc_client_new(
		&(struct rpc_client_options) { .path = f.path, .wait_for_ready = true });
	if (probe(f.client, 20000) != ERR_OK) {
		kill(pid, SIGKILL);
		server_wait(pid);
		kill(sim_pid, SIGTERM);
		server_wait(sim_pid);
		ck_assert_int_eq(file_read(log, LOG_MAX, &text, NULL, &err), 0);
		ck_abort_msg("the driver does not serve: %s", text);
	}
	send_a_life(f.client);
	send_to_node(f.client);
	last_errors = xasprintf("%s/last-errors.json", f.dir);
	WAIT_UNTIL(!access(last_errors, F_OK));
	sent = send_all(f.client, false, 3000);
	kill(pid, SIGTERM);
	ck_assert_int_eq(server_wait(pid), 0);
	kill(sim_pid, SIGTERM);
	ck_assert_int_eq(server_wait(sim_pid), 0);
	ck_assert_int_eq(file_read(log, LOG_MAX, &text, NULL, &err), 0);
	printf("sent %d requests to the driver: %zu bytes of log\n", sent, strlen(text));
	ck_assert_ptr_nonnull(strstr(text, "Probe code=OK")); /* proves that this is its log */
	if (getenv("SHOW_LOG"))
		puts(text);
	ck_assert_msg(!strstr(text, MARKER), "... %.400s", strstr(text, MARKER) - 200);
	look_into_files(f.dir, &files);
	ck_assert_int_ge(files, 2); /* the log and last-errors.json */
}
END_TEST

static int read_arguments(int argc, char **argv)
{
	list_path = argc > 1 ? argv[1] : "/dev/null";
	driver = argc > 2 ? argv[2] : NULL;
	sim = argc > 3 ? argv[3] : NULL;
	return 0;
}

SUITE_AROUND("wire markers", 300, read_arguments, NULL,
             every_secret_field_of_the_official_file_is_one_here,
             answers_of_services_that_succeed_show_no_secret,
             answers_of_services_that_fail_show_no_secret, the_driver_shows_no_secret);
