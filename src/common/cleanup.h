/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scope-bound cleanup.
 *
 * AUTO(fn) marks a local that is released by fn##_p when its scope ends; such a
 * local is initialised where it is declared. TAKE(var) gives the value to a new
 * owner and leaves the local empty, so that its cleanup does nothing.
 * External effects (a mount, an API object) are never undone this way: their undo
 * can fail, so it is written out.
 */
#pragma once

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define AUTO(fn) __attribute__((cleanup(fn##_p)))

/* Defines fn##_p for AUTO(fn); fn is not called for an empty (zero) value. */
#define DEFINE_AUTO(type, fn)              \
	static inline void fn##_p(type *p) \
	{                                  \
		if (*p)                    \
			fn(*p);            \
	}                                  \
	struct auto_semicolon_

/*
 * Like DEFINE_AUTO(), but for a value that AUTO(fn) releases by its address. fn is always called,
 * so it must accept an empty value.
 */
#define DEFINE_AUTO_VALUE(type, fn)        \
	static inline void fn##_p(type *p) \
	{                                  \
		fn(p);                     \
	}                                  \
	struct auto_semicolon_

static inline void free_p(void *p)
{
	free(*(void **)p);
}

static inline void fd_p(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

DEFINE_AUTO(FILE *, fclose);
DEFINE_AUTO(DIR *, closedir);

#define TAKE_OR(var, empty)                 \
	__extension__({                     \
		__typeof__(var) t_ = (var); \
		(var) = (empty);            \
		t_;                         \
	})
#define TAKE(ptr) TAKE_OR(ptr, NULL)
#define TAKE_FD(fd) TAKE_OR(fd, -1)

static inline void mutex_unlock_p(pthread_mutex_t **m)
{
	if (pthread_mutex_unlock(*m))
		abort();
}

static inline pthread_mutex_t *mutex_lock_(pthread_mutex_t *m)
{
	if (pthread_mutex_lock(m))
		abort();
	return m;
}

#define CAT__(a, b) a##b
#define CAT_(a, b) CAT__(a, b)
/*
 * Holds the mutex until the end of the enclosing scope, which must not do I/O. This is the only
 * declaration that may follow a statement: the lock begins at that line.
 */
#define WITH_LOCK(m)                                                                 \
	_Pragma("GCC diagnostic push")                                               \
		_Pragma("GCC diagnostic ignored \"-Wdeclaration-after-statement\"")  \
			pthread_mutex_t *CAT_(lock_, __COUNTER__) AUTO(mutex_unlock) \
				__attribute__((unused)) = mutex_lock_(m);            \
	_Pragma("GCC diagnostic pop") struct with_lock_semicolon_

/*
 * The first statement of a function whose name ends in _locked. It proves that some thread, not
 * necessarily this one, holds the mutex.
 */
#define assert_locked(m) assert(pthread_mutex_trylock(m) == EBUSY)

/* Ignores a result on purpose: the caller continues in the same way for every result. */
#define IGNORE_RESULT(call)                             \
	do {                                            \
		__extension__ __auto_type rc_ = (call); \
		(void)rc_;                              \
	} while (0)

#define ARRAY_LEN(a) (sizeof(a) / sizeof(*(a)))
