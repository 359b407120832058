/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors: the one rule of this program.
 *
 * A function that can fail takes `struct err *err` last and returns 0 or -1. On 0 *err is
 * untouched. On -1 *err names the operation, its object and the result, in words that an operator
 * can act on, with the status that the RPC caller will see. A positive return value is a condition,
 * not an error: a named value of an enum that the header declares next to the function
 * (JSON_ABSENT). *err is then untouched, and the caller handles the condition instead of passing it
 * on. The only positive value without a name is a child's exit status (spawn.h).
 *
 * The message is formatted where the facts are known, callers add their own prefix (err_wrap), and
 * the RPC layer logs each failed call once; no lower layer logs an error that it returns. A message
 * never contains secrets or tokens.
 *
 * The struct is a value: no allocation, nothing to free, may be copied between threads. A message
 * that is too long loses its end, which is the innermost error.
 */
#pragma once

/* The values of gRPC's status codes; rpc_server.c asserts this. */
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

/*
 * The cause of an error, for causes that need a next step of their own (inspect/last_errors.c).
 * last-errors.json contains these numbers (common/failing.h), so they never change.
 */
enum err_kind {
	ERR_KIND_NONE = 0,
	ERR_KIND_WRONG_DEVICE = 1, /* the device is not the volume's */
	ERR_KIND_HAS_DATA = 2,     /* the disk has data that the volume does not expect */
	ERR_KIND_HELD = 3, /* a process, mount or loop device of this node uses disk or share */
	ERR_KIND_WRONG_PASSPHRASE = 4, /* no passphrase of the secret opens the volume */
};

#define ERR_MSG_MAX 1000

struct err {
	enum err_code code;
	enum err_kind kind;
	int sys; /* the errno that caused it, or 0 */
	char msg[ERR_MSG_MAX];
};

#define ERR_INIT               \
	{                      \
		.code = ERR_OK \
	}

#define PRINTF_(a, b) __attribute__((format(printf, a, b)))
#define MUST_CHECK __attribute__((warn_unused_result))

/*
 * Sets code and message; returns -1. Setting an error that is already set is a bug (asserted). A
 * message that does not fit is cut after a complete character; this holds for all functions here.
 */
int err_set(struct err *err, enum err_code code, const char *fmt, ...) PRINTF_(3, 4);
/*
 * Like err_set(), but for an errno: the code is err_code_from_errno(), and ": No such file or
 * directory" is appended.
 */
int err_sys(struct err *err, int errnum, const char *fmt, ...) PRINTF_(3, 4);
/*
 * Like err_sys(), but for a system call whose manual page gives an errno a special meaning: a limit
 * other than the usual one, or an object other than the one that the message names.
 */
enum err_call { ERR_CALL_INOTIFY, ERR_CALL_TASK, ERR_CALL_MOUNT, ERR_CALL_LOCK };
int err_sys_of(struct err *err, enum err_call call, int errnum, const char *fmt, ...) PRINTF_(4, 5);
/* Prefixes the message with "text: "; code, kind and errno stay unchanged. Returns -1. */
int err_wrap(struct err *err, const char *fmt, ...) PRINTF_(2, 3);
/*
 * Replaces the code, if the RPC's caller needs a code other than the one derived from the facts.
 * Returns -1.
 */
int err_recode(struct err *err, enum err_code code);
/* Sets the kind of an error that is set; a new error has no kind. Returns -1. */
int err_set_kind(struct err *err, enum err_kind kind);
/* Resets an error that was handled. */
void err_clear(struct err *err);

/*
 * Returns the code for an errno: EACCES/EPERM -> PERMISSION, ENOENT -> NOT_FOUND, EBUSY ->
 * UNAVAILABLE, ... ; the table is in err.c.
 */
enum err_code err_code_from_errno(int errnum);
/* Returns gRPC's name of the code, "INVALID_ARGUMENT", for logs. Never NULL. */
const char *err_code_name(enum err_code code);
