/* SPDX-License-Identifier: Apache-2.0 */
/* The steps that become due after an event, and the steps that wait for others. */
#include "test/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "host/tracked.h"

#define SECOND INT64_C(1000000000)

static struct tracked_table table;
static int64_t now;

#define FAULT "an attachment of the API server: spec.functionType: is not a string"

/* An attachment in words: "name uid volume", then "ready", "deleting", "odd", "pci=...". */
static void tell(const char *name, const char *uid, const char *volume, const char *words)
{
	struct attachment_file f AUTO(attachment_file_clear) = { .tree = NULL };
	struct json *tree = NULL;
	struct err err = ERR_INIT;
	const char *pci = strstr(words, "pci=");
	char *text AUTO(free) = xasprintf(
		"{\"metadata\":{\"name\":\"%s\",\"uid\":\"%s\"%s},\"spec\":{\"dpuNodeName\":\"n\","
		"\"dpuVolumeName\":\"%s\",\"functionType\":%s},\"status\":{\"dpuAttached\":%s,"
		"\"conditions\":[{\"type\":\"Ready\",\"status\":\"%s\"}],\"dpu\":{\"pciAddress\":"
		"\"%s\",\"nvmeAttrs\":{\"namespaceID\":1}}}}",
		name, uid,
		strstr(words, "deleting") ? ",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"" : "",
		volume, strstr(words, "odd") ? "[7]" : "\"vf\"",
		strstr(words, "ready") ? "true" : "false",
		strstr(words, "ready") ? "True" : "False", pci ? pci + 4 : "26:00.1");

	ck_assert_int_eq(json_parse("it", text, strlen(text), &tree, &err), 0);
	attachment_take(tree, &f);
	ck_assert_int_eq(!*f.fault, !strstr(words, "odd"));
	tracked_update(&table, &f, now);
}

/* "attach name", "detach name", "rest name", or "-". */
static const char *due(void)
{
	static const char *const words[] = { "rest", "attach", "detach" };
	static char text[100];
	struct tracked *f = tracked_due(&table, now, NULL);

	if (!f)
		return "-";
	snprintf(text, sizeof(text), "%s %s", words[tracked_step(f)], f->name);
	return text;
}

static struct tracked *run(const char *want)
{
	struct tracked *f = tracked_due(&table, now, NULL);

	ck_assert_str_eq(due(), want);
	tracked_start(f, now);
	return f;
}

static void does(const char *want, enum tracked_state state)
{
	tracked_done(&table, run(want), state, state == TRACKED_FAILED ? "why" : "", now);
}

static void is_due(const char *want)
{
	ck_assert_str_eq(due(), want);
}

static void rests(void)
{
	is_due("rest a");
	tracked_idle(tracked_due(&table, now, NULL));
	is_due("-");
}

static void end(void)
{
	tracked_clear(&table);
}

START_TEST(an_attachment_lives_once)
{
	tell("a", "1", "v", "");
	rests();
	tell("a", "1", "v", "ready");
	does("attach a", TRACKED_ATTACHED);
	is_due("-");
	tell("a", "1", "v", "ready");
	is_due("-");
	tell("a", "1", "v", "ready deleting");
	does("detach a", TRACKED_DETACHED);
	is_due("-");
	tracked_gone(&table, "1", now);
	does("detach a", TRACKED_DETACHED);
	ck_assert_ptr_null(table.first);
	tracked_gone(&table, "1", now);
	end();
}
END_TEST

START_TEST(what_is_unready_again_stays_attached)
{
	tell("a", "1", "v", "ready");
	does("attach a", TRACKED_ATTACHED);
	tell("a", "1", "v", "");
	rests();
	ck_assert_int_eq(table.first->state, TRACKED_ATTACHED);
	tell("a", "1", "v", "ready");
	does("attach a", TRACKED_ATTACHED);
	tell("a", "1", "v", "ready pci=26:00.2");
	is_due("attach a");
	end();
}
END_TEST

START_TEST(a_failure_is_tried_again_in_bounded_intervals)
{
	static const int seconds[] = { 1, 2, 4, 8, 16, 30, 30 };
	int64_t at;

	tell("a", "1", "v", "ready");
	for (size_t i = 0; i < ARRAY_LEN(seconds); i++) {
		does("attach a", TRACKED_FAILED);
		is_due("-");
		tracked_due(&table, now, &at);
		ck_assert_int_eq(at, now + seconds[i] * SECOND);
		now = at;
	}
	is_due("attach a");
	does("attach a", TRACKED_FAILED);
	tell("a", "1", "v", "ready pci=26:00.3");
	is_due("attach a");
	for (int i = 0; i < 100; i++) {
		does("attach a", TRACKED_FAILED);
		tracked_due(&table, now, &at);
		ck_assert_int_le(at - now, TRACKED_PAUSE_MOST_MS * (SECOND / 1000));
		now = at;
	}
	end();
}
END_TEST

