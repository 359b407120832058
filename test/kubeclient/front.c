/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates by openssl(1), servers as children that die with the test. */
#include "test/kubeclient/front.h"

#include <arpa/inet.h>
#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/mem.h"

#define READY_MS 10000

pid_t start_process(const char *command)
{
	const char *argv[] = { "/bin/sh", "-c", command, NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	pid_t pid;
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
	ck_assert_int_eq(posix_spawn(&pid, argv[0], &actions, &attr, (char **)argv, environ), 0);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attr);
	return pid;
}

void shell(const char *command)
{
	int status;
	pid_t pid = start_process(command);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "failed: %s", command);
}

void certificate_authority(const char *dir, const char *name)
{
	char *command AUTO(free) = xasprintf("cd %s && exec openssl req -x509 -newkey ec -pkeyopt "
	                                     "ec_paramgen_curve:P-256 -nodes -days 2 "
	                                     "-subj '/CN=%s' -keyout %s.key -out %s.pem",
	                                     dir, name, name, name);
	shell(command);
}

void certificate(const char *dir, const char *ca, const char *name, const char *subject_alt_name)
{
	char *command AUTO(free) = xasprintf(
		"cd %s && echo 'subjectAltName=%s' >%s.ext && "
		"openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj '/CN=%s' "
		"-keyout %s.key -out %s.csr && "
		"exec openssl x509 -req -in %s.csr -CA %s.pem -CAkey %s.key -CAcreateserial -days "
		"2 "
		"-extfile %s.ext -out %s.pem",
		dir, subject_alt_name, name, name, name, name, name, ca, ca, name, name);
	shell(command);
}

static struct sockaddr_in loopback(int port)
{
	return (struct sockaddr_in) { .sin_family = AF_INET,
		                      .sin_port = htons((uint16_t)port),
		                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

/*
 * The port is below the kernel's ephemeral range (ip_local_port_range starts at 32768 or above) and
 * each process searches its own range. So no other process takes it before the server binds it.
 */
int free_port(void)
{
	static int tried;
	for (int i = 0; i < 100; i++) {
		int port = 12000 + ((int)getpid() % 2000) * 10 + tried++ % 10;
		struct sockaddr_in address = loopback(port);
		int fd AUTO(fd) = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
			return port;
	}
	ck_abort_msg("no free port");
	return -1;
}

static bool takes_connections(int port)
{
	struct sockaddr_in address = loopback(port);
	int fd AUTO(fd) = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
}

/* The kernel ends the server when the test dies, so a killed test leaves none behind. */
static struct front start_listening(const char *command, int port, const char *failure)
{
	struct front f = { .port = port, .pid = start_process(command) };
	int64_t until = monotonic_ns() + READY_MS * INT64_C(1000000);
	while (!takes_connections(f.port)) {
		ck_assert_msg(monotonic_ns() < until && waitpid(f.pid, NULL, WNOHANG) == 0, "%s",
		              failure);
		usleep(5000);
	}
	return f;
}

struct front front_start(const char *dir, const char *cert, int port, int backend_port,
                         const char *options)
{
	int own = port ? port : free_port();
	char *command AUTO(free) = xasprintf(
		"cd %s && exec setpriv --pdeathsig=TERM nghttpx --conf=/dev/null -n1 --no-ocsp "
		"--errorlog-file=nghttpx.log --backend-read-timeout=1h "
		"--frontend-http2-read-timeout=1h -f'127.0.0.1,%d' -b'127.0.0.1,%d' %s %s.key "
		"%s.pem",
		dir, own, backend_port, options, cert, cert);
	return start_listening(command, own,
	                       "nghttpx (Debian package nghttp2-proxy) does not start");
}

struct front peer_start(const char *dir, const char *cert)
{
	int port = free_port();
	const char *program = getenv("H2_PEER");
	char *command AUTO(free) = xasprintf("exec setpriv --pdeathsig=TERM %s %s %s %d",
	                                     program ? program : "h2-peer", dir, cert, port);
	return start_listening(command, port, "$H2_PEER (test/kubeclient/peer) does not start");
}

void front_stop(struct front *f)
{
	int64_t until = monotonic_ns() + READY_MS * INT64_C(1000000);
	kill(-f->pid, SIGKILL); /* its worker process outlives it for a moment */
	waitpid(f->pid, NULL, 0);
	while (takes_connections(f->port) && monotonic_ns() < until)
		usleep(2000);
	f->pid = 0;
}
