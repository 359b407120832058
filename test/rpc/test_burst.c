/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The largest set of calls that a controller's sidecar may have open, sent in one burst over one
 * connection by a real client: the reaction of the relay and gRPC. external-provisioner sends its
 * CreateVolumes this way when the driver returns.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "csi/csi.pb-c.h"

#include "common/limits.h"
#include "common/log.h"
#include "common/sanitizer.h"
#include "common/str.h"
#include "rpc/csi_wire.h"
#include "test/lib/rpc_fixture.h"
#include "test/lib/wait.h"

/* ThreadSanitizer needs megabytes for each thread; both sanitizers keep freed memory. */
#define CALLS (SANITIZE_THREAD ? 300 : 2000)

_Static_assert(CALLS < LIMIT_RPC_STREAMS, "some are left for short calls");

/*
 * The size of each request. With 3,000 bytes the requests are a hundred times larger than HTTP/2's
 * initial window: streams are opened whose messages have to wait.
 */
static const size_t loads[] = { 0, 300, 3000 };

static uint8_t *request(int i, size_t load, size_t *ret_n)
{
	Csi__V1__NodeStageVolumeRequest q = CSI__V1__NODE_STAGE_VOLUME_REQUEST__INIT;
	Csi__V1__NodeStageVolumeRequest__VolumeContextEntry entry =
		CSI__V1__NODE_STAGE_VOLUME_REQUEST__VOLUME_CONTEXT_ENTRY__INIT;
	Csi__V1__NodeStageVolumeRequest__VolumeContextEntry *entries[] = { &entry };
	char *id AUTO(free) = xasprintf("volume-%d", i);
	char *value AUTO(free) = xcalloc(1, load + 1);
	uint8_t *bytes;

	memset(value, 'x', load);
	entry.key = (char *)"load";
	entry.value = value;
	q.volume_id = id;
	q.staging_target_path = (char *)"gate";
	q.n_volume_context = load ? 1 : 0;
	q.volume_context = entries;
	*ret_n = protobuf_c_message_get_packed_size(&q.base);
	bytes = xmalloc(*ret_n);
	protobuf_c_message_pack(&q.base, bytes);
	return bytes;
}

/* Waits for a call, and during that does the I/O of its connection, which all calls share. */
static void *wait_for(void *pending)
{
	struct rpc_answer answer;
	intptr_t code = rpc_pending_wait(pending, &answer);

	rpc_answer_clear(&answer);
	return (void *)code;
}

START_TEST(as_many_calls_as_a_sidecar_may_have_run_at_once)
{
	size_t load = loads[_i];
	struct rpc_fixture f AUTO(rpc_fixture_clear);
	struct rpc_pending *calls[CALLS];
	struct rpc_client *client;
	pthread_t io;
	void *code;

	rpc_fixture_init(&f);
	f.options.message_timeout_ms = 100000; /* on a busy machine the whole burst may take long */
	client = rpc_client_new(
		&(struct rpc_client_options) { .path = f.path, .wait_for_ready = true });
	for (int i = 0; i < CALLS; i++) {
		size_t n;
		uint8_t *in AUTO(free) = request(i, load, &n);

		calls[i] = rpc_client_start(client, STAGE, in, n, -1);
	}
	pthread_create(&io, NULL, wait_for, calls[0]);
	rpc_fixture_start(&f); /* all are sent at once when a server exists */
	ck_assert_msg(reaches(&f.stub.running, CALLS), "%d run", f.stub.running);
	ck_assert_int_eq(stage(client, "a-short-one", "", -1, NULL), ERR_OK);
	ck_assert_int_eq(probe(client, -1), ERR_OK);
	ck_assert_int_eq(f.stub.running, CALLS);
	stub_open(&f.stub);
	for (int i = 1; i < CALLS; i++)
		ck_assert_int_eq((intptr_t)wait_for(calls[i]), ERR_OK);
	pthread_join(io, &code);
	ck_assert_int_eq((intptr_t)code, ERR_OK);
	ck_assert_int_eq(f.stub.entered, CALLS + 1);
	rpc_client_free(client);
}
END_TEST

