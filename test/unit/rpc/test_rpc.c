/* SPDX-License-Identifier: Apache-2.0 */
/* A call from bytes to bytes, without a transport. */
#include <stdlib.h>
#include <string.h>

#include "csi/csi.pb-c.h"

#include "common/limits.h"
#include "rpc/rpc.h"
#include "common/str.h"
#include "test/lib/suite.h"

#define BYTES(s) (const uint8_t *)(s), sizeof(s) - 1

static int entered;
static const char *secret; /* of the message; set by the handler */

static int delete_volume(void *self, struct rpc_call *call, const void *req,
                         ProtobufCMessage **resp, struct err *err)
{
	const Csi__V1__DeleteVolumeRequest *r = req;

	(void)self;
	entered++;
	if (r->n_secrets) {
		secret = r->secrets[0]->value;
		ck_assert_str_eq(secret, "key");
	}
	if (str_eq(r->volume_id, "bad"))
		return err_set(err, ERR_PRECONDITION, "volume bad is attached");
	if (str_eq(r->volume_id, "wrong-type"))
		*resp = RPC_NEW(call, csi__v1__probe_response);
	else if (!str_eq(r->volume_id, "nothing"))
		*resp = RPC_NEW(call, csi__v1__delete_volume_response);
	return str_eq(r->volume_id, "silent") ? -1 : 0;
}

static const char *delete_key(struct rpc_call *call, const void *req)
{
	(void)call;
	return ((const Csi__V1__DeleteVolumeRequest *)req)->volume_id;
}

static int get_volume(void *self, struct rpc_call *call, const void *req, ProtobufCMessage **resp,
                      struct err *err)
{
	Csi__V1__ControllerGetVolumeResponse *r =
		RPC_NEW(call, csi__v1__controller_get_volume_response);

	(void)req;
	(void)err;
	r->volume = RPC_NEW(call, csi__v1__volume);
	r->volume->volume_id = self;
	*resp = &r->base;
	return 0;
}

static const struct rpc_method methods[] = {
	{ "DeleteVolume", delete_volume, .key = delete_key },
	{ "ControllerGetVolume", get_volume, .key = NULL },
	{ "NoSuchMethod", get_volume, .key = NULL },
};

static struct rpc_service service = {
	.descriptor = &csi__v1__controller__descriptor,
	.methods = methods,
	.n_methods = ARRAY_LEN(methods),
	.self = (void *)"pvc-1",
};

static int dispatch(size_t method, const uint8_t *in, size_t n, uint8_t **out, size_t *n_out,
                    struct err *err)
{
	struct rpc_call call;
	int rc;

	rpc_call_init(&call, "/csi.v1.Controller/Test");
	*out = NULL;
	*n_out = 99;
	rc = rpc_dispatch(&service, &methods[method], &call, in, n, out, n_out, err);
	rpc_call_clear(&call);
	return rc;
}

static const struct {
	const char *what;
	size_t method;
	const char *in;
	size_t n;
	int code;
	const char *text;
} rows[] = {
	{ "success", 0, "\x0a\x01v", 3, ERR_OK, "" },
	{ "an empty request", 0, "", 0, ERR_OK, "" },
	{ "the handler's error", 0,
	  "\x0a\x03"
	  "bad",
	  5, ERR_PRECONDITION, "volume bad is attached" },
	{ "an error without a text", 0, "\x0a\x06silent", 8, ERR_INTERNAL,
	  "DeleteVolume ended without an answer" },
	{ "no answer", 0, "\x0a\x07nothing", 9, ERR_INTERNAL,
	  "DeleteVolume ended without an answer" },
	{ "an answer of another method", 0, "\x0a\x0awrong-type", 12, ERR_INTERNAL,
	  "DeleteVolume answered with a csi.v1.ProbeResponse" },
	{ "bytes that are no message", 0, "\xff", 1, ERR_INVALID, "malformed DeleteVolumeRequest" },
	{ "a NUL", 0,
	  "\x0a\x03"
	  "a\0b",
	  5, ERR_INVALID, "volume_id contains a NUL byte" },
	{ "a row that names no method", 2, "", 0, ERR_INTERNAL, "has no method NoSuchMethod" },
};

