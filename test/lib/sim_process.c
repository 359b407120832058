/* SPDX-License-Identifier: Apache-2.0 */
/* See sim_process.h. Owns the child and a directory below /tmp. */
#include "test/lib/sim_process.h"

#include <arpa/inet.h>
#include <check.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"
#include "common/str.h"
#include "test/lib/wait.h"

struct sim_process sim;

static void sim_cleanup(void)
{
	struct strs names AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;

	if (sim.pid > 0) {
		kill(sim.pid, SIGKILL);
		waitpid(sim.pid, NULL, 0);
		sim.pid = 0;
	}
	if (!*sim.dir || dir_list(sim.dir, &names, &err))
		return;
	for (size_t i = 0; i < names.n; i++) {
		char *path AUTO(free) = xasprintf("%s/%s", sim.dir, names.v[i]);

		unlink(path);
	}
	rmdir(sim.dir);
	*sim.dir = 0;
}

static void sim_wait_port(const char *file)
{
	struct deadline limit = wait_limit();

	do {
		char *text AUTO(free) = NULL;
		struct err err = ERR_INIT;
		uint64_t port;

		if (!file_read_line(file, 64, &text, &err) &&
		    !parse_u64("port", text, &port, &err)) {
			sim.port = (int)port;
			return;
		}
	} while (wait_a_moment(limit));
	ck_abort_msg("snap-sim did not start");
}

void sim_stop(void)
{
	sim.kube = kube_free(sim.kube);
	sim_cleanup();
}

static void spawn_sim(const char *program, const char *const *options, const char *port_file,
                      const char *config)
{
	const char *argv[32] = { program, "--no-fabric", "--seed",  "--node",
		                 "n1",    "--node",      "n2",      "--namespace",
		                 SIM_NS,  "--port-file", port_file, "--write-kubeconfig",
		                 config };
	posix_spawn_file_actions_t actions;
	size_t n = 0;

	while (argv[n])
		n++;
	for (size_t i = 0; options && options[i]; i++) {
		ck_assert_uint_lt(n + 1, ARRAY_LEN(argv));
		argv[n++] = options[i];
	}
	posix_spawn_file_actions_init(&actions);
	for (int fd = 1; fd <= 2; fd++)
		posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_WRONLY, 0);
	ck_assert_int_eq(posix_spawn(&sim.pid, program, &actions, NULL, (char **)argv, environ), 0);
	posix_spawn_file_actions_destroy(&actions);
}

void sim_start(const char *const *options)
{
	const char *program = getenv("SNAP_SIM");
	char *port AUTO(free) = NULL, *config AUTO(free) = NULL;
	struct kube_options o = { .user_agent = "snap-csi/test" };
	struct err err = ERR_INIT;
	static bool registered;

	sim_stop(); /* left by a failed test */
	ck_assert_msg(program, "SNAP_SIM is not set: run the test by its make target");
	if (!registered && !atexit(sim_cleanup))
		registered = true;
	snprintf(sim.dir, sizeof(sim.dir), "/tmp/sim-process-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(sim.dir));
	port = xasprintf("%s/port", sim.dir);
	config = xasprintf("%s/kubeconfig", sim.dir);
	spawn_sim(program, options, port, config);
	sim_wait_port(port);
	o.kubeconfig = config;
	ck_assert_msg(kube_new(&o, &sim.kube, &err) == 0, "%s", err.msg);
}

char *sim_http(const char *method, const char *path, const char *body)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)sim.port) };
	struct str answer AUTO(str_clear) = STR_INIT(1 << 20);
	char *request AUTO(free) =
		xasprintf("%s %s HTTP/1.1\r\nHost: sim\r\nConnection: "
	                  "close\r\nContent-Type: application/%s\r\n"
	                  "Content-Length: %zu\r\n\r\n%s",
	                  method, path, str_eq(method, "PATCH") ? "merge-patch+json" : "json",
	                  strlen(body), body);
	int fd AUTO(fd) = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char buf[4096];
	ssize_t n;

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	ck_assert_int_eq(write(fd, request, strlen(request)), (ssize_t)strlen(request));
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		str_addn(&answer, buf, (size_t)n);
	ck_assert_msg(strstr(answer.ptr, " 200 ") || strstr(answer.ptr, " 201 ") ||
	                      strstr(answer.ptr, " 204 "),
	              "%s %s: %s", method, path, answer.ptr);
	return xstrdup(strstr(answer.ptr, "\r\n\r\n") + 4);
}

void sim_fault(const char *json)
{
	free(sim_http("POST", "/sim/faults", json));
}

void sim_heal(void)
{
	free(sim_http("DELETE", "/sim/faults", ""));
}

char *sim_requests(void)
{
	char *text = sim_http("GET", "/sim/requests", "");

	free(sim_http("DELETE", "/sim/requests", ""));
	return text;
}

void sim_settle(void)
{
	for (bool quiet = false; !quiet;) {
		char *text AUTO(free) = NULL;

		usleep(100000);
		text = sim_requests();
		quiet = str_eq(text, "{}");
	}
}

/* Connections that the peer has closed: in /proc/net/tcp their state is CLOSE_WAIT. */
static unsigned half_closed(void)
{
	FILE *f AUTO(fclose) = fopen("/proc/net/tcp", "re");
	char line[256];
	unsigned port, state, n = 0;

	ck_assert(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, " %*d: %*x:%x %*x:%*x %x", &port, &state) == 2)
			n += port == (unsigned)sim.port && state == TCP_CLOSE_WAIT;
	return n;
}

void sim_drain(void)
{
	WAIT_UNTIL(half_closed() == 0);
}
