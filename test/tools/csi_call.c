/* SPDX-License-Identifier: Apache-2.0 */
/*
 * csi-call: calls a CSI driver from a shell. The request is JSON or path=value words, the reply is
 * printed as JSON; a refusal is printed as "CODE: text" and is exit status 1. --stream reads a call
 * per line from stdin and answers each with one line that contains its time, --rate measures calls
 * per second. One thread, except for --rate, which has one per connection.
 */
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/json.h"
#include "common/mem.h"
#include "common/str.h"
#include "csi/csi.pb-c.h"
#include "csi/pluginregistration.pb-c.h"
#include "test/lib/rpc_client.h"
#include "test/lib/message_json.h"

static const ProtobufCServiceDescriptor *const services[] = {
	&csi__v1__identity__descriptor,
	&csi__v1__controller__descriptor,
	&csi__v1__node__descriptor,
	&csi__v1__group_controller__descriptor,
	&csi__v1__snapshot_metadata__descriptor,
	&pluginregistration__registration__descriptor,
};

struct options {
	const char *endpoint;
	int timeout_ms;
	bool stream, list, first;
	double rate_seconds;
	int parallel;
	int at_once;
};

struct method {
	char path[100]; /* "/csi.v1.Node/NodeStageVolume" */
	const ProtobufCMethodDescriptor *descriptor;
};

/* Finds a method by its name or its full path. */
static int find_method(const char *name, struct method *ret, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(services); i++) {
		for (unsigned m = 0; m < services[i]->n_methods; m++) {
			const ProtobufCMethodDescriptor *d = &services[i]->methods[m];
			snprintf(ret->path, sizeof(ret->path), "/%s/%s", services[i]->name,
			         d->name);
			if (!str_eq(name, d->name) && !str_eq(name, ret->path))
				continue;
			ret->descriptor = d;
			return 0;
		}
	}
	return err_set(err, ERR_INVALID, "no CSI method \"%s\"; csi-call --list names them", name);
}

static void list_methods(void)
{
	for (size_t i = 0; i < ARRAY_LEN(services); i++)
		for (unsigned m = 0; m < services[i]->n_methods; m++)
			printf("/%s/%s\n", services[i]->name, services[i]->methods[m].name);
}

/* ---- requests ---- */

/* Adds "a.b.c=value" to the object; a value that begins like JSON is parsed as JSON. */
static int add_assignment(struct json *root, const char *word, struct err *err)
{
	char *path AUTO(free) = xstrdup(word);
	char *value = strchr(path, '='), *rest = path;
	struct json *leaf = NULL;

	if (!value)
		return err_set(err, ERR_INVALID, "\"%s\" is neither JSON nor path=value", word);
	*value++ = '\0';
	if (*value != '{' && *value != '[')
		leaf = json_string(value);
	else if (json_parse(path, value, strlen(value), &leaf, err))
		return -1;
	for (char *dot; (dot = strchr(rest, '.')); rest = dot + 1) {
		*dot = '\0';
		root = json_sub(root, rest);
	}
	json_set(root, rest, leaf);
	return 0;
}

/* All words become one object; JSON words are merged into it. */
static int request_from_words(char *const *words, int n, struct json **ret, struct err *err)
{
	struct json *root AUTO(json_free) = json_object();

	for (int i = 0; i < n; i++) {
		struct json *part AUTO(json_free) = NULL;

		if (*words[i] != '{') {
			if (add_assignment(root, words[i], err))
				return -1;
			continue;
		}
		if (json_parse("the request", words[i], strlen(words[i]), &part, err))
			return -1;
		json_merge_patch(root, part);
	}
	*ret = TAKE(root);
	return 0;
}

struct client_call {
	struct method method;
	uint8_t *in;
	size_t n_in;
	struct json *reply; /* NULL: failed, err says why */
	struct err err;
	double ms;
};

static int call_prepare(struct client_call *c, const char *method, const struct json *request)
{
	struct arena arena = ARENA_INIT(0);
	ProtobufCMessage *message = NULL;
	int rc = find_method(method, &c->method, &c->err);
	if (!rc)
		rc = message_from_json(c->method.descriptor->input, request, &arena, &message,
		                       &c->err);
	if (!rc) {
		c->n_in = protobuf_c_message_get_packed_size(message);
		c->in = xmalloc(c->n_in + 1);
		protobuf_c_message_pack(message, c->in);
	}
	arena_clear(&arena);
	return rc;
}