START_TEST(a_call_ends_with_its_code)
{
	struct err err = ERR_INIT;
	uint8_t *out;
	size_t n_out;
	int rc;

	service.locks = keylock_new();
	rc = dispatch(rows[_i].method, (const uint8_t *)rows[_i].in, rows[_i].n, &out, &n_out,
	              &err);
	ck_assert_msg(rc == (rows[_i].code ? -1 : 0) && (int)err.code == rows[_i].code &&
	                      strstr(err.msg, rows[_i].text),
	              "%s: %d %d \"%s\"", rows[_i].what, rc, (int)err.code, err.msg);
	if (rc == 0) {
		ck_assert_ptr_null(out);
		ck_assert_uint_eq(n_out, 0);
	}
	service.locks = keylock_free(service.locks); /* nothing is held */
}
END_TEST

START_TEST(the_answer_is_packed)
{
	struct err err = ERR_INIT;
	Csi__V1__ControllerGetVolumeResponse *r;
	uint8_t *out;
	size_t n;

	ck_assert_int_eq(dispatch(1, NULL, 0, &out, &n, &err), 0);
	r = csi__v1__controller_get_volume_response__unpack(NULL, n, out);
	ck_assert_str_eq(r->volume->volume_id, "pvc-1");
	csi__v1__controller_get_volume_response__free_unpacked(r, NULL);
	free(out);
}
END_TEST

START_TEST(a_locked_volume_aborts_and_runs_nothing)
{
	struct keylock_hold *hold;
	struct err err = ERR_INIT;
	uint8_t *out;
	size_t n;

	service.locks = keylock_new();
	ck_assert_int_eq(keylock_take(service.locks, "v", "CreateVolume", &hold, &err), 0);
	entered = 0;
	ck_assert_int_eq(dispatch(0, BYTES("\x0a\x01v"), &out, &n, &err), -1);
	ck_assert_int_eq(err.code, ERR_ABORTED);
	ck_assert_msg(strstr(err.msg, "CreateVolume has been running") != NULL, "%s", err.msg);
	ck_assert_int_eq(entered, 0);
	keylock_release(hold);
	service.locks = keylock_free(service.locks);
}
END_TEST

START_TEST(what_unpacks_beyond_the_arena_is_refused)
{
	size_t n = LIMIT_RPC_MESSAGE / 2 * 2;
	uint8_t *in AUTO(free) = xmalloc(n);
	struct err err = ERR_INIT;
	uint8_t *out;
	size_t n_out;

	for (size_t i = 0; i < n; i += 2)
		memcpy(in + i, "\x7a\x00", 2); /* an unknown field, empty */
	ck_assert_int_eq(dispatch(1, in, n, &out, &n_out, &err), -1);
	ck_assert_int_eq(err.code, ERR_EXHAUSTED);
	ck_assert_msg(strstr(err.msg, "ControllerGetVolumeRequest needs more than") != NULL, "%s",
	              err.msg);
}
END_TEST

#define LONG 100000

/* Field 2047, of LONG bytes. */
static uint8_t *put_unknown(uint8_t *at)
{
	static const uint8_t tag[] = { 0xfa, 0x7f, 0xa0, 0x8d, 0x06 };

	at = mempcpy(at, tag, sizeof(tag));
	return (uint8_t *)memset(at, 'x', LONG) + LONG;
}

/* In the request, and in a nested message. */
START_TEST(what_is_unknown_takes_no_memory_of_the_call)
{
	/* A name, and a capability of 100,007 bytes that begins with its block. */
	static const uint8_t head[] = "\x0a\x01v\x1a\xa7\x8d\x06\x0a\x00";
	static const struct rpc_method validate = { .name = "ValidateVolumeCapabilities" };
	uint8_t *in AUTO(free) = xmalloc(sizeof(head) + 3 * LONG), *end;
	const Csi__V1__ValidateVolumeCapabilitiesRequest *req;
	struct err err = ERR_INIT;
	struct rpc_call call;
	ProtobufCMessage *m;

	end = put_unknown(put_unknown(mempcpy(in, head, sizeof(head) - 1)));
	rpc_call_init(&call, "/csi.v1.Controller/Test");
	ck_assert_msg(rpc_unpack(&service, &validate, &call, in, (size_t)(end - in), &m, &err) == 0,
	              "%s", err.msg);
	req = (const Csi__V1__ValidateVolumeCapabilitiesRequest *)m;
	ck_assert_str_eq(req->volume_id, "v");
	ck_assert_uint_eq(req->n_volume_capabilities, 1);
	ck_assert_int_eq(req->volume_capabilities[0]->access_type_case,
	                 CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_BLOCK);
	ck_assert_uint_lt(call.arena.used, 1000);
	rpc_call_clear(&call);
}
END_TEST

