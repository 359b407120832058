/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Called between ck_*() and Check (the linker's --wrap in CHECK_LIBS) when an assertion fails in a
 * thread other than the test's. Check would end the process while other threads run, or with
 * CK_FORK=no jump to the stack of the test's thread, with undefined results. So its text is printed
 * and the program aborts. Assertions that hold may be in any thread: Check has a lock.
 */
#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The linker defines the names. */
void __real__ck_assert_failed(const char *file, int line, const char *expr, const char *msg, ...)
	__attribute__((noreturn, format(printf, 4, 5)));
void __wrap__ck_assert_failed(const char *file, int line, const char *expr, const char *msg, ...)
	__attribute__((noreturn, format(printf, 4, 5)));

void __wrap__ck_assert_failed(const char *file, int line, const char *expr, const char *msg, ...)
{
	char text[4096] = "";
	va_list args;

	if (msg) {
		va_start(args, msg);
		vsnprintf(text, sizeof(text), msg, args);
		va_end(args);
	}
	if (gettid() == getpid()) /* tests run in the first thread of a process */
		__real__ck_assert_failed(file, line, expr, msg ? "%s" : NULL, text);
	fprintf(stderr, "%s:%d: in another thread than the test's: %s\n", file, line,
	        msg ? text : expr);
	abort();
}
