/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The error value: setting, wrapping, and the one table from errno to a status code.
 * No state, any thread.
 */
#include "common/err.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"

static const struct {
	int sys;
	enum err_code code;
} errno_codes[] = {
	{ EACCES, ERR_PERMISSION },
	{ EPERM, ERR_PERMISSION },
	{ EROFS, ERR_PRECONDITION },
	{ ENOENT, ERR_NOT_FOUND },
	{ ENOTDIR, ERR_PRECONDITION },
	{ EISDIR, ERR_PRECONDITION },
	{ ENOTEMPTY, ERR_PRECONDITION },
	{ EEXIST, ERR_EXISTS },
	{ EINVAL, ERR_INVALID },
	{ ENAMETOOLONG, ERR_INVALID },
	{ ELOOP, ERR_INVALID },
	{ ERANGE, ERR_RANGE },
	{ EFBIG, ERR_RANGE },
	{ ENOSPC, ERR_EXHAUSTED },
	{ EDQUOT, ERR_EXHAUSTED },
	{ ETIMEDOUT, ERR_DEADLINE },
	{ ECANCELED, ERR_CANCELLED },
	{ ENOSYS, ERR_UNIMPLEMENTED },
	{ EOPNOTSUPP, ERR_UNIMPLEMENTED },
	/* The thing may come back, or be free, a moment later: worth a retry. */
	{ EBUSY, ERR_UNAVAILABLE },
	{ EMFILE, ERR_UNAVAILABLE },
	{ ENFILE, ERR_UNAVAILABLE },
	{ ENOMEM, ERR_UNAVAILABLE },
	{ EAGAIN, ERR_UNAVAILABLE },
	{ EINTR, ERR_UNAVAILABLE },
	{ EIO, ERR_UNAVAILABLE },
	{ ENXIO, ERR_UNAVAILABLE },
	{ ENODEV, ERR_UNAVAILABLE },
	{ ESTALE, ERR_UNAVAILABLE },
	{ ENOTCONN, ERR_UNAVAILABLE },
	{ ECONNABORTED, ERR_UNAVAILABLE },
	{ ECONNREFUSED, ERR_UNAVAILABLE },
	{ ECONNRESET, ERR_UNAVAILABLE },
	{ EPIPE, ERR_UNAVAILABLE },
	{ EHOSTUNREACH, ERR_UNAVAILABLE },
	{ ENETUNREACH, ERR_UNAVAILABLE },
};

enum err_code err_code_from_errno(int errnum)
{
	for (size_t i = 0; i < ARRAY_LEN(errno_codes); i++)
		if (errno_codes[i].sys == errnum)
			return errno_codes[i].code;
	return ERR_INTERNAL;
}

/* What to do about an errno that says nothing about the object of the call. */
static const char *advice(int errnum)
{
	switch (errnum) {
	case EMFILE:
		return " (the driver has as many as it may, see its \"ulimit -n\"; it is tried again)";
	case ENFILE:
		return " (raise the host's sysctl fs.file-max; it is tried again)";
	case ENOMEM:
		return " (the host, or the driver's memory limit; it is tried again)";
	default:
		return "";
	}
}

const char *err_code_name(enum err_code code)
{
	static const char *const names[] = {
		[ERR_OK] = "OK",
		[ERR_CANCELLED] = "CANCELLED",
		[ERR_UNKNOWN] = "UNKNOWN",
		[ERR_INVALID] = "INVALID_ARGUMENT",
		[ERR_DEADLINE] = "DEADLINE_EXCEEDED",
		[ERR_NOT_FOUND] = "NOT_FOUND",
		[ERR_EXISTS] = "ALREADY_EXISTS",
		[ERR_PERMISSION] = "PERMISSION_DENIED",
		[ERR_EXHAUSTED] = "RESOURCE_EXHAUSTED",
		[ERR_PRECONDITION] = "FAILED_PRECONDITION",
		[ERR_ABORTED] = "ABORTED",
		[ERR_RANGE] = "OUT_OF_RANGE",
		[ERR_UNIMPLEMENTED] = "UNIMPLEMENTED",
		[ERR_INTERNAL] = "INTERNAL",
		[ERR_UNAVAILABLE] = "UNAVAILABLE",
		[ERR_DATA_LOSS] = "DATA_LOSS",
		[ERR_UNAUTHENTICATED] = "UNAUTHENTICATED",
	};

	_Static_assert(ARRAY_LEN(names) == ERR_UNAUTHENTICATED + 1, "each code has a name");
	return (size_t)code < ARRAY_LEN(names) ? names[code] : "UNKNOWN";
}

/*
 * Of a text that did not fit, drops the beginning of a UTF-8 character whose end was cut off: such
 * a text is valid when what it was made of is.
 */
static void end_with_whole_character(char *text)
{
	size_t n = strlen(text), behind = 0;
	unsigned char first;
	size_t needed;

	while (behind < 3 && behind < n && ((unsigned char)text[n - 1 - behind] & 0xc0) == 0x80)
		behind++;
	if (n < ERR_MSG_MAX - 1 || behind == n)
		return;
	first = (unsigned char)text[n - 1 - behind];
	needed = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : first >= 0xc0 ? 1 : 0;
	if (behind < needed)
		text[n - 1 - behind] = '\0';
}

int err_set(struct err *err, enum err_code code, const char *fmt, ...)
{
	va_list ap;

	assert(err->code == ERR_OK && code != ERR_OK);
	err->code = code;
	err->sys = 0;
	va_start(ap, fmt);
	vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	end_with_whole_character(err->msg);
	return -1;
}

int err_sys(struct err *err, int errnum, const char *fmt, ...)
{
	const char *why = strerrordesc_np(errnum);
	va_list ap;
	size_t n;

	assert(err->code == ERR_OK);
	err->code = err_code_from_errno(errnum);
	err->sys = errnum;
	va_start(ap, fmt);
	vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	n = strlen(err->msg);
	snprintf(err->msg + n, sizeof(err->msg) - n, ": %s%s", why ? why : "unknown error",
	         advice(errnum));
	end_with_whole_character(err->msg);
	return -1;
}

int err_wrap(struct err *err, const char *fmt, ...)
{
	char inner[ERR_MSG_MAX];
	va_list ap;
	size_t n;

	assert(err->code != ERR_OK);
	memcpy(inner, err->msg, sizeof(inner));
	va_start(ap, fmt);
	vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	n = strlen(err->msg);
	snprintf(err->msg + n, sizeof(err->msg) - n, ": %.*s", (int)(sizeof(inner) - 1), inner);
	end_with_whole_character(err->msg);
	return -1;
}

int err_recode(struct err *err, enum err_code code)
{
	assert(err->code != ERR_OK && code != ERR_OK);
	err->code = code;
	return -1;
}

void err_clear(struct err *err)
{
	err->code = ERR_OK;
	err->sys = 0;
	err->msg[0] = '\0';
}