START_TEST(a_reason_is_news_once)
{
	struct tracked *f;

	tell("a", "1", "v", "ready");
	f = run("attach a");
	ck_assert(tracked_done(&table, f, TRACKED_FAILED, "busy", now));
	now += SECOND;
	f = run("attach a");
	ck_assert(!tracked_done(&table, f, TRACKED_FAILED, "busy", now));
	now += 2 * SECOND;
	f = run("attach a");
	ck_assert(tracked_done(&table, f, TRACKED_FAILED, "gone", now));
	now += 4 * SECOND;
	f = run("attach a");
	ck_assert(tracked_done(&table, f, TRACKED_ATTACHED, "", now));
	ck_assert(tracked_retry(f, "DeviceGone", now));
	ck_assert(!tracked_retry(f, "DeviceGone", now));
	is_due("attach a");
	end();
}
END_TEST

START_TEST(a_deletion_cancels_the_attach_that_runs)
{
	struct tracked *f;

	tell("a", "1", "v", "ready");
	f = run("attach a");
	tell("a", "1", "v", "ready pci=26:00.2");
	ck_assert(!cancel_is_set(&f->cancel));
	tell("a", "1", "v", "ready deleting");
	ck_assert(cancel_is_set(&f->cancel));
	is_due("-");
	tracked_done(&table, f, TRACKED_FAILED, "cancelled", now);
	f = run("detach a");
	ck_assert(!cancel_is_set(&f->cancel));
	/*
	 * The object is deleted while the step runs: the step runs again, then the entry is freed.
	 */
	tracked_gone(&table, "1", now);
	ck_assert(!cancel_is_set(&f->cancel));
	tracked_done(&table, f, TRACKED_FAILED, "busy", now);
	does("detach a", TRACKED_DETACHED);
	ck_assert_ptr_null(table.first);
	end();
}
END_TEST

START_TEST(what_a_list_has_not_is_asked_for)
{
	tracked_list_begin(&table);
	tell("a", "1", "v", "ready");
	tracked_list_end(&table, now);
	does("attach a", TRACKED_ATTACHED);
	tracked_list_begin(&table);
	is_due("-");
	tracked_list_end(&table, now);
	is_due("detach a");
	ck_assert(table.first->missing && !table.first->gone);
	tracked_found(run("detach a"));
	tracked_done(&table, table.first, TRACKED_WAITING, "", now);
	does("attach a", TRACKED_ATTACHED);
	/* A second list has it. */
	tracked_list_begin(&table);
	tell("a", "1", "v", "ready");
	tracked_list_end(&table, now);
	is_due("-");
	tracked_restore(&table, "b", "2", "w", now);
	tracked_restore(&table, "a", "1", "v", now);
	is_due("detach b");
	tracked_gone(&table, "2", now);
	does("detach b", TRACKED_DETACHED);
	is_due("-");
	end();
}
END_TEST

START_TEST(one_attachment_of_a_volume_at_a_time)
{
	struct tracked *f;

	tell("a", "1", "v", "ready");
	does("attach a", TRACKED_ATTACHED);
	/* The same name with a new uid: the earlier attachment is detached first, and is busy. */
	tell("a", "2", "v", "ready");
	f = run("detach a");
	ck_assert_str_eq(f->uid, "1");
	is_due("-");
	tracked_done(&table, f, TRACKED_FAILED, "busy", now);
	is_due("-");
	now += SECOND;
	does("detach a", TRACKED_DETACHED);
	f = run("attach a");
	ck_assert_str_eq(f->uid, "2");
	tracked_done(&table, f, TRACKED_ATTACHED, "", now);
	/* Another name for the same volume: it waits, and does not block the first. */
	tell("b", "3", "v", "ready");
	is_due("-");
	ck_assert_str_eq(table.first->next->why, "attachment a already provides this volume");
	tell("c", "4", "other", "ready");
	does("attach c", TRACKED_ATTACHED);
	tell("a", "2", "v", "deleting");
	does("detach a", TRACKED_DETACHED);
	does("attach b", TRACKED_ATTACHED);
	end();
}
END_TEST

/* Later writes to the object, by DPF or another client, do not keep its disk attached. */
START_TEST(one_that_cannot_be_judged_still_ends)
{
	tell("a", "1", "v", "ready");
	does("attach a", TRACKED_ATTACHED);
	tell("a", "1", "v", "ready odd");
	rests();
	ck_assert_int_eq(table.first->state, TRACKED_ATTACHED);
	/* A list has it: it is not missing. */
	tracked_list_begin(&table);
	tell("a", "1", "v", "ready odd");
	tracked_list_end(&table, now);
	is_due("-");
	tell("a", "1", "v", "ready odd deleting");
	does("detach a", TRACKED_DETACHED);
	tracked_gone(&table, "1", now);
	does("detach a", TRACKED_DETACHED);
	ck_assert_ptr_null(table.first);
	/* An invalid attachment that was never read in another state. */
	tell("b", "2", "w", "ready odd");
	ck_assert_str_eq(table.first->why, FAULT);
	tracked_clear(&table);
	tell("b", "2", "../w", "ready odd");
	ck_assert_ptr_null(table.first);
}
END_TEST

SUITE("tracked", one_that_cannot_be_judged_still_ends, an_attachment_lives_once,
      what_is_unready_again_stays_attached, a_failure_is_tried_again_in_bounded_intervals,
      a_reason_is_news_once, a_deletion_cancels_the_attach_that_runs,
      what_a_list_has_not_is_asked_for, one_attachment_of_a_volume_at_a_time);
