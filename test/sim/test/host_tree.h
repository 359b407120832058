/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of the host "one" of a snap-sim with devices, and their locations. One test at a time;
 * an error here fails it.
 */
#pragma once

#include <stdbool.h>

#include "test/sim/test/harness.h"

extern char host_tree_base[]; /* a folder of this test program's own */
extern char state[64];        /* base/state; the next start removes the remains of a failed test */

#define PATIENCE_MS 100000

/* Starts a world w with that state and the node "one". */
#define HOST(w, ...) \
	world_start(&(w), WORLD_ARGS("--seed", "--node=one", "--state", state, __VA_ARGS__))

/* For SUITE_AROUND(). */
int host_tree_make(int argc, char **argv);
void host_tree_remove(void);

/* <state>/one/<below>, malloc'ed. */
char *at(const char *below);
bool there(const char *below);
/* Its first line, "" if it cannot be read; malloc'ed. */
char *content(const char *below);
/* Writes the text. */
void say(const char *below, const char *text);
/* Waits until ok(below) is as wanted. */
void until(bool (*ok)(const char *below), const char *below, bool wanted);
void until_there(const char *below);
void until_gone(const char *below);
/*
 * Waits until snap-sim has processed all earlier writes to the tree: clears the driver_override of
 * the function (".../devices/0000:26:00.1") and waits for the answer.
 */
void until_obeyed(const char *function);
