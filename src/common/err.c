/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The error value: setting, wrapping, and the only table from errno to a status code. Stateless;
 * any thread.
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
	/* The object may return or become free a moment later, so a retry is useful. */
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

/* Returns the next step for an errno that is not about the object of the call; otherwise "". */
static const char *advice(int errnum)
{
	switch (errnum) {
	case EMFILE:
		return " (the limit of the driver is reached, see its \"ulimit -n\"; the operation is retried)";
	case ENFILE:
		return " (raise the host's sysctl fs.file-max; the operation is retried)";
	case ENOMEM:
		return " (the host is out of memory, or the driver's limit is reached; the operation is retried)";
	default:
		return "";
	}
}

/*
 * System calls that give an errno a special meaning. Sources: inotify(7), pthread_create(3),
 * clone(2), mount(2), flock(2).
 */
static const struct {
	enum err_call call;
	int sys;
	enum err_code code;
	const char *text;
} errno_of_calls[] = {
	{ ERR_CALL_INOTIFY, EMFILE, ERR_UNAVAILABLE,
	  "no inotify instance is left; next: raise the host's sysctl "
	  "fs.inotify.max_user_instances (or the driver's \"ulimit -n\")" },
	{ ERR_CALL_INOTIFY, ENOSPC, ERR_UNAVAILABLE,
	  "no inotify watch is left; next: raise the host's sysctl fs.inotify.max_user_watches" },
	{ ERR_CALL_TASK, EAGAIN, ERR_UNAVAILABLE,
	  "no further process or thread is allowed; next: raise the pod's limit of processes "
	  "(pids.max, kubelet's podPidsLimit) or the host's sysctl kernel.threads-max" },
	{ ERR_CALL_MOUNT, ENOSPC, ERR_EXHAUSTED,
	  "the mount namespace is full; next: unmount what is not needed, or raise the host's sysctl "
	  "fs.mount-max" },
	{ ERR_CALL_MOUNT, EEXIST, ERR_UNAVAILABLE,
	  "another filesystem with the same UUID is mounted on this host, so this one is a copy; "
	  "next: use the two on different nodes (btrfs: or Linux 6.7)" },
	{ ERR_CALL_MOUNT, ENOENT, ERR_UNAVAILABLE,
	  "the device, the mount point, or another device of the filesystem is missing" },
	{ ERR_CALL_LOCK, ENOLCK, ERR_UNAVAILABLE, "the kernel has no memory for a lock" },
};

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
 * Removes an incomplete UTF-8 character at the end, so that the message is valid if its parts are.
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
	err->kind = ERR_KIND_NONE;
	err->sys = 0;
	va_start(ap, fmt);
	vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	end_with_whole_character(err->msg);
	return -1;
}

PRINTF_(6, 0)
static int err_sys_va(struct err *err, enum err_code code, int errnum, const char *why,
                      const char *next, const char *fmt, va_list ap)
{
	size_t n;

	assert(err->code == ERR_OK);
	err->code = code;
	err->kind = ERR_KIND_NONE;
	err->sys = errnum;
	vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	n = strlen(err->msg);
	snprintf(err->msg + n, sizeof(err->msg) - n, ": %s%s", why ? why : "unknown error", next);
	end_with_whole_character(err->msg);
	return -1;
}

int err_sys(struct err *err, int errnum, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	err_sys_va(err, err_code_from_errno(errnum), errnum, strerrordesc_np(errnum),
	           advice(errnum), fmt, ap);
	va_end(ap);
	return -1;
}

int err_sys_of(struct err *err, enum err_call call, int errnum, const char *fmt, ...)
{
	enum err_code code = err_code_from_errno(errnum);
	const char *why = strerrordesc_np(errnum), *next = advice(errnum);
	va_list ap;

	for (size_t i = 0; i < ARRAY_LEN(errno_of_calls); i++)
		if (errno_of_calls[i].call == call && errno_of_calls[i].sys == errnum) {
			code = errno_of_calls[i].code;
			why = errno_of_calls[i].text;
			next = "";
		}
	va_start(ap, fmt);
	err_sys_va(err, code, errnum, why, next, fmt, ap);
	va_end(ap);
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

int err_set_kind(struct err *err, enum err_kind kind)
{
	assert(err->code != ERR_OK);
	err->kind = kind;
	return -1;
}

void err_clear(struct err *err)
{
	err->code = ERR_OK;
	err->kind = ERR_KIND_NONE;
	err->sys = 0;
	err->msg[0] = '\0';
}
