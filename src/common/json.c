/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The only user of cJSON; struct json is a cJSON item. Input that cJSON wrongly accepts is rejected
 * here: bytes after the value, numbers that a double cannot hold, member names that match only
 * without regard to case. Texts that cJSON would refuse or cut are cleaned first. Stateless; any
 * thread; a tree belongs to one thread at a time.
 */
#include "common/json.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "common/json_memory.h"
#include "common/mem.h"
#include "common/str.h"

#define MAX_DEPTH 200
/* one component of a path; all paths are literals of this program */
#define NAME_MAX_STEP 127
#define MAX_EXACT 9007199254740992.0 /* 2^53 */
/* sufficient for most texts; the buffer grows for longer ones */
#define PRINT_BYTES 2048
#define COPY_BYTES 512 /* initial size for the text of a copied tree */

/* Runs before main(), because each piece must be freed by the allocator that it came from. */
__attribute__((constructor)) static void use_our_memory(void)
{
	cJSON_InitHooks(&(cJSON_Hooks) { json_memory_take, json_memory_give });
}

static cJSON *item_of(struct json *j)
{
	return (cJSON *)(void *)j;
}

static const cJSON *item_of_const(const struct json *j)
{
	return (const cJSON *)(const void *)j;
}

/*
 * Returns true for a root. `prev` of a member or an element points to its neighbour, or to itself
 * if it has no siblings.
 */
static bool is_root(const struct json *j)
{
	return !item_of_const(j)->prev && !item_of_const(j)->next;
}

static struct json *tree_of(cJSON *item)
{
	if (!item)
		abort(); /* cJSON returns NULL only if it is out of memory */
	return (struct json *)(void *)item;
}

static const struct json *value_of(const cJSON *item)
{
	return (const struct json *)(const void *)item;
}

/* ---- texts that cJSON rejects or misreads ---- */

/*
 * cJSON ends a text at a NUL, refuses half of a surrogate pair, accepts any bytes as UTF-8, and
 * recurses. Any client may write such a text into an object, and the text must not make the object
 * unreadable.
 */
#define ESCAPE_BYTES 6 /* \u0000 */
#define ESCAPED_REPLACEMENT "\\ufffd"

static bool is_escape_of(const char *at, const char *end, uint32_t first, uint32_t last)
{
	uint32_t code = 0;

	if (end - at < ESCAPE_BYTES || at[0] != '\\' || at[1] != 'u')
		return false;
	for (int i = 2; i < ESCAPE_BYTES; i++) {
		char c = at[i];
		int digit = c >= '0' && c <= '9'   ? c - '0'
		            : c >= 'a' && c <= 'f' ? c - 'a' + 10
		            : c >= 'A' && c <= 'F' ? c - 'A' + 10
		                                   : -1;

		if (digit < 0)
			return false;
		code = code << 4 | (uint32_t)digit;
	}
	return code >= first && code <= last;
}

/*
 * Returns the length of the escape at `at`, a backslash; *sound is set if cJSON accepts the escape.
 */
static size_t escape_length(const char *at, const char *end, bool *sound)
{
	*sound = true;
	if (is_escape_of(at, end, 0xd800, 0xdbff) &&
	    is_escape_of(at + ESCAPE_BYTES, end, 0xdc00, 0xdfff))
		return (size_t)2 * ESCAPE_BYTES;
	if (end - at < 2 || at[1] != 'u')
		return end - at < 2 ? 1 : 2;
	*sound = is_escape_of(at, end, 1, 0xd7ff) || is_escape_of(at, end, 0xe000, 0xffff);
	return is_escape_of(at, end, 0, 0xffff) ? ESCAPE_BYTES : 2;
}

/* The bytes at which is_sound() stops; an object has few of them. */
static const bool is_mark[UCHAR_MAX + 1] = {
	['\0'] = true, ['"'] = true, ['\\'] = true, ['{'] = true,
	['['] = true,  ['}'] = true, [']'] = true,
};

