/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registration with kubelet: the answers of its socket, and its return after every kind of removal.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "csi/pluginregistration.pb-c.h"

#include "common/file.h"
#include "common/log.h"
#include "rpc/registration.h"
#include "test/lib/rpc_fixture.h"
#include "test/lib/wait.h"

#define DRIVER "csi.example.com"
#define ENDPOINT "/var/lib/kubelet/plugins/csi.example.com/csi.sock"
#define METHOD(name) "/pluginregistration.Registration/" name

struct kubelet_side {
	char dir[64], registry[80], socket[108];
	struct registration *registration;
	struct rpc_client *client;
	_Atomic int registered; /* the last state reported to the program; -1: none */
	_Atomic int outdated;   /* how many more times outdated() returns true */
};

static pthread_mutex_t lines_lock = PTHREAD_MUTEX_INITIALIZER;
static char lines[8192]; /* under lines_lock */

static void keep_line(void *arg, const char *line)
{
	(void)arg;
	WITH_LOCK(&lines_lock);
	size_t n = strlen(lines);

	snprintf(lines + n, sizeof(lines) - n, "%s", line);
}

static bool logged(const char *text)
{
	WITH_LOCK(&lines_lock);
	return strstr(lines, text) != NULL;
}

static void world_init(struct kubelet_side *w)
{
	*w = (struct kubelet_side) { .registered = -1 };
	snprintf(w->dir, sizeof(w->dir), "/tmp/snap-csi-registration.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(w->dir));
	snprintf(w->registry, sizeof(w->registry), "%s/registry", w->dir);
	snprintf(w->socket, sizeof(w->socket), "%s/" DRIVER "-reg.sock", w->registry);
	lines[0] = 0;
	log_redirect(keep_line, NULL);
}

static void learn(void *arg, bool registered)
{
	struct kubelet_side *w = arg;

	w->registered = registered;
}

static bool is_outdated(void *arg)
{
	struct kubelet_side *w = arg;
	int left = w->outdated;

	return left > 0 && atomic_compare_exchange_strong(&w->outdated, &left, left - 1);
}

static void world_start(struct kubelet_side *w)
{
	const struct registration_options options = {
		.dir = w->registry,
		.driver = DRIVER,
		.endpoint = ENDPOINT,
		.registered = learn,
		.outdated = is_outdated,
		.arg = w,
		.look_again_ms = 20,
		.outdated_ms = 20,
	};
	const struct rpc_client_options client = { .path = w->socket, .wait_for_ready = true };
	struct err err = ERR_INIT;

	ck_assert_msg(registration_start(&options, &w->registration, &err) == 0, "%s", err.msg);
	w->client = rpc_client_new(&client);
}

static void world_clear_p(struct kubelet_side *w)
{
	w->client = rpc_client_free(w->client);
	w->registration = registration_stop(w->registration);
	log_redirect(NULL, NULL);
	unlink(w->socket);
	rmdir(w->registry);
	rmdir(w->dir);
}

static bool world_serve(struct kubelet_side *w)
{
	world_init(w);
	ck_assert_int_eq(mkdir(w->registry, 0755), 0);
	world_start(w);
	return true;
}

/* Declares a world with kubelet's folder and the socket in it. */
#define SERVED(w)                                \
	struct kubelet_side w AUTO(world_clear); \
	const bool w##_serves __attribute__((unused)) = world_serve(&w)

static int get_info(struct kubelet_side *w, Pluginregistration__PluginInfo **ret)
{
	Pluginregistration__InfoRequest request = PLUGINREGISTRATION__INFO_REQUEST__INIT;
	struct rpc_answer answer;
	ProtobufCMessage *reply = NULL;
	int code = rpc_client_call(w->client, METHOD("GetInfo"), &request.base,
	                           &pluginregistration__plugin_info__descriptor, WAIT_LIMIT_MS,
	                           &reply, &answer);

	rpc_answer_clear(&answer);
	*ret = (Pluginregistration__PluginInfo *)reply;
	return code;
}

static bool answers(struct kubelet_side *w)
{
	Pluginregistration__PluginInfo *info = NULL;
	int code = get_info(w, &info);

	if (info)
		pluginregistration__plugin_info__free_unpacked(info, NULL);
	return code == 0;
}

static bool socket_is(const struct kubelet_side *w, bool there)
{
	struct stat st;
	struct deadline limit = wait_limit();

	while ((lstat(w->socket, &st) == 0) != there)
		if (!wait_a_moment(limit))
			return false;
	return true;
}

static void notify(struct kubelet_side *w, bool registered, const char *error)
{
	Pluginregistration__RegistrationStatus request =
		PLUGINREGISTRATION__REGISTRATION_STATUS__INIT;
	struct rpc_answer answer;

	request.plugin_registered = registered;
	request.error = (char *)error;
	ck_assert_int_eq(
		rpc_client_call(w->client, METHOD("NotifyRegistrationStatus"), &request.base,
	                        &pluginregistration__registration_status_response__descriptor,
	                        WAIT_LIMIT_MS, NULL, &answer),
		0);
	rpc_answer_clear(&answer);
}

START_TEST(kubelet_learns_name_version_and_socket)
{
	SERVED(w);
	Pluginregistration__PluginInfo *info = NULL;

	ck_assert_int_eq(get_info(&w, &info), 0);
	ck_assert_str_eq(info->type, "CSIPlugin");
	ck_assert_str_eq(info->name, DRIVER);
	ck_assert_str_eq(info->endpoint, ENDPOINT);
	ck_assert_uint_eq(info->n_supported_versions, 1);
	ck_assert_str_eq(info->supported_versions[0], "1.0.0");
	pluginregistration__plugin_info__free_unpacked(info, NULL);
}
END_TEST

START_TEST(only_root_may_talk_to_the_socket)
{
	SERVED(w);
	struct stat st;

	ck_assert(socket_is(&w, true));
	ck_assert_int_eq(lstat(w.socket, &st), 0);
	ck_assert_int_eq(st.st_mode & 07777, 0600);
}
END_TEST

/* kubelet needs one, and no other program has a reason to connect. */
START_TEST(few_connections_are_taken)
{
	SERVED(w);
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fds[17];

	ck_assert(answers(&w));
	w.client = rpc_client_free(w.client);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", w.socket);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		fds[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		ck_assert_int_eq(
			connect(fds[i], (const struct sockaddr *)&address, sizeof(address)), 0);
	}
	WAIT_UNTIL(logged("16 are open, that is the limit"));
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		close(fds[i]);
	w.client = rpc_client_new(
		&(struct rpc_client_options) { .path = w.socket, .wait_for_ready = true });
	ck_assert(answers(&w));
}
END_TEST

