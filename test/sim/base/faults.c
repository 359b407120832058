/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of faults, and their matching. One mutex, under which the regular expressions also run:
 * they and the names are short. Expressions are POSIX extended and not anchored.
 */
#include "test/sim/base/faults.h"

#include <regex.h>
#include <string.h>

#include "common/mem.h"
#include "common/str.h"

const char *const fault_kind_names[FAULT_KINDS] = {
	[FAULT_VOLUME_NEVER_BOUND] = "volume-never-bound",
	[FAULT_VOLUME_FAILURE] = "volume-failure",
	[FAULT_VOLUME_ERROR] = "volume-error",
	[FAULT_VOLUME_CAPACITY] = "volume-capacity",
	[FAULT_VOLUME_STUCK] = "volume-finalizer-stuck",
	[FAULT_ATTACHMENT_NEVER_READY] = "attachment-never-ready",
	[FAULT_ATTACHMENT_FAILURE] = "attachment-failure",
	[FAULT_ATTACHMENT_STUCK] = "attachment-finalizer-stuck",
	[FAULT_ATTACHMENT_MOVES] = "attachment-moves",
	[FAULT_ATTACHMENT_UNREADY] = "attachment-unready",
	[FAULT_ATTACHMENT_NO_READY] = "attachment-without-ready",
	[FAULT_DPU_NOT_READY] = "dpu-not-ready",
	[FAULT_CLUSTER_UNREACHABLE] = "cluster-unreachable",
	[FAULT_MISSING] = "missing",
	[FAULT_LATE] = "late",
	[FAULT_PCI_ZERO_FIRST] = "pci-zero-first",
	[FAULT_PCI_OTHER_FIRST] = "pci-other-first",
	[FAULT_WRONG_NSID] = "wrong-nsid",
	[FAULT_WRONG_UUID] = "wrong-uuid",
	[FAULT_WRONG_TAG] = "wrong-tag",
	[FAULT_TAG] = "tag",
	[FAULT_DEVICE_LATE] = "device-late",
	[FAULT_FOREIGN_DATA] = "foreign-data",
	[FAULT_BIND_REFUSED] = "bind-refused",
	[FAULT_BIND_IGNORED] = "bind-ignored",
};

static const char *const event_names[EVENT_FAULTS] = {
	[EVENT_AS_IT_IS] = "",
	[EVENT_LATE] = "late",
	[EVENT_DROPPED] = "dropped",
	[EVENT_TWICE] = "twice",
	[EVENT_BACKWARDS] = "backwards",
	[EVENT_FOREIGN] = "foreign",
	[EVENT_REPLACED_BY_ERROR] = "error",
	[EVENT_REPLACED_BY_GARBAGE] = "garbage",
};

struct fault {
	unsigned id;
	char *verb, *resource; /* NULL: any */
	regex_t name;
	bool has_name;
	bool is_dpf;
	uint64_t times, used; /* times 0: without limit */
	struct request_fault request;
	enum stream_fault stream;
	enum event_fault event;
	enum fault_kind kind;
	struct dpf_fault dpf;
	struct json *spec; /* as it was posted */
	struct fault *next;
};

struct faults {
	pthread_mutex_t lock;
	struct fault *list; /* under lock, oldest first; so are the next two */
	unsigned last_id;
	void (*changed)(void *arg); /* set once, before threads */
	void *arg;
};

static const char *const known_members[] = {
	"verb",     "resource",  "name",
	"times",    "latencyMs", "status",
	"reason",   "message",   "retryAfterSeconds",
	"applied",  "cut",       "hang",
	"unserved", "dropWatch", "expireWatch",
	"dpf",      "text",      "value",
	"ms",       "body",      "wrong",
	"event",    "muteWatch", "lateMs",
	"closed",
};

struct faults *faults_new(void)
{
	struct faults *f = xcalloc(1, sizeof(*f));

	pthread_mutex_init(&f->lock, NULL);
	return f;
}