/* Returns true if clean() would not change the text, as for nearly all texts. */
static bool is_sound(const char *text, size_t n)
{
	const char *end = text + n;
	bool in_string = false, sound = true;
	int depth = 0;

	if (!utf8_valid(text, n))
		return false;
	for (const char *at = text; sound && at < end; at++) {
		if (!is_mark[(unsigned char)*at])
			continue;
		if (*at == '"')
			in_string = !in_string;
		else if (*at == '\\' && in_string)
			at += escape_length(at, end, &sound) - 1;
		else if (*at == '{' || *at == '[')
			sound = in_string || ++depth <= MAX_DEPTH;
		else if (*at == '}' || *at == ']')
			depth -= !in_string;
		else
			sound = *at != '\0';
	}
	return sound;
}

struct cleaning {
	const char *at, *end;
	struct str out;
	bool in_string;
	int depth;
};

/*
 * Copies n bytes, or writes `instead` in their place. Copies no part of a value that is nested too
 * deeply.
 */
static void pass(struct cleaning *c, size_t n, const char *instead)
{
	if (c->depth <= MAX_DEPTH && instead)
		str_add(&c->out, instead);
	else if (c->depth <= MAX_DEPTH)
		str_addn(&c->out, c->at, n);
	c->at += n;
}

static void clean_in_string(struct cleaning *c)
{
	size_t n = utf8_length(c->at, (size_t)(c->end - c->at));
	bool sound = n > 0 && *c->at != '\0';

	if (*c->at == '\\') {
		n = escape_length(c->at, c->end, &sound);
		pass(c, n, sound ? NULL : ESCAPED_REPLACEMENT);
		return;
	}
	c->in_string = *c->at != '"';
	pass(c, n ? n : 1, sound ? NULL : UTF8_REPLACEMENT);
}

static void clean_outside(struct cleaning *c)
{
	char byte = *c->at;

	c->in_string = byte == '"';
	if ((byte == '{' || byte == '[') && ++c->depth == MAX_DEPTH + 1)
		str_add(&c->out, "null");
	pass(c, 1, NULL);
	if (byte == '}' || byte == ']')
		c->depth--;
}

/*
 * Returns the same JSON with U+FFFD in place of NUL, halves of surrogate pairs and bytes that are
 * not UTF-8. No character is dropped, so different names stay different. A value nested deeper than
 * MAX_DEPTH becomes null.
 */
static void clean(const char *text, size_t n, struct str *ret)
{
	struct cleaning c = { .at = text, .end = text + n };

	str_init(&c.out, n * strlen(UTF8_REPLACEMENT) + strlen("null"));
	while (c.at < c.end)
		if (c.in_string)
			clean_in_string(&c);
		else
			clean_outside(&c);
	*ret = c.out;
}

static cJSON *parse(const char *text, size_t n, const char **end)
{
	struct json_text_memory memory;
	cJSON *root;

	json_memory_begin(&memory, n);
	root = cJSON_ParseWithLengthOpts(text, n, end, 0);
	json_memory_end(&memory);
	return root;
}

static int parse_sound(const char *what, const char *text, size_t n, struct json **ret,
                       struct err *err)
{
	const char *end = NULL;
	cJSON *root;

	root = parse(text, n, &end);
	if (!root)
		return err_set(err, ERR_INVALID, "%s: not JSON at byte %td", what,
		               end ? end - text : 0);
	while (end < text + n && strchr(" \t\r\n", *end))
		end++;
	if (end != text + n) {
		cJSON_Delete(root);
		return err_set(err, ERR_INVALID, "%s: not JSON: more than one value, at byte %td",
		               what, end - text);
	}
	*ret = tree_of(root);
	return 0;
}

int json_parse(const char *what, const char *text, size_t n, struct json **ret, struct err *err)
{
	struct str cleaned AUTO(str_clear) = STR_INIT(0);

	if (is_sound(text, n))
		return parse_sound(what, text, n, ret, err);
	clean(text, n, &cleaned);
	/* A NUL outside a string, which cJSON treats as a space. */
	if (memchr(cleaned.ptr, '\0', cleaned.len))
		return err_set(err, ERR_INVALID, "%s: not JSON: it has a NUL byte", what);
	return parse_sound(what, cleaned.ptr, cleaned.len, ret, err);
}

