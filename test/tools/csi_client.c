/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client on gRPC's C core.  The socket is connected here and handed over, so that
 * waiting for a server that is just starting has none of gRPC's back-off in it.
 * Every call is one batch, plucked from a queue of its own.  No security, no
 * compression, no retries.
 */
#include "test/tools/csi_client.h"

#include <errno.h>
#include <fcntl.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/str.h"

struct csi_client {
	grpc_channel *channel;
	grpc_completion_queue *queue;
};

static int unix_address(const char *endpoint, struct sockaddr_un *ret, struct err *err)
{
	static const char *const schemes[] = { "unix://", "unix:" };
	const char *path = endpoint;
	for (size_t i = 0; i < ARRAY_LEN(schemes) && path == endpoint; i++)
		if (str_has_prefix(endpoint, schemes[i]))
			path = endpoint + strlen(schemes[i]);
	*ret = (struct sockaddr_un) { .sun_family = AF_UNIX };
	if (strlen(path) >= sizeof(ret->sun_path))
		return err_set(err, ERR_INVALID, "%s: longer than a socket's path may be", path);
	memcpy(ret->sun_path, path, strlen(path) + 1);
	return 0;
}

static int connect_socket(const struct sockaddr_un *address, struct deadline deadline, int *ret,
                          struct err *err)
{
	for (;;) {
		int fd AUTO(fd) = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd < 0)
			return err_sys(err, errno, "make a socket");
		if (!connect(fd, (const struct sockaddr *)address, sizeof(*address))) {
			fcntl(fd, F_SETFL, O_NONBLOCK);
			*ret = TAKE_FD(fd);
			return 0;
		}
		if (deadline_passed(deadline))
			return err_sys(err, errno, "connect to %s", address->sun_path);
		nanosleep(&(struct timespec) { .tv_nsec = 200 * 1000 }, NULL);
	}
}

int csi_client_new(const char *endpoint, struct deadline deadline, struct csi_client **ret,
                   struct err *err)
{
	struct sockaddr_un address;
	int fd AUTO(fd) = -1;
	grpc_init();
	if (unix_address(endpoint, &address, err) || connect_socket(&address, deadline, &fd, err)) {
		grpc_shutdown();
		return -1;
	}
	struct csi_client *c = xcalloc(1, sizeof(*c));
	grpc_channel_credentials *none = grpc_insecure_credentials_create();
	c->channel = grpc_channel_create_from_fd("localhost", TAKE_FD(fd), none, NULL);
	grpc_channel_credentials_release(none);
	c->queue = grpc_completion_queue_create_for_pluck(NULL);
	*ret = c;
	return 0;
}

void csi_client_free(struct csi_client *c)
{
	if (!c)
		return;
	grpc_channel_destroy(c->channel);
	grpc_completion_queue_shutdown(c->queue);
	grpc_completion_queue_pluck(c->queue, NULL, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
	grpc_completion_queue_destroy(c->queue);
	free(c);
	grpc_shutdown();
}

/* What a call receives. */
struct answer {
	grpc_metadata_array initial, trailing;
	grpc_byte_buffer *message;
	grpc_status_code status;
	grpc_slice details;
};

static void answer_clear(struct answer *a)
{
	grpc_metadata_array_destroy(&a->initial);
	grpc_metadata_array_destroy(&a->trailing);
	if (a->message)
		grpc_byte_buffer_destroy(a->message);
	grpc_slice_unref(a->details);
}

static void run_batch(struct csi_client *c, grpc_call *call, grpc_byte_buffer *request,
                      struct answer *a)
{
	grpc_op ops[] = {
		{ .op = GRPC_OP_SEND_INITIAL_METADATA },
		{ .op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = request },
		{ .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT },
		{ .op = GRPC_OP_RECV_INITIAL_METADATA,
		  .data.recv_initial_metadata.recv_initial_metadata = &a->initial },
		{ .op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &a->message },
		{ .op = GRPC_OP_RECV_STATUS_ON_CLIENT,
		  .data.recv_status_on_client = { .trailing_metadata = &a->trailing,
		                                  .status = &a->status,
		                                  .status_details = &a->details } },
	};
	if (grpc_call_start_batch(call, ops, ARRAY_LEN(ops), a, NULL) != GRPC_CALL_OK)
		abort();
	grpc_completion_queue_pluck(c->queue, a, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
}

static int answer_take(struct answer *a, const char *path, uint8_t **ret_out, size_t *ret_n_out,
                       struct err *err)
{
	if (a->status != GRPC_STATUS_OK)
		return err_set(err, (enum err_code)a->status, "%.*s",
		               (int)GRPC_SLICE_LENGTH(a->details),
		               (const char *)GRPC_SLICE_START_PTR(a->details));
	grpc_byte_buffer_reader reader;
	if (!a->message || !grpc_byte_buffer_reader_init(&reader, a->message))
		return err_set(err, ERR_INTERNAL, "%s: OK without a message", path);
	grpc_slice bytes = grpc_byte_buffer_reader_readall(&reader);
	*ret_n_out = GRPC_SLICE_LENGTH(bytes);
	*ret_out = xmalloc(*ret_n_out + 1);
	memcpy(*ret_out, GRPC_SLICE_START_PTR(bytes), *ret_n_out);
	grpc_slice_unref(bytes);
	grpc_byte_buffer_reader_destroy(&reader);
	return 0;
}

int csi_client_call(struct csi_client *c, const char *path, const uint8_t *in, size_t n_in,
                    int timeout_ms, uint8_t **ret_out, size_t *ret_n_out, struct err *err)
{
	gpr_timespec deadline = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
	                                     gpr_time_from_millis(timeout_ms, GPR_TIMESPAN));
	struct answer a = { .details = grpc_empty_slice() };
	grpc_metadata_array_init(&a.initial);
	grpc_metadata_array_init(&a.trailing);
	grpc_slice bytes = grpc_slice_from_copied_buffer((const char *)in, n_in);
	grpc_byte_buffer *request = grpc_raw_byte_buffer_create(&bytes, 1);
	grpc_call *call =
		grpc_channel_create_call(c->channel, NULL, GRPC_PROPAGATE_DEFAULTS, c->queue,
	                                 grpc_slice_from_copied_string(path), NULL, deadline, NULL);
	run_batch(c, call, request, &a);
	int r = answer_take(&a, path, ret_out, ret_n_out, err);
	grpc_call_unref(call);
	grpc_byte_buffer_destroy(request);
	grpc_slice_unref(bytes);
	answer_clear(&a);
	return r;
}