START_TEST(success_and_refusal_are_logged)
{
	SERVED(w);

	notify(&w, true, "");
	ck_assert(logged("registered with kubelet"));
	notify(&w, false, "no such driver wanted");
	ck_assert(logged("kubelet refused this driver"));
	ck_assert(logged("no such driver wanted"));
}
END_TEST

START_TEST(the_program_learns_whether_it_is_registered)
{
	SERVED(w);

	ck_assert_int_eq(w.registered, 0);
	for (int i = 0; i < 2; i++) {
		notify(&w, true, "");
		ck_assert_int_eq(w.registered, 1);
		notify(&w, false, "no");
		ck_assert_int_eq(w.registered, 0);
	}
	notify(&w, true, "");
	ck_assert_int_eq(unlink(w.socket), 0); /* kubelet forgets the driver then */
	ck_assert(socket_is(&w, true));
	ck_assert_int_eq(w.registered, 0);
	notify(&w, true, "");
	ck_assert_int_eq(w.registered, 1);
}
END_TEST

/* kubelet's reason contains the path of the socket and the driver's whole answer. */
START_TEST(a_long_reason_is_logged_to_its_end)
{
	SERVED(w);
	char reason[4097];

	memset(reason, 'r', sizeof(reason) - 1);
	memcpy(reason + sizeof(reason) - 8, "its end", 8);
	notify(&w, false, reason);
	ck_assert(logged("rits end"));
}
END_TEST

START_TEST(a_socket_that_is_removed_comes_back)
{
	SERVED(w);

	ck_assert(answers(&w));
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(unlink(w.socket), 0);
		ck_assert(socket_is(&w, true));
		ck_assert(answers(&w));
	}
}
END_TEST

/* kubelet registers a driver again when its socket was replaced. */
START_TEST(what_kubelet_knows_is_over_and_it_is_to_ask_again)
{
	SERVED(w);
	struct stat before, now;

	ck_assert(answers(&w));
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(lstat(w.socket, &before), 0);
		notify(&w, true, "");
		w.outdated = 1;
		WAIT_UNTIL(!w.registered);
		ck_assert(socket_is(&w, true));
		ck_assert(answers(&w));
		ck_assert_int_eq(lstat(w.socket, &now), 0);
		ck_assert(before.st_ino != now.st_ino ||
		          before.st_ctim.tv_nsec != now.st_ctim.tv_nsec);
	}
}
END_TEST

