/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes due when something is told of an attachment, and what waits for what. */
#include "test/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "host/followed.h"

#define SECOND INT64_C(1000000000)

static struct followed_table table;
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
	followed_told(&table, &f, now);
}

/* "attach name", "detach name", "rest name", or "-". */
static const char *due(void)
{
	static const char *const words[] = { "rest", "attach", "detach" };
	static char text[100];
	struct followed *f = followed_due(&table, now, NULL);

	if (!f)
		return "-";
	snprintf(text, sizeof(text), "%s %s", words[followed_step(f)], f->name);
	return text;
}

static struct followed *run(const char *want)
{
	struct followed *f = followed_due(&table, now, NULL);

	ck_assert_str_eq(due(), want);
	followed_run(f, now);
	return f;
}

static void does(const char *want, enum followed_state state)
{
	followed_done(&table, run(want), state, state == FOLLOWED_FAILED ? "why" : "", now);
}

static void is_due(const char *want)
{
	ck_assert_str_eq(due(), want);
}

static void rests(void)
{
	is_due("rest a");
	followed_rest(followed_due(&table, now, NULL));
	is_due("-");
}

static void end(void)
{
	followed_clear(&table);
}

START_TEST(an_attachment_lives_once)
{
	tell("a", "1", "v", "");
	rests();
	tell("a", "1", "v", "ready");
	does("attach a", FOLLOWED_ATTACHED);
	is_due("-");
	tell("a", "1", "v", "ready");
	is_due("-");
	tell("a", "1", "v", "ready deleting");
	does("detach a", FOLLOWED_DETACHED);
	is_due("-");
	followed_gone(&table, "1", now);
	does("detach a", FOLLOWED_DETACHED);
	ck_assert_ptr_null(table.first);
	followed_gone(&table, "1", now);
	end();
}
END_TEST

START_TEST(what_is_unready_again_stays_attached)
{
	tell("a", "1", "v", "ready");
	does("attach a", FOLLOWED_ATTACHED);
	tell("a", "1", "v", "");
	rests();
	ck_assert_int_eq(table.first->state, FOLLOWED_ATTACHED);
	tell("a", "1", "v", "ready");
	does("attach a", FOLLOWED_ATTACHED);
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
		does("attach a", FOLLOWED_FAILED);
		is_due("-");
		followed_due(&table, now, &at);
		ck_assert_int_eq(at, now + seconds[i] * SECOND);
		now = at;
	}
	is_due("attach a");
	does("attach a", FOLLOWED_FAILED);
	tell("a", "1", "v", "ready pci=26:00.3");
	is_due("attach a");
	for (int i = 0; i < 100; i++) {
		does("attach a", FOLLOWED_FAILED);
		followed_due(&table, now, &at);
		ck_assert_int_le(at - now, FOLLOWED_PAUSE_MOST_MS * (SECOND / 1000));
		now = at;
	}
	end();
}
END_TEST

START_TEST(a_reason_is_news_once)
{
	struct followed *f;

	tell("a", "1", "v", "ready");
	f = run("attach a");
	ck_assert(followed_done(&table, f, FOLLOWED_FAILED, "busy", now));
	now += SECOND;
	f = run("attach a");
	ck_assert(!followed_done(&table, f, FOLLOWED_FAILED, "busy", now));
	now += 2 * SECOND;
	f = run("attach a");
	ck_assert(followed_done(&table, f, FOLLOWED_FAILED, "gone", now));
	now += 4 * SECOND;
	f = run("attach a");
	ck_assert(followed_done(&table, f, FOLLOWED_ATTACHED, "", now));
	ck_assert(followed_again(f, "DeviceGone", now));
	ck_assert(!followed_again(f, "DeviceGone", now));
	is_due("attach a");
	end();
}
END_TEST

