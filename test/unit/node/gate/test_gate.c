/* SPDX-License-Identifier: Apache-2.0 */
/* The gate's table, cell by cell, and the tables of docs/operate/gate.md and test/reports/gate.md that are generated from it. */
#include <string.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"
#include "common/str.h"
#include "node/gate/gate.h"
#include "test/lib/doc_table.h"
#include "test/lib/suite.h"

static const char *const events[GATE_EVENTS] = {
	[GATE_ENABLE] = "EnableDevices, the same or a newer generation",
	[GATE_OUTDATED] = "EnableDevices, an older generation",
	[GATE_WRONG_NODE] = "EnableDevices of another node, or without a name",
	[GATE_PREPARED] = "the host is prepared",
	[GATE_UNPREPARED] = "preparing fails",
	[GATE_LEFT] = "the stream ends: closed, its process dies, its deadline passes",
	[GATE_STOP] = "the driver is stopped",
};

/* ---- the cells ---- */

#define NEW (GATE_TAKE | GATE_PREPARE | GATE_ANNOUNCE)
#define OVER (GATE_WITHDRAW | GATE_DROP)

static const struct {
	enum gate_state state;
	enum gate_event event;
	enum gate_state next;
	unsigned actions;
} cells[] = {
	{ GATE_CLOSED, GATE_ENABLE, GATE_PREPARING, NEW },
	{ GATE_CLOSED, GATE_OUTDATED, GATE_CLOSED, GATE_REFUSE },
	{ GATE_CLOSED, GATE_WRONG_NODE, GATE_CLOSED, GATE_REFUSE },
	{ GATE_CLOSED, GATE_PREPARED, GATE_CLOSED, 0 },
	{ GATE_CLOSED, GATE_UNPREPARED, GATE_CLOSED, 0 },
	{ GATE_CLOSED, GATE_LEFT, GATE_CLOSED, 0 },
	{ GATE_CLOSED, GATE_STOP, GATE_STOPPED, 0 },
	{ GATE_PREPARING, GATE_ENABLE, GATE_PREPARING, NEW | GATE_RETIRE },
	{ GATE_PREPARING, GATE_OUTDATED, GATE_PREPARING, GATE_REFUSE },
	{ GATE_PREPARING, GATE_WRONG_NODE, GATE_PREPARING, GATE_REFUSE },
	{ GATE_PREPARING, GATE_PREPARED, GATE_OPEN, GATE_ANNOUNCE },
	{ GATE_PREPARING, GATE_UNPREPARED, GATE_FAILED, GATE_ANNOUNCE },
	{ GATE_PREPARING, GATE_LEFT, GATE_CLOSED, OVER },
	{ GATE_PREPARING, GATE_STOP, GATE_STOPPED, OVER | GATE_RETIRE },
	{ GATE_OPEN, GATE_ENABLE, GATE_PREPARING, NEW | GATE_RETIRE },
	{ GATE_OPEN, GATE_OUTDATED, GATE_OPEN, GATE_REFUSE },
	{ GATE_OPEN, GATE_WRONG_NODE, GATE_OPEN, GATE_REFUSE },
	{ GATE_OPEN, GATE_PREPARED, GATE_OPEN, 0 },
	{ GATE_OPEN, GATE_UNPREPARED, GATE_OPEN, 0 },
	{ GATE_OPEN, GATE_LEFT, GATE_CLOSED, OVER },
	{ GATE_OPEN, GATE_STOP, GATE_STOPPED, OVER | GATE_RETIRE },
	{ GATE_FAILED, GATE_ENABLE, GATE_PREPARING, NEW | GATE_RETIRE },
	{ GATE_FAILED, GATE_OUTDATED, GATE_FAILED, GATE_REFUSE },
	{ GATE_FAILED, GATE_WRONG_NODE, GATE_FAILED, GATE_REFUSE },
	{ GATE_FAILED, GATE_PREPARED, GATE_OPEN, GATE_ANNOUNCE },
	{ GATE_FAILED, GATE_UNPREPARED, GATE_FAILED, GATE_ANNOUNCE },
	{ GATE_FAILED, GATE_LEFT, GATE_CLOSED, OVER },
	{ GATE_FAILED, GATE_STOP, GATE_STOPPED, OVER | GATE_RETIRE },
	{ GATE_STOPPED, GATE_ENABLE, GATE_STOPPED, GATE_REFUSE },
	{ GATE_STOPPED, GATE_OUTDATED, GATE_STOPPED, GATE_REFUSE },
	{ GATE_STOPPED, GATE_WRONG_NODE, GATE_STOPPED, GATE_REFUSE },
	{ GATE_STOPPED, GATE_PREPARED, GATE_STOPPED, 0 },
	{ GATE_STOPPED, GATE_UNPREPARED, GATE_STOPPED, 0 },
	{ GATE_STOPPED, GATE_LEFT, GATE_STOPPED, 0 },
	{ GATE_STOPPED, GATE_STOP, GATE_STOPPED, 0 },
};

