/* SPDX-License-Identifier: Apache-2.0 */
/* Collects field errors as JSON and as text. No state. */
#include "test/sim/kinds/invalid.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/mem.h"

void invalid_init(struct invalid *i)
{
	*i = (struct invalid) { .causes = json_array(), .text = STR_INIT(65536) };
}

void invalid_clear(struct invalid *i)
{
	json_free(i->causes);
	str_clear(&i->text);
	i->causes = NULL;
}

void invalid_add(struct invalid *i, const char *reason, const char *field, const char *fmt, ...)
{
	struct json *cause = json_object();
	char message[1024];
	va_list args;

	va_start(args, fmt);
	vsnprintf(message, sizeof(message), fmt, args);
	va_end(args);
	json_set_str(cause, "reason", reason);
	json_set_str(cause, "message", message);
	json_set_str(cause, "field", field);
	json_append(i->causes, cause);
	str_addf(&i->text, "%s%s: %s", i->n++ ? ", " : "", field, message);
}

char *invalid_message(const struct invalid *i)
{
	return i->n == 1 ? xstrdup(i->text.ptr) : xasprintf("[%s]", i->text.ptr);
}