static struct fault *fault_free(struct fault *x)
{
	if (!x)
		return NULL;
	free(x->verb);
	free(x->resource);
	if (x->has_name)
		regfree(&x->name);
	json_free(x->spec);
	free(x);
	return NULL;
}
DEFINE_AUTO(struct fault *, fault_free);

static size_t list_free(struct fault *list)
{
	size_t n = 0;

	while (list) {
		struct fault *next = list->next;

		fault_free(list);
		list = next;
		n++;
	}
	return n;
}

struct faults *faults_free(struct faults *f)
{
	if (!f)
		return NULL;
	list_free(f->list);
	pthread_mutex_destroy(&f->lock);
	free(f);
	return NULL;
}

void faults_on_change(struct faults *f, void (*fn)(void *arg), void *arg)
{
	f->changed = fn;
	f->arg = arg;
}

static void notify(struct faults *f)
{
	if (f->changed)
		f->changed(f->arg);
}

static int check_members(const struct json *spec, struct err *err)
{
	json_foreach (member, spec) {
		size_t i = 0;
		struct str list AUTO(str_clear) = STR_INIT(1024);

		while (i < ARRAY_LEN(known_members) && !str_eq(known_members[i], json_name(member)))
			i++;
		if (i < ARRAY_LEN(known_members))
			continue;
		for (i = 0; i < ARRAY_LEN(known_members); i++)
			str_addf(&list, " %s", known_members[i]);
		return err_set(err, ERR_INVALID, "fault: \"%s\" is no member; known are%s",
		               json_name(member), list.ptr);
	}
	return 0;
}

static int get_unsigned(const struct json *spec, const char *name, unsigned *ret, struct err *err)
{
	int64_t v = 0;
	int rc = json_get_i64(spec, name, &v, err);

	if (rc < 0)
		return -1;
	if (rc == 0 && (v < 0 || v > 1000000000))
		return err_set(err, ERR_INVALID, "fault: %s is out of range", name);
	if (rc == 0)
		*ret = (unsigned)v;
	return 0;
}

static int get_text(const struct json *spec, const char *name, char *buf, size_t n, struct err *err)
{
	const char *s = "";

	if (json_get_str(spec, name, &s, err) < 0)
		return -1;
	if (strlen(s) >= n)
		return err_set(err, ERR_INVALID, "fault: %s is longer than %zu", name, n - 1);
	memcpy(buf, s, strlen(s) + 1);
	return 0;
}

static int get_kind(const char *name, enum fault_kind *ret, struct err *err)
{
	struct str list AUTO(str_clear) = STR_INIT(1024);

	for (unsigned i = 0; i < FAULT_KINDS; i++) {
		if (str_eq(fault_kind_names[i], name)) {
			*ret = (enum fault_kind)i;
			return 0;
		}
		str_addf(&list, " %s", fault_kind_names[i]);
	}
	return err_set(err, ERR_INVALID, "fault: dpf \"%s\" is unknown; known are%s", name,
	               list.ptr);
}

static int get_event(const struct json *spec, struct fault *x, struct err *err)
{
	const char *name = "";

	if (json_get_str(spec, "event", &name, err) < 0)
		return -1;
	for (unsigned i = 0; i < EVENT_FAULTS; i++)
		if (str_eq(event_names[i], name)) {
			x->event = (enum event_fault)i;
			return 0;
		}
	return err_set(err, ERR_INVALID, "fault: event \"%s\" is unknown", name);
}

