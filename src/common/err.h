/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors: the one rule of this program.
 *
 * A function that can fail takes `struct err *err` last and returns 0 or -1.
 * On 0 *err is untouched. On -1 *err says what was attempted, on which object
 * and what came back, in words an operator can act on, with the status the RPC
 * caller will see. A positive return is a condition, not an error: a named value
 * of an enum that the header declares beside the function (JSON_ABSENT). *err is
 * untouched, and the caller handles the condition instead of passing it on. The
 * one number without a name is a child's exit status (spawn.h).
 *
 * The text is made where the facts are, callers put their own in front of it
 * (err_wrap), the RPC layer logs each failed call once; nothing below it logs an
 * error that it returns. Secrets and tokens never enter a text.
 *
 * The struct is a value: no allocation, nothing to free, may be copied between
 * threads. A text that is too long loses its end, the innermost words.
 */
#pragma once

/* The numbers of gRPC's status codes; rpc_server.c asserts that. */
enum err_code {
	ERR_OK = 0,
	ERR_CANCELLED = 1,
	ERR_UNKNOWN = 2,
	ERR_INVALID = 3,
	ERR_DEADLINE = 4,
	ERR_NOT_FOUND = 5,
	ERR_EXISTS = 6,
	ERR_PERMISSION = 7,
	ERR_EXHAUSTED = 8,
	ERR_PRECONDITION = 9,
	ERR_ABORTED = 10,
	ERR_RANGE = 11,
	ERR_UNIMPLEMENTED = 12,
	ERR_INTERNAL = 13,
	ERR_UNAVAILABLE = 14,
	ERR_DATA_LOSS = 15,
	ERR_UNAUTHENTICATED = 16,
};

#define ERR_MSG_MAX 1000

struct err {
	enum err_code code;
	int sys; /* errno that started it, or 0 */
	char msg[ERR_MSG_MAX];
};

#define ERR_INIT               \
	{                      \
		.code = ERR_OK \
	}

#define PRINTF_(a, b) __attribute__((format(printf, a, b)))
#define MUST_CHECK __attribute__((warn_unused_result))

/*
 * Sets code and text; returns -1. Setting an error that is already set is a bug (asserted). A text
 * that does not fit ends with a whole character; this holds for all functions here.
 */
int err_set(struct err *err, enum err_code code, const char *fmt, ...) PRINTF_(3, 4);
/* The same from an errno: code by err_code_from_errno(), ": No such file or directory" appended. */
int err_sys(struct err *err, int errnum, const char *fmt, ...) PRINTF_(3, 4);
/* Puts "text: " in front; code and errno stay; returns -1. */
int err_wrap(struct err *err, const char *fmt, ...) PRINTF_(2, 3);
/*
 * Replaces the code (where the caller of the RPC needs another one than the facts gave); returns
 * -1.
 */
int err_recode(struct err *err, enum err_code code);
/* Forgets an error that was handled. */
void err_clear(struct err *err);

/*
 * EACCES/EPERM -> PERMISSION, ENOENT -> NOT_FOUND, EBUSY -> UNAVAILABLE, ... ; the table is in
 * err.c.
 */
enum err_code err_code_from_errno(int errnum);
/* "INVALID_ARGUMENT": gRPC's spelling, for logs. Never NULL. */
const char *err_code_name(enum err_code code);