static void call_clear(struct client_call *c)
{
	free(c->in);
	json_free(c->reply);
}

static int call_run(struct client_call *c, struct rpc_client *client, int timeout_ms)
{
	struct rpc_answer answer = { .code = 0 };
	ProtobufCMessage *m = NULL;
	int64_t start = monotonic_ns();
	int code =
		rpc_client_call_bytes(client, c->method.path, c->in, c->n_in, timeout_ms, &answer);

	c->ms = (double)(monotonic_ns() - start) / 1e6;
	if (code)
		err_set(&c->err, (enum err_code)code, "%s", answer.text);
	else if (!(m = protobuf_c_message_unpack(c->method.descriptor->output, NULL, answer.n,
	                                         answer.bytes)))
		err_set(&c->err, ERR_INTERNAL, "the reply is no %s",
		        c->method.descriptor->output->name);
	else
		c->reply = message_to_json(m);
	rpc_answer_clear(&answer);
	if (m)
		protobuf_c_message_free_unpacked(m, NULL);
	return c->reply ? 0 : -1;
}

/* The socket's path: after unix:// or unix:, or the text itself. */
static const char *socket_path(const char *endpoint)
{
	static const char *const schemes[] = { "unix://", "unix:" };
	for (size_t i = 0; i < ARRAY_LEN(schemes); i++)
		if (str_has_prefix(endpoint, schemes[i]))
			return endpoint + strlen(schemes[i]);
	return endpoint;
}

static struct rpc_client *new_client(const struct options *o)
{
	return rpc_client_new(&(struct rpc_client_options) { .path = socket_path(o->endpoint) });
}

/* Waits until a server listens on the socket, since gRPC's own retries back off by seconds. */
static int await_listener(const struct options *o, struct err *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct deadline deadline = deadline_in_ms(o->timeout_ms);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", socket_path(o->endpoint));
	for (;;) {
		int fd AUTO(fd) = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd < 0)
			return err_sys(err, errno, "make a socket");
		if (!connect(fd, (const struct sockaddr *)&address, sizeof(address)))
			return 0;
		if (deadline_passed(deadline))
			return err_sys(err, errno, "connect to %s", address.sun_path);
		nanosleep(&(struct timespec) { .tv_nsec = 200 * 1000 }, NULL);
	}
}

/* ---- one call, a stream, a rate ---- */

static int one_call(const struct options *o, struct rpc_client *client, char *const *words, int n)
{
	struct json *request AUTO(json_free) = NULL;
	struct client_call c = { .reply = NULL };
	int rc = request_from_words(words + 1, n - 1, &request, &c.err);
	if (!rc)
		rc = call_prepare(&c, words[0], request);
	if (!rc)
		rc = call_run(&c, client, o->timeout_ms);
	if (rc) {
		fprintf(stderr, "%s: %s\n", err_code_name(c.err.code), c.err.msg);
	} else if (o->first) {
		struct timespec now;
		clock_gettime(CLOCK_REALTIME, &now);
		printf("%lld.%06ld\n", (long long)now.tv_sec, now.tv_nsec / 1000);
	} else {
		char *text AUTO(free) = json_print_pretty(c.reply);
		puts(text);
	}
	call_clear(&c);
	return rc ? 1 : 0;
}

static void print_stream_answer(struct client_call *c, const char *method)
{
	struct json *line AUTO(json_free) = json_object();
	char *text AUTO(free) = NULL;
	char ms[32];

	snprintf(ms, sizeof(ms), "%.3f", c->ms);
	json_set_str(line, "method", method);
	json_set_str(line, "code", c->reply ? "OK" : err_code_name(c->err.code));
	json_set_str(line, "ms", ms);
	if (c->reply)
		json_set(line, "reply", TAKE(c->reply));
	else
		json_set_str(line, "error", c->err.msg);
	text = json_print(line);
	puts(text);
	fflush(stdout);
}