START_TEST(each_state_and_event_has_its_cell)
{
	ck_assert_uint_eq(ARRAY_LEN(cells), GATE_STATES * GATE_EVENTS);
	for (size_t i = 0; i < ARRAY_LEN(cells); i++) {
		const struct gate_step *s = gate_step(cells[i].state, cells[i].event);

		ck_assert_uint_eq(i, cells[i].state * GATE_EVENTS + cells[i].event);
		ck_assert_msg(s->next == cells[i].next && s->actions == cells[i].actions && s->text,
		              "%s, %s: next %s, actions %x", gate_state_name(cells[i].state),
		              events[cells[i].event], gate_state_name(s->next), s->actions);
	}
}
END_TEST

/* Rules for every cell. */
START_TEST(no_permission_without_a_stream)
{
	for (size_t i = 0; i < ARRAY_LEN(cells); i++) {
		const struct gate_step *s = gate_step(cells[i].state, cells[i].event);
		bool held = gate_permits(cells[i].state), after = gate_permits(s->next);

		ck_assert_msg(!after || held || (s->actions & GATE_TAKE), "row %zu opens", i);
		ck_assert_msg(after || !held || (s->actions & OVER) == OVER, "row %zu closes", i);
		ck_assert_msg(!(s->actions & GATE_RETIRE) || held, "row %zu retires nobody", i);
		ck_assert_msg(!(s->actions & GATE_ANNOUNCE) || after, "row %zu tells nobody", i);
		ck_assert_msg(!(s->actions & GATE_REFUSE) || s->next == cells[i].state,
		              "row %zu refuses and changes", i);
	}
}
END_TEST

static const struct {
	const char *what, *asked;
	bool held;
	int64_t generation, new_one;
	enum gate_event want;
} requests[] = {
	{ "the first one", "n1", false, 0, 5, GATE_ENABLE },
	{ "after an end, any generation", "n1", false, 9, 5, GATE_ENABLE },
	{ "a newer one", "n1", true, 5, 6, GATE_ENABLE },
	{ "the same, of a daemon that started anew", "n1", true, 5, 5, GATE_ENABLE },
	{ "an older one", "n1", true, 5, 4, GATE_OUTDATED },
	{ "another node's", "n2", false, 0, 5, GATE_WRONG_NODE },
	{ "another node's, and older", "n2", true, 5, 4, GATE_WRONG_NODE },
	{ "no name", "", false, 0, 5, GATE_WRONG_NODE },
	{ "a name that begins alike", "n1.example", false, 0, 5, GATE_WRONG_NODE },
};

START_TEST(a_request_is_judged_by_node_and_generation)
{
	ck_assert_msg(gate_event_of("n1", requests[_i].asked, requests[_i].held,
	                            requests[_i].generation,
	                            requests[_i].new_one) == requests[_i].want,
	              "%s", requests[_i].what);
}
END_TEST

/* ---- the meaning of a state ---- */

