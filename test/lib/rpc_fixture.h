/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An RPC server with the stub services and a client of it, in a temporary directory. The server
 * runs in this process or in a separate one.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "common/cleanup.h"
#include "test/lib/rpc_client.h"
#include "test/lib/rpc_stub.h"
#include "test/lib/suite.h"

struct rpc_fixture {
	char dir[64], path[108];
	struct stub stub;
	struct rpc_server_options options; /* set before rpc_fixture_start() */
	struct rpc_server *server;
	struct rpc_client *client;
};

void rpc_fixture_init(struct rpc_fixture *f);  /* directory and options */
void rpc_fixture_start(struct rpc_fixture *f); /* server and client in this process */
void rpc_fixture_clear(struct rpc_fixture *f);
DEFINE_AUTO_VALUE(struct rpc_fixture, rpc_fixture_clear);
static inline bool rpc_fixture_set_up(struct rpc_fixture *f)
{
	rpc_fixture_init(f);
	rpc_fixture_start(f);
	return true;
}
/* Declares a started fixture that is cleared when the test returns. */
#define SETUP(f)                                      \
	struct rpc_fixture f AUTO(rpc_fixture_clear); \
	const bool f##_is_up __attribute__((unused)) = rpc_fixture_set_up(&f)

/*
 * Calls NodeStageVolume; returns the code; the error text goes to `text` (may be NULL, else 1100
 * bytes).
 */
int stage(struct rpc_client *c, const char *volume, const char *what, int timeout_ms, char *text);
struct rpc_pending *stage_start(struct rpc_client *c, const char *volume, const char *what,
                                int timeout_ms);
int probe(struct rpc_client *c, int timeout_ms);
/*
 * Probes until one succeeds, for wait_limit(): a client that lost its connection waits a moment
 * before it opens another.
 */
bool serves_again(struct rpc_client *c);
/* Waits until *counter >= n, for wait_limit(). */
bool reaches(_Atomic int *counter, int n);
void sleep_ms(int ms);

/*
 * Starts the program stub_server on f->path, waits until it is ready, and returns its pid.
 * environment: further variables as "A=b C=d", or NULL; nofile: its limit of descriptors, 0 for
 * ours.
 */
pid_t server_spawn(struct rpc_fixture *f, const char *environment, unsigned nofile, int grace_ms);
/* Waits for its end: the status of waitpid(), or -1 when it had to be killed after wait_limit(). */
int server_wait(pid_t pid);
/* Registers another child: it is killed if this program ends before server_wait() for it. */
void child_started(pid_t pid);