START_TEST(methods_are_found_by_their_whole_path)
{
	static const struct {
		const char *path;
		const char *name;
	} paths[] = {
		{ "/csi.v1.Controller/DeleteVolume", "DeleteVolume" },
		{ "/csi.v1.Controller/ControllerGetVolume", "ControllerGetVolume" },
		{ "/csi.v1.Controller/DeleteVolum", NULL },
		{ "/csi.v1.Controller/DeleteVolumes", NULL },
		{ "/csi.v1.Controller/", NULL },
		{ "/csi.v1.Controlle/DeleteVolume", NULL },
		{ "csi.v1.Controller/DeleteVolume", NULL },
		{ "//csi.v1.Controller/DeleteVolume", NULL },
		{ "/csi.v1.Controller/x/DeleteVolume", NULL },
		{ "/DeleteVolume", NULL },
		{ "/", NULL },
		{ "", NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		const struct rpc_service *found = NULL;
		const struct rpc_method *m =
			rpc_find(&service, 1, paths[i].path, strlen(paths[i].path), &found);

		ck_assert_msg(paths[i].name
		                      ? m && str_eq(m->name, paths[i].name) && found == &service
		                      : !m && !found,
		              "%s", paths[i].path);
	}
}
END_TEST

START_TEST(every_call_has_an_id_of_its_own_and_no_deadline)
{
	struct rpc_call a, b;

	rpc_call_init(&a, "/a");
	rpc_call_init(&b, "/b");
	ck_assert(a.id != b.id && a.id && b.id);
	ck_assert_int_eq(a.deadline.at, DEADLINE_NEVER);
	ck_assert_ptr_eq(a.deadline.cancel, &a.cancel);
	rpc_call_clear(&a);
	rpc_call_clear(&b);
}
END_TEST

START_TEST(the_secrets_of_a_call_are_overwritten_at_its_end)
{
	static const struct {
		const char *in;
		size_t n;
		int code;
	} calls[] = {
		{ "\x0a\x01v\x12\x08\x0a\x01k\x12\x03key", 13, ERR_OK },
		{ "\x0a\x03"
		  "bad\x12\x08\x0a\x01k\x12\x03key",
		  15, ERR_PRECONDITION },
	};

	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		struct err err = ERR_INIT;
		struct rpc_call call;
		uint8_t *out = NULL;
		size_t n_out;

		secret = NULL;
		service.locks = keylock_new();
		rpc_call_init(&call, "/csi.v1.Controller/Test");
		IGNORE_RESULT(rpc_dispatch(&service, &methods[0], &call,
		                           (const uint8_t *)calls[i].in, calls[i].n, &out, &n_out,
		                           &err));
		ck_assert_int_eq(err.code, calls[i].code);
		ck_assert_ptr_nonnull(secret);
		ck_assert_mem_eq(secret, "\0\0\0", 4);
		rpc_call_clear(&call);
		service.locks = keylock_free(service.locks);
		free(out);
	}
}
END_TEST

SUITE("rpc", LOOP(a_call_ends_with_its_code, ARRAY_LEN(rows)), the_answer_is_packed,
      a_locked_volume_aborts_and_runs_nothing, what_unpacks_beyond_the_arena_is_refused,
      what_is_unknown_takes_no_memory_of_the_call, methods_are_found_by_their_whole_path,
      every_call_has_an_id_of_its_own_and_no_deadline,
      the_secrets_of_a_call_are_overwritten_at_its_end);