static const struct {
	const char *what, *closed, *held, *test;
} meanings[] = {
	{ "NodeStageVolume of a volume that is not staged",
	  "UNAVAILABLE; the text names the gate and its socket, and since when it is closed",
	  "as without the gate", "`gate: another volume is UNAVAILABLE`" },
	{ "NodeStageVolume of a staged volume (kubelet was restarted)", "OK, nothing is changed",
	  "OK", "`gate: what is staged stays staged for a kubelet that asks again`" },
	{ "a stage that waits (device, mkfs, e2fsck) when the stream ends",
	  "UNAVAILABLE at once; a running tool continues, and the next stage joins it", "-",
	  "`gate: a stage that waits for its device ends UNAVAILABLE when the gate closes`" },
	{ "other calls for a volume (publish, unpublish, unstage, expand, statistics, health)",
	  "as without the gate", "as without the gate",
	  "`gate: it is published again`, `gate: and unstages`, `gate: it is measured`, `gate: its "
	  "health is told`" },
	{ "kernel modules, VFs, drivers of functions", "not loaded, created or bound",
	  "as without the gate", "`gate: no VFs are made`, `gate: VFs are made`" },
	{ "registration with kubelet", "only while a volume is staged or a stage runs",
	  "when the host is prepared; kept while a newer stream is prepared",
	  "`gate: the driver stays registered with something staged`, "
	  "`gate: then the driver leaves kubelet`" },
	{ "NodeGetInfo", "UNAVAILABLE, unless a volume is staged", "as without the gate",
	  "`gate: nor by a registrar beside it: NodeGetInfo is UNAVAILABLE`" },
	{ "/readyz", "503, with the reason",
	  "200 when the host is prepared, else 503 with the reason", "`gate: /readyz says so`" },
};

START_TEST(the_document_has_these_tables)
{
	struct str table AUTO(str_clear) = STR_INIT(100000);

	str_add(&table,
	        "| state | event | then | what the driver does |\n| --- | --- | --- | --- |\n");
	for (size_t i = 0; i < ARRAY_LEN(cells); i++) {
		const struct gate_step *s = gate_step(cells[i].state, cells[i].event);

		str_addf(&table, "| %s | %s | %s | %s |\n", gate_state_name(cells[i].state),
		         events[cells[i].event], gate_state_name(s->next), s->text);
	}
	doc_table_check("test/reports/gate.md", "cells", table.ptr);
	str_clear(&table);
	table = (struct str)STR_INIT(100000);
	str_add(&table, "| what | closed | a stream is held |\n| --- | --- | --- |\n");
	for (size_t i = 0; i < ARRAY_LEN(meanings); i++)
		str_addf(&table, "| %s | %s | %s |\n", meanings[i].what, meanings[i].closed,
		         meanings[i].held);
	doc_table_check("docs/operate/gate.md", "calls", table.ptr);
	str_clear(&table);
	table = (struct str)STR_INIT(100000);
	str_add(&table, "| what | test |\n| --- | --- |\n");
	for (size_t i = 0; i < ARRAY_LEN(meanings); i++)
		str_addf(&table, "| %s | %s |\n", meanings[i].what, meanings[i].test);
	doc_table_check("test/reports/gate.md", "calls", table.ptr);
}
END_TEST

/* The check of that name in test/e2e/gate.sh. */
START_TEST(the_named_checks_exist)
{
	char *script AUTO(free) = NULL;
	struct err err = ERR_INIT;
	unsigned n = 0;

	ck_assert_int_eq(file_read("test/e2e/gate.sh", 1 << 20, &script, NULL, &err), 0);
	for (size_t i = 0; i < ARRAY_LEN(meanings); i++)
		for (const char *at = meanings[i].test; (at = strstr(at, "`gate: ")); n++) {
			const char *name = at + strlen("`gate: "), *end = strchr(name, '`');
			char *check AUTO(free) = xasprintf("check '%.*s'", (int)(end - name), name);

			ck_assert_msg(strstr(script, check) != NULL, "there is no %s", check);
			at = end + 1;
		}
	ck_assert_uint_ge(n, ARRAY_LEN(meanings));
}
END_TEST

SUITE("gate", each_state_and_event_has_its_cell, no_permission_without_a_stream,
      LOOP(a_request_is_judged_by_node_and_generation, ARRAY_LEN(requests)),
      the_document_has_these_tables, the_named_checks_exist);