static int get_match(const struct json *spec, struct fault *x, struct err *err)
{
	const char *verb = NULL, *resource = NULL, *name = NULL;
	unsigned times = 0;

	if (json_get_str(spec, "verb", &verb, err) < 0 ||
	    json_get_str(spec, "resource", &resource, err) < 0 ||
	    json_get_str(spec, "name", &name, err) < 0 || get_unsigned(spec, "times", &times, err))
		return -1;
	x->times = times;
	x->verb = str_empty(verb) || str_eq(verb, "*") ? NULL : xstrdup(verb);
	x->resource = str_empty(resource) || str_eq(resource, "*") ? NULL : xstrdup(resource);
	if (str_empty(name))
		return 0;
	if (regcomp(&x->name, name, REG_EXTENDED | REG_NOSUB))
		return err_set(err, ERR_INVALID, "fault: name \"%s\" is no regular expression",
		               name);
	x->has_name = true;
	return 0;
}

static int get_flags(const struct json *spec, struct fault *x, struct err *err)
{
	bool drop = false, expire = false, mute = false;
	const struct {
		const char *name;
		bool *flag;
	} flags[] = {
		{ "applied", &x->request.applied },   { "cut", &x->request.cut },
		{ "closed", &x->request.closed },     { "hang", &x->request.hang },
		{ "unserved", &x->request.unserved }, { "dropWatch", &drop },
		{ "expireWatch", &expire },           { "muteWatch", &mute },
	};

	for (size_t i = 0; i < ARRAY_LEN(flags); i++)
		if (json_get_bool(spec, flags[i].name, flags[i].flag, err) < 0)
			return -1;
	x->stream = expire ? STREAM_EXPIRED
	            : drop ? STREAM_DROPPED
	            : mute ? STREAM_MUTE
	                   : STREAM_GOES_ON;
	return 0;
}

static int get_effects(const struct json *spec, struct fault *x, struct err *err)
{
	const char *kind = NULL;

	if (json_get_str(spec, "dpf", &kind, err) < 0)
		return -1;
	x->is_dpf = kind;
	if (kind && get_kind(kind, &x->kind, err))
		return -1;
	if (kind && (x->verb || x->resource || x->times))
		return err_set(
			err, ERR_INVALID,
			"fault: verb, resource and times belong to requests, dpf faults last until they are deleted");
	if (get_unsigned(spec, "latencyMs", &x->request.latency_ms, err) ||
	    get_unsigned(spec, "status", &x->request.status, err) ||
	    get_unsigned(spec, "retryAfterSeconds", &x->request.retry_after, err) ||
	    get_unsigned(spec, "lateMs", &x->request.late_ms, err) ||
	    get_unsigned(spec, "ms", &x->dpf.ms, err) ||
	    get_text(spec, "reason", x->request.reason, sizeof(x->request.reason), err) ||
	    get_text(spec, "message", x->request.message, sizeof(x->request.message), err) ||
	    get_text(spec, "body", x->request.body, sizeof(x->request.body), err) ||
	    get_text(spec, "wrong", x->request.wrong, sizeof(x->request.wrong), err) ||
	    get_event(spec, x, err) ||
	    get_text(spec, "text", x->dpf.text, sizeof(x->dpf.text), err) ||
	    get_text(spec, "value", x->dpf.value, sizeof(x->dpf.value), err))
		return -1;
	x->request.has_body = json_at(spec, "body");
	if (x->request.status &&
	    (x->request.status < (x->request.has_body ? 200 : 400) || x->request.status > 599))
		return err_set(err, ERR_INVALID, "fault: status %u is no failure (400 to 599)",
		               x->request.status);
	return get_flags(spec, x, err);
}

static int fault_parse(const struct json *spec, struct fault **ret, struct err *err)
{
	struct fault *x AUTO(fault_free) = xcalloc(1, sizeof(*x));

	if (!json_is_object(spec))
		return err_set(err, ERR_INVALID, "fault: an object or a list of objects is needed");
	if (check_members(spec, err) || get_match(spec, x, err) || get_effects(spec, x, err))
		return -1;
	x->spec = json_copy(spec);
	*ret = TAKE(x);
	return 0;
}