/* Replaces our socket by another one; `listening` or dead. */
static int replace_socket(const struct kubelet_side *w, bool listening)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/other", w->registry);
	ck_assert_int_eq(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	if (listening)
		ck_assert_int_eq(listen(fd, 1), 0);
	ck_assert_int_eq(rename(address.sun_path, w->socket), 0);
	return fd;
}

static ino_t inode_of(const char *path)
{
	struct stat st;

	return lstat(path, &st) ? 0 : st.st_ino;
}

START_TEST(a_dead_socket_in_its_place_is_replaced)
{
	SERVED(w);

	ck_assert(answers(&w));
	for (int i = 0; i < 3; i++) {
		close(replace_socket(&w, false));
		w.client = rpc_client_free(w.client);
		w.client = rpc_client_new(
			&(struct rpc_client_options) { .path = w.socket, .wait_for_ready = true });
		ck_assert(answers(&w));
	}
}
END_TEST

START_TEST(a_living_successor_keeps_its_place_until_it_has_gone)
{
	SERVED(w);
	ino_t successor;
	int fd;

	ck_assert(answers(&w));
	fd = replace_socket(&w, true);
	successor = inode_of(w.socket);
	WAIT_UNTIL(logged("another process serves"));
	sleep_ms(100); /* it checks every 20 ms */
	ck_assert_uint_eq(inode_of(w.socket), successor);
	close(fd);
	w.client = rpc_client_free(w.client);
	w.client = rpc_client_new(
		&(struct rpc_client_options) { .path = w.socket, .wait_for_ready = true });
	ck_assert(answers(&w));
	ck_assert_uint_ne(inode_of(w.socket), successor);
}
END_TEST

START_TEST(a_folder_that_is_not_there_yet_is_waited_for)
{
	struct kubelet_side w AUTO(world_clear);

	world_init(&w);
	world_start(&w);
	WAIT_UNTIL(logged(w.registry));
	ck_assert_int_eq(mkdir(w.registry, 0755), 0);
	ck_assert(answers(&w));
}
END_TEST

START_TEST(a_folder_that_is_made_anew_gets_a_socket_too)
{
	SERVED(w);

	ck_assert(answers(&w));
	ck_assert_int_eq(unlink(w.socket), 0);
	while (rmdir(w.registry)) /* it may already exist again */
		unlink(w.socket);
	sleep_ms(50);
	ck_assert_int_eq(mkdir(w.registry, 0755), 0);
	ck_assert(socket_is(&w, true));
	ck_assert(answers(&w));
}
END_TEST

START_TEST(the_end_takes_the_socket_along)
{
	SERVED(w);

	ck_assert(answers(&w));
	w.client = rpc_client_free(w.client);
	w.registration = registration_stop(w.registration);
	ck_assert(socket_is(&w, false));
}
END_TEST

START_TEST(a_path_that_no_socket_can_have_is_refused)
{
	const struct registration_options options = {
		.dir = "/a/folder/whose/name/goes/on/and/on/and/on/and/on/and/on/and/on/and/on/and/"
		       "on",
		.driver = "a-driver.with.a.long.name.example.com",
		.endpoint = ENDPOINT,
	};
	struct registration *r = NULL;
	struct err err = ERR_INIT;

	ck_assert_int_eq(registration_start(&options, &r, &err), -1);
	ck_assert_int_eq(err.code, ERR_INVALID);
	ck_assert_ptr_null(r);
}
END_TEST

SUITE_TIMEOUT("rpc registration", 60, kubelet_learns_name_version_and_socket,
              only_root_may_talk_to_the_socket, few_connections_are_taken,
              success_and_refusal_are_logged, the_program_learns_whether_it_is_registered,
              a_long_reason_is_logged_to_its_end, a_socket_that_is_removed_comes_back,
              what_kubelet_knows_is_over_and_it_is_to_ask_again,
              a_dead_socket_in_its_place_is_replaced,
              a_living_successor_keeps_its_place_until_it_has_gone,
              a_folder_that_is_not_there_yet_is_waited_for,
              a_folder_that_is_made_anew_gets_a_socket_too, the_end_takes_the_socket_along,
              a_path_that_no_socket_can_have_is_refused);