/* A line is a method, a space and a JSON object, which may be absent. */
static int stream(const struct options *o, struct rpc_client *client)
{
	char *line AUTO(free) = NULL;
	size_t size = 0;

	while (getline(&line, &size, stdin) > 0) {
		struct json *request AUTO(json_free) = NULL;
		struct client_call c = { .reply = NULL };
		const char *text = "{}";
		char *space;

		line[strcspn(line, "\n")] = '\0';
		space = strchr(line, ' ');
		if (space) {
			*space = '\0';
			text = space + 1;
		}
		if (!json_parse("the request", text, strlen(text), &request, &c.err) &&
		    !call_prepare(&c, line, request))
			IGNORE_RESULT(call_run(&c, client, o->timeout_ms));
		print_stream_answer(&c, line);
		call_clear(&c);
	}
	return 0;
}

struct caller {
	pthread_t thread;
	const struct options *options;
	const struct client_call *call;
	struct rpc_client *client;
	int64_t until;
	uint64_t calls, failures;
};

static void *caller_run(void *arg)
{
	struct caller *t = arg;
	while (monotonic_ns() < t->until) {
		struct rpc_answer answer = { .code = 0 };
		if (rpc_client_call_bytes(t->client, t->call->method.path, t->call->in,
		                          t->call->n_in, t->options->timeout_ms, &answer))
			t->failures++;
		t->calls++;
		rpc_answer_clear(&answer);
	}
	return NULL;
}

static int rate(const struct options *o, char *const *words, int n)
{
	struct caller *callers AUTO(free) = xcalloc((size_t)o->parallel, sizeof(*callers));
	struct json *request AUTO(json_free) = NULL;
	struct client_call c = { .reply = NULL };
	uint64_t calls = 0, failures = 0;
	int64_t start;
	double seconds;

	if (request_from_words(words + 1, n - 1, &request, &c.err) ||
	    call_prepare(&c, words[0], request)) {
		fprintf(stderr, "%s\n", c.err.msg);
		return 1;
	}
	start = monotonic_ns();
	for (int i = 0; i < o->parallel; i++) {
		callers[i] = (struct caller) {
			.options = o,
			.call = &c,
			.client = new_client(o),
			.until = start + (int64_t)(o->rate_seconds * 1e9),
		};
		if (pthread_create(&callers[i].thread, NULL, caller_run, &callers[i]))
			abort();
	}
	for (int i = 0; i < o->parallel; i++) {
		pthread_join(callers[i].thread, NULL);
		calls += callers[i].calls;
		failures += callers[i].failures;
		rpc_client_free(callers[i].client);
	}
	seconds = (double)(monotonic_ns() - start) / 1e9;
	printf("{\"calls\":%llu,\"failures\":%llu,\"per_second\":%.0f}\n",
	       (unsigned long long)calls, (unsigned long long)failures, (double)calls / seconds);
	call_clear(&c);
	return failures ? 1 : 0;
}

/* The text with each "%d" replaced by the number. */
static char *numbered(const char *text, int number)
{
	struct str all AUTO(str_clear) = STR_INIT(65536);

	for (const char *mark; (mark = strstr(text, "%d")); text = mark + 2)
		str_addf(&all, "%.*s%d", (int)(mark - text), text, number);
	str_add(&all, text);
	return str_take(&all);
}

/* Starts call `number`. NULL: its request is invalid. */
static struct rpc_pending *start_one(const struct options *o, struct rpc_client *client,
                                     char *const *words, int number, struct err *err)
{
	char *text AUTO(free) = numbered(words[1] ? words[1] : "{}", number);
	struct json *request AUTO(json_free) = NULL;
	struct client_call c = { .reply = NULL };
	struct rpc_pending *p = NULL;

	if (json_parse("the request", text, strlen(text), &request, err) == 0 &&
	    call_prepare(&c, words[0], request) == 0)
		p = rpc_client_start(client, c.method.path, c.in, c.n_in, o->timeout_ms);
	if (c.err.code)
		*err = c.err;
	call_clear(&c);
	return p;
}