int faults_add(struct faults *f, const struct json *spec, struct err *err)
{
	struct fault *list = NULL, **tail = &list;

	if (!json_is_array(spec)) {
		if (fault_parse(spec, tail, err))
			return -1;
	} else {
		json_foreach (item, spec) {
			if (fault_parse(item, tail, err)) {
				list_free(list);
				return -1;
			}
			tail = &(*tail)->next;
		}
	}
	{
		WITH_LOCK(&f->lock);
		struct fault **end = &f->list;

		for (struct fault *x = list; x; x = x->next)
			x->id = ++f->last_id;
		while (*end)
			end = &(*end)->next;
		*end = list;
	}
	notify(f);
	return 0;
}

struct json *faults_json(struct faults *f)
{
	struct json *list = json_array();

	WITH_LOCK(&f->lock);
	for (struct fault *x = f->list; x; x = x->next) {
		struct json *item = json_copy(x->spec);

		json_set_int(item, "id", x->id);
		json_set_int(item, "applications", (int64_t)x->used);
		json_append(list, item);
	}
	return list;
}

size_t faults_remove(struct faults *f, unsigned id)
{
	struct fault *gone = NULL;
	size_t n;

	{
		WITH_LOCK(&f->lock);
		for (struct fault **at = &f->list; *at;) {
			struct fault *x = *at;

			if (id && x->id != id) {
				at = &x->next;
				continue;
			}
			*at = x->next;
			x->next = gone;
			gone = x;
		}
	}
	n = list_free(gone);
	notify(f);
	return n;
}

static bool name_matches(const struct fault *x, const char *name)
{
	return !x->has_name || (name && regexec(&x->name, name, 0, NULL, 0) == 0);
}

static bool request_matches(const struct fault *x, const char *verb, const char *resource,
                            const char *name)
{
	return !x->is_dpf && (!x->times || x->used < x->times) &&
	       (!x->verb || str_eq(x->verb, verb)) &&
	       (!x->resource || str_eq(x->resource, resource)) && name_matches(x, name);
}

bool faults_request(struct faults *f, const char *verb, const char *resource, const char *name,
                    struct request_fault *ret)
{
	WITH_LOCK(&f->lock);
	for (struct fault *x = f->list; x; x = x->next) {
		if (x->stream != STREAM_GOES_ON || x->event != EVENT_AS_IT_IS ||
		    !request_matches(x, verb, resource, name))
			continue;
		x->used++;
		*ret = x->request;
		return true;
	}
	return false;
}

enum stream_fault faults_stream(struct faults *f, const char *resource)
{
	WITH_LOCK(&f->lock);
	for (struct fault *x = f->list; x; x = x->next) {
		if (x->stream == STREAM_GOES_ON || !request_matches(x, "watch", resource, NULL))
			continue;
		x->used++;
		return x->stream;
	}
	return STREAM_GOES_ON;
}

enum event_fault faults_event(struct faults *f, const char *resource, const char *name,
                              unsigned *ret_ms)
{
	WITH_LOCK(&f->lock);
	for (struct fault *x = f->list; x; x = x->next) {
		if (x->event == EVENT_AS_IT_IS || !request_matches(x, "watch", resource, name))
			continue;
		x->used++;
		*ret_ms = x->dpf.ms;
		return x->event;
	}
	return EVENT_AS_IT_IS;
}

bool faults_dpf_nth(struct faults *f, enum fault_kind kind, size_t n, const char *name,
                    const char *other, struct dpf_fault *ret)
{
	WITH_LOCK(&f->lock);
	for (struct fault *x = f->list; x; x = x->next) {
		if (!x->is_dpf || x->kind != kind ||
		    !(name_matches(x, name) || (other && name_matches(x, other))))
			continue;
		if (n--)
			continue;
		x->used++;
		if (ret)
			*ret = x->dpf;
		return true;
	}
	return false;
}

bool faults_dpf(struct faults *f, enum fault_kind kind, const char *name, const char *other,
                struct dpf_fault *ret)
{
	return faults_dpf_nth(f, kind, 0, name, other, ret);
}