void json_free(struct json *j)
{
	assert(!j || is_root(j));
	cJSON_Delete(item_of(j));
}

/* Prints to a copy, so that the caller can free() it. */
static char *print(const struct json *j, bool pretty)
{
	char *text = cJSON_PrintBuffered(item_of_const(j), PRINT_BYTES, pretty), *copy;

	if (!text)
		abort();
	copy = xstrdup(text);
	json_memory_give(text);
	return copy;
}

char *json_print(const struct json *j)
{
	return print(j, false);
}

char *json_print_pretty(const struct json *j)
{
	return print(j, true);
}

char *json_print_shown(const struct json *j)
{
	char *text AUTO(free) = json_print_pretty(j);
	size_t n = strlen(text);
	struct str shown;

	if (utf8_valid(text, n))
		return TAKE(text);
	/* Outside strings all bytes are ASCII. */
	str_init(&shown, n * SHOWN_BYTES_MAX);
	for (size_t i = 0, length; i < n; i += length ? length : 1) {
		length = utf8_length(text + i, n - i);
		if (length)
			str_addn(&shown, text + i, length);
		else
			str_addf(&shown, "\\\\x%02x", (unsigned char)text[i]);
	}
	return str_take(&shown);
}

struct json *json_copy(const struct json *j)
{
	struct json_text_memory memory;
	cJSON *copy;

	json_memory_begin(&memory, COPY_BYTES);
	copy = cJSON_Duplicate(item_of_const(j), true);
	json_memory_end(&memory);
	return tree_of(copy);
}

bool json_equal(const struct json *a, const struct json *b)
{
	if (!a || !b)
		return a == b;
	return cJSON_Compare(item_of_const(a), item_of_const(b), true);
}

bool json_is_object(const struct json *j)
{
	return cJSON_IsObject(item_of_const(j));
}

bool json_is_array(const struct json *j)
{
	return cJSON_IsArray(item_of_const(j));
}

bool json_is_string(const struct json *j)
{
	return cJSON_IsString(item_of_const(j));
}

bool json_is_null(const struct json *j)
{
	return cJSON_IsNull(item_of_const(j));
}

static const cJSON *step(const cJSON *at, const char *name, size_t n)
{
	char part[NAME_MAX_STEP + 1];
	struct err ignored = ERR_INIT;
	uint64_t index;

	if (n > NAME_MAX_STEP)
		return NULL;
	memcpy(part, name, n);
	part[n] = 0;
	if (cJSON_IsObject(at))
		return cJSON_GetObjectItemCaseSensitive(at, part);
	if (!cJSON_IsArray(at) || parse_u64("index", part, &index, &ignored) || index > INT32_MAX)
		return NULL;
	return cJSON_GetArrayItem(at, (int)index);
}

const struct json *json_at(const struct json *j, const char *path)
{
	const cJSON *at = item_of_const(j);

	while (at && *path) {
		size_t n = strcspn(path, ".");

		at = step(at, path, n);
		path += n + (path[n] == '.');
	}
	return at && !cJSON_IsNull(at) ? value_of(at) : NULL;
}

struct json *json_at_mut(struct json *j, const char *path)
{
	return (struct json *)(uintptr_t)json_at(j, path);
}

const struct json *json_member(const struct json *j, const char *name)
{
	const cJSON *found = cJSON_GetObjectItemCaseSensitive(item_of_const(j), name);

	return found && !cJSON_IsNull(found) ? value_of(found) : NULL;
}

const struct json *json_first(const struct json *j)
{
	const cJSON *item = item_of_const(j);

	return item && (cJSON_IsObject(item) || cJSON_IsArray(item)) ? value_of(item->child) : NULL;
}

const struct json *json_next(const struct json *item)
{
	return value_of(item_of_const(item)->next);
}

const char *json_name(const struct json *item)
{
	return item_of_const(item)->string;
}

size_t json_count(const struct json *j)
{
	size_t n = 0;

	json_foreach (item, j)
		n++;
	return n;
}

