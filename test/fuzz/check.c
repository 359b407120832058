/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces Check for test/lib, whose files report a failure to Check. Without Check's runner the
 * failure ends the fuzzer.
 */
#include <stdio.h>
#include <stdlib.h>

void _mark_point(const char *file, int line);
void _ck_assert_failed(const char *file, int line, const char *expr, const char *msg, ...)
	__attribute__((noreturn));

void _mark_point(const char *file, int line)
{
	(void)file;
	(void)line;
}

void _ck_assert_failed(const char *file, int line, const char *expr, const char *msg, ...)
{
	(void)msg;
	fprintf(stderr, "%s:%d: %s\n", file, line, expr);
	abort();
}