/* All at the same time, on one connection; prints the number of successful calls. */
static int at_once(const struct options *o, struct rpc_client *client, char *const *words)
{
	struct rpc_pending **calls AUTO(free) = xcalloc((size_t)o->at_once, sizeof(*calls));
	struct err err = ERR_INIT;
	int ok = 0;

	for (int i = 0; i < o->at_once; i++) {
		calls[i] = start_one(o, client, words, i, &err);
		if (!calls[i]) {
			fprintf(stderr, "%s: %s\n", err_code_name(err.code), err.msg);
			exit(1);
		}
	}
	for (int i = 0; i < o->at_once; i++) {
		struct rpc_answer answer = { .code = 0 };

		ok += rpc_pending_wait(calls[i], &answer) == 0;
		rpc_answer_clear(&answer);
	}
	printf("{\"calls\":%d,\"ok\":%d}\n", o->at_once, ok);
	return ok == o->at_once ? 0 : 1;
}

/* ---- command line ---- */

static const char usage[] =
	"csi-call [OPTION...] METHOD [JSON | path=value]...\n"
	"csi-call [OPTION...] --stream       calls from stdin, one \"METHOD JSON\" per line\n"
	"csi-call --list                     the methods\n"
	"\n"
	"  -e, --endpoint=URL    unix:///csi/csi.sock; default: $CSI_ENDPOINT\n"
	"  -t, --timeout=SECONDS of one call; default 120\n"
	"      --first           waits until somebody listens; prints the time of day of the "
	"reply\n"
	"      --rate=SECONDS    calls as fast as it goes, prints calls per second\n"
	"      --parallel=N      connections for --rate; default 1\n"
	"      --at-once=N       N calls at the same time on one connection; a %d in the request is "
	"the number\n"
	"\n"
	"csi-call NodeGetVolumeStats volume_id=pvc-1 volume_path=/mnt/x\n"
	"csi-call ValidateVolumeCapabilities volume_id=pvc-1 "
	"volume_capabilities.mount.fs_type=ext4 \\\n"
	"         volume_capabilities.access_mode.mode=SINGLE_NODE_WRITER\n";

static int parse_options(int argc, char **argv, struct options *o)
{
	static const struct option long_options[] = {
		{ "endpoint", required_argument, NULL, 'e' },
		{ "timeout", required_argument, NULL, 't' },
		{ "stream", no_argument, NULL, 's' },
		{ "list", no_argument, NULL, 'l' },
		{ "first", no_argument, NULL, 'f' },
		{ "rate", required_argument, NULL, 'r' },
		{ "parallel", required_argument, NULL, 'p' },
		{ "at-once", required_argument, NULL, 'a' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	for (int c; (c = getopt_long(argc, argv, "e:t:h", long_options, NULL)) != -1;) {
		switch (c) {
		case 'e':
			o->endpoint = optarg;
			break;
		case 't':
			o->timeout_ms = (int)(strtod(optarg, NULL) * 1000);
			break;
		case 's':
			o->stream = true;
			break;
		case 'f':
			o->first = true;
			break;
		case 'l':
			o->list = true;
			break;
		case 'r':
			o->rate_seconds = strtod(optarg, NULL);
			break;
		case 'p':
			o->parallel = (int)strtol(optarg, NULL, 10);
			break;
		case 'a':
			o->at_once = (int)strtol(optarg, NULL, 10);
			break;
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			return -1;
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct options o = { .endpoint = getenv("CSI_ENDPOINT"),
		             .timeout_ms = 120 * 1000,
		             .parallel = 1 };
	struct err err = ERR_INIT;
	struct rpc_client *client;
	int status;

	if (parse_options(argc, argv, &o))
		return 2;
	if (o.list) {
		list_methods();
		return 0;
	}
	if (!o.endpoint || (!o.stream && optind == argc) || o.parallel < 1) {
		fputs(usage, stderr);
		return 2;
	}
	if (o.rate_seconds > 0)
		return rate(&o, argv + optind, argc - optind);
	if (o.first && await_listener(&o, &err)) {
		fprintf(stderr, "%s: %s\n", err_code_name(err.code), err.msg);
		return 1;
	}
	client = new_client(&o);
	if (o.at_once > 0)
		status = at_once(&o, client, argv + optind);
	else
		status = o.stream ? stream(&o, client)
		                  : one_call(&o, client, argv + optind, argc - optind);
	rpc_client_free(client);
	return status;
}