/* In pieces that threads do not cache (glibc caches up to 1,032 bytes). */
#define PIECES 20000
#define PIECE_BYTES 1500

static long resident_kb(void)
{
	FILE *f AUTO(fclose) = fopen("/proc/self/statm", "re");
	long size, resident;

	ck_assert_int_eq(fscanf(f, "%ld %ld", &size, &resident), 2);
	return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

START_TEST(what_calls_have_freed_is_given_back_while_they_wait)
{
	SETUP(f);
	struct rpc_pending *waiting = stage_start(f.client, "v", "gate", -1);
	static char *pieces[PIECES];
	long high;

	ck_assert(reaches(&f.stub.running, 1));
	for (size_t i = 0; i < PIECES; i++)
		pieces[i] = memset(xmalloc(PIECE_BYTES), 'x', PIECE_BYTES);
	high = resident_kb();
	for (size_t i = 0; i < PIECES; i++)
		if (i % 100)
			free(TAKE(pieces[i]));
	ck_assert_int_eq(probe(f.client, -1), ERR_OK);
	WAIT_UNTIL(SANITIZED || resident_kb() <= high / 2);
	for (size_t i = 0; i < PIECES; i += 100)
		free(pieces[i]);
	stub_open(&f.stub);
	ck_assert_int_eq((intptr_t)wait_for(waiting), ERR_OK);
}
END_TEST

/*
 * A field of a newer CSI makes the request large: the known fields have their own limits. The
 * client keeps sent data until the answer arrives.
 */
#define LARGE_CALLS 200
#define LARGE_BYTES (256 * 1024)
#define AT_ONCE 20 /* well below the limit for unfinished messages */

static struct rpc_pending *start_large(struct rpc_client *client, int i)
{
	static const uint8_t head[] = { 0xfa, 0x7f, 0x80, 0x80, 0x10 }; /* 2047, 256 KiB */
	size_t n;
	uint8_t *known AUTO(free) = request(i, 0, &n);
	uint8_t *in AUTO(free) = xcalloc(1, n + sizeof(head) + LARGE_BYTES);

	memcpy(in, known, n);
	memcpy(in + n, head, sizeof(head));
	return rpc_client_start(client, STAGE, in, n + sizeof(head) + LARGE_BYTES, -1);
}

START_TEST(calls_that_wait_keep_no_bytes_of_their_requests)
{
	SETUP(f);
	struct rpc_pending *calls[LARGE_CALLS];
	const long clients = LARGE_CALLS * (LARGE_BYTES / 1024);
	long before = resident_kb();
	pthread_t io;
	void *code;

	for (int i = 0; i < LARGE_CALLS; i++) {
		calls[i] = start_large(f.client, i);
		if (i == 0)
			pthread_create(&io, NULL, wait_for, calls[0]);
		if ((i + 1) % AT_ONCE == 0)
			ck_assert(reaches(&f.stub.running, i + 1));
	}
	/* Memory beyond the client's own is released. */
	WAIT_UNTIL(SANITIZED || resident_kb() - before <= clients * 5 / 4);
	stub_open(&f.stub);
	for (int i = 1; i < LARGE_CALLS; i++)
		ck_assert_int_eq((intptr_t)wait_for(calls[i]), ERR_OK);
	pthread_join(io, &code);
	ck_assert_int_eq((intptr_t)code, ERR_OK);
}
END_TEST

SUITE_TIMEOUT("rpc burst", 120, what_calls_have_freed_is_given_back_while_they_wait,
              calls_that_wait_keep_no_bytes_of_their_requests,
              LOOP(as_many_calls_as_a_sidecar_may_have_run_at_once, ARRAY_LEN(loads)));