START_TEST(a_deletion_cancels_the_attach_that_runs)
{
	struct followed *f;

	tell("a", "1", "v", "ready");
	f = run("attach a");
	tell("a", "1", "v", "ready pci=26:00.2");
	ck_assert(!cancel_is_set(&f->cancel));
	tell("a", "1", "v", "ready deleting");
	ck_assert(cancel_is_set(&f->cancel));
	is_due("-");
	followed_done(&table, f, FOLLOWED_FAILED, "cancelled", now);
	f = run("detach a");
	ck_assert(!cancel_is_set(&f->cancel));
	/* Told of the end while it is at it: once more, and then it is forgotten. */
	followed_gone(&table, "1", now);
	ck_assert(!cancel_is_set(&f->cancel));
	followed_done(&table, f, FOLLOWED_FAILED, "busy", now);
	does("detach a", FOLLOWED_DETACHED);
	ck_assert_ptr_null(table.first);
	end();
}
END_TEST

START_TEST(what_a_list_has_not_is_asked_for)
{
	followed_begin(&table);
	tell("a", "1", "v", "ready");
	followed_complete(&table, now);
	does("attach a", FOLLOWED_ATTACHED);
	followed_begin(&table);
	is_due("-");
	followed_complete(&table, now);
	is_due("detach a");
	ck_assert(table.first->missing && !table.first->gone);
	followed_found(run("detach a"));
	followed_done(&table, table.first, FOLLOWED_WAITING, "", now);
	does("attach a", FOLLOWED_ATTACHED);
	/* A second list brings it. */
	followed_begin(&table);
	tell("a", "1", "v", "ready");
	followed_complete(&table, now);
	is_due("-");
	followed_remember(&table, "b", "2", "w", now);
	followed_remember(&table, "a", "1", "v", now);
	is_due("detach b");
	followed_gone(&table, "2", now);
	does("detach b", FOLLOWED_DETACHED);
	is_due("-");
	end();
}
END_TEST

START_TEST(one_attachment_of_a_volume_at_a_time)
{
	struct followed *f;

	tell("a", "1", "v", "ready");
	does("attach a", FOLLOWED_ATTACHED);
	/* The same name anew: the one before goes first, and is busy. */
	tell("a", "2", "v", "ready");
	f = run("detach a");
	ck_assert_str_eq(f->uid, "1");
	is_due("-");
	followed_done(&table, f, FOLLOWED_FAILED, "busy", now);
	is_due("-");
	now += SECOND;
	does("detach a", FOLLOWED_DETACHED);
	f = run("attach a");
	ck_assert_str_eq(f->uid, "2");
	followed_done(&table, f, FOLLOWED_ATTACHED, "", now);
	/* Another name for the same volume: it waits, and is not in the way of the first. */
	tell("b", "3", "v", "ready");
	is_due("-");
	ck_assert_str_eq(table.first->next->why, "attachment a has this volume");
	tell("c", "4", "other", "ready");
	does("attach c", FOLLOWED_ATTACHED);
	tell("a", "2", "v", "deleting");
	does("detach a", FOLLOWED_DETACHED);
	does("attach b", FOLLOWED_ATTACHED);
	end();
}
END_TEST

/* Later writes to the object, by DPF or another client, do not keep its disk attached. */
START_TEST(one_that_cannot_be_judged_still_ends)
{
	tell("a", "1", "v", "ready");
	does("attach a", FOLLOWED_ATTACHED);
	tell("a", "1", "v", "ready odd");
	rests();
	ck_assert_int_eq(table.first->state, FOLLOWED_ATTACHED);
	/* A list has it: it is not missing. */
	followed_begin(&table);
	tell("a", "1", "v", "ready odd");
	followed_complete(&table, now);
	is_due("-");
	tell("a", "1", "v", "ready odd deleting");
	does("detach a", FOLLOWED_DETACHED);
	followed_gone(&table, "1", now);
	does("detach a", FOLLOWED_DETACHED);
	ck_assert_ptr_null(table.first);
	/* One that was never read otherwise. */
	tell("b", "2", "w", "ready odd");
	ck_assert_str_eq(table.first->why, FAULT);
	followed_clear(&table);
	tell("b", "2", "../w", "ready odd");
	ck_assert_ptr_null(table.first);
}
END_TEST

SUITE("followed", one_that_cannot_be_judged_still_ends, an_attachment_lives_once,
      what_is_unready_again_stays_attached, a_failure_is_tried_again_in_bounded_intervals,
      a_reason_is_news_once, a_deletion_cancels_the_attach_that_runs,
      what_a_list_has_not_is_asked_for, one_attachment_of_a_volume_at_a_time);
