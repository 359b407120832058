/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server with the stub services in this process or in one of its own, and a client of it, in a
 * directory of their own.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "test/lib/suite.h"
#include "test/lib/rpc_client.h"
#include "test/lib/rpc_stub.h"

struct fixture {
	char dir[64], path[108];
	struct stub stub;
	struct rpc_server_options options; /* set before fixture_start() */
	struct rpc_server *server;
	struct rpc_client *client;
};

void fixture_init(struct fixture *f);  /* directory and options */
void fixture_start(struct fixture *f); /* server and client in this process */
void fixture_clear(struct fixture *f);
/* SETUP(f): a started fixture that is cleared when the test returns. */
static inline void fixture_clear_p(struct fixture *f)
{
	fixture_clear(f);
}
#define SETUP(f)                              \
	struct fixture f AUTO(fixture_clear); \
	fixture_init(&f);                     \
	fixture_start(&f)

/*
 * Calls NodeStageVolume; returns the code, the text goes to `text` (may be NULL, else 1100 bytes).
 */
int stage(struct rpc_client *c, const char *volume, const char *what, int timeout_ms, char *text);
struct rpc_pending *stage_start(struct rpc_client *c, const char *volume, const char *what,
                                int timeout_ms);
int probe(struct rpc_client *c, int timeout_ms);
/*
 * Probes until one succeeds, 10 s at the most: a client that lost its connection waits a moment
 * before it makes another.
 */
bool serves_again(struct rpc_client *c);
/* Waits until *counter >= n, 30 s at the most. */
bool reaches(_Atomic int *counter, int n);
void sleep_ms(int ms);

/*
 * The program stub_server on f->path. `environment` (may be NULL) is put in front of ours; nofile
 * 0: unchanged. Waits for "ready"; the pid.
 */
pid_t server_spawn(struct fixture *f, const char *environment, unsigned nofile, int grace_ms);
/* Status of waitpid(), -1 when it had to be killed after 20 s. */
int server_wait(pid_t pid);
/* Any other child: killed when this program ends before server_wait() has seen its end. */
void child_started(pid_t pid);