int json_get_str(const struct json *j, const char *path, const char **ret, struct err *err)
{
	const struct json *v = json_at(j, path);

	if (!v)
		return JSON_ABSENT;
	if (!json_is_string(v))
		return err_set(err, ERR_INVALID, "%s: is not a string", path);
	*ret = json_text(v);
	return 0;
}

int json_get_i64(const struct json *j, const char *path, int64_t *ret, struct err *err)
{
	const struct json *v = json_at(j, path);
	double d;

	if (!v)
		return JSON_ABSENT;
	if (cJSON_IsRaw(item_of_const(v))) /* created by json_int() */
		return parse_i64(path, item_of_const(v)->valuestring, ret, err);
	if (!cJSON_IsNumber(item_of_const(v)))
		return err_set(err, ERR_INVALID, "%s: is not a number", path);
	d = cJSON_GetNumberValue(item_of_const(v));
	if (!(fabs(d) < MAX_EXACT) || d != trunc(d))
		return err_set(err, ERR_INVALID, "%s: is not a whole number below 2^53", path);
	*ret = (int64_t)d;
	return 0;
}

int json_get_bool(const struct json *j, const char *path, bool *ret, struct err *err)
{
	const struct json *v = json_at(j, path);

	if (!v)
		return JSON_ABSENT;
	if (!cJSON_IsBool(item_of_const(v)))
		return err_set(err, ERR_INVALID, "%s: is not a boolean", path);
	*ret = cJSON_IsTrue(item_of_const(v));
	return 0;
}

const char *json_str(const struct json *j, const char *path)
{
	return json_text(json_at(j, path));
}

const char *json_text(const struct json *value)
{
	return cJSON_GetStringValue(item_of_const(value));
}

struct json *json_object(void)
{
	return tree_of(cJSON_CreateObject());
}

struct json *json_array(void)
{
	return tree_of(cJSON_CreateArray());
}

struct json *json_string(const char *s)
{
	return tree_of(cJSON_CreateString(s));
}

struct json *json_int(int64_t v)
{
	char digits[32];

	/* cJSON prints no more than 15 digits of a number; longer ones become raw text. */
	if (v > -1000000000000000 && v < 1000000000000000)
		return tree_of(cJSON_CreateNumber((double)v));
	snprintf(digits, sizeof(digits), "%" PRId64, v);
	return tree_of(cJSON_CreateRaw(digits));
}

struct json *json_boolean(bool v)
{
	return tree_of(cJSON_CreateBool(v));
}

struct json *json_null(void)
{
	return tree_of(cJSON_CreateNull());
}

void json_set(struct json *object, const char *name, struct json *value)
{
	assert(json_is_object(object) && is_root(value));
	json_remove(object, name);
	if (!cJSON_AddItemToObject(item_of(object), name, item_of(value)))
		abort();
}

void json_set_str(struct json *object, const char *name, const char *s)
{
	if (s)
		json_set(object, name, json_string(s));
}

void json_set_int(struct json *object, const char *name, int64_t v)
{
	json_set(object, name, json_int(v));
}

void json_set_bool(struct json *object, const char *name, bool v)
{
	json_set(object, name, json_boolean(v));
}

void json_remove(struct json *object, const char *name)
{
	cJSON_DeleteItemFromObjectCaseSensitive(item_of(object), name);
}

void json_append(struct json *array, struct json *value)
{
	assert(json_is_array(array) && is_root(value));
	if (!cJSON_AddItemToArray(item_of(array), item_of(value)))
		abort();
}

struct json *json_sub(struct json *object, const char *name)
{
	cJSON *found = cJSON_GetObjectItemCaseSensitive(item_of(object), name);

	if (!cJSON_IsObject(found)) {
		found = item_of(json_object());
		json_set(object, name, tree_of(found));
	}
	return tree_of(found);
}

void json_merge_patch(struct json *target, const struct json *patch)
{
	json_foreach (item, patch) {
		const char *name = json_name(item);

		if (cJSON_IsNull(item_of_const(item)))
			json_remove(target, name);
		else if (json_is_object(item))
			json_merge_patch(json_sub(target, name), item);
		else
			json_set(target, name, json_copy(item));
	}
}

const char *json_library(void)
{
	return cJSON_Version();
}
