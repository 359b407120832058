/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the lines as OpenSSL does: text outside a block, and spaces at the end of a line, are
 * ignored. The blocks are not decoded here; OpenSSL checks later that the bytes are a key, and that
 * the key belongs to the certificate. Stateless.
 */
#include "kube/kube_pem.h"

#include <stdbool.h>
#include <string.h>

#include "common/str.h"

#define BEGIN "-----BEGIN "
#define END "-----END "
#define DASHES "-----"
#define TYPE_MAX 63

struct block {
	char type[TYPE_MAX + 1]; /* "RSA PRIVATE KEY" */
	bool encrypted;
	const char *fault; /* NULL: the block is valid */
};

/*
 * Sets *ret to the line at *at, without trailing spaces, and moves *at to the next line. Returns
 * false if no line is left.
 */
static bool next_line(const char **at, const char **ret, size_t *ret_n)
{
	size_t n = strcspn(*at, "\n");

	if (!**at)
		return false;
	*ret = *at;
	*at += n + ((*at)[n] == '\n');
	while (n && strchr(" \t\r", (*ret)[n - 1]))
		n--;
	*ret_n = n;
	return true;
}

/* Parses "-----BEGIN <type>-----", or the same with another `front`. */
static bool is_boundary(const char *line, size_t n, const char *front, char type[TYPE_MAX + 1])
{
	size_t before = strlen(front), behind = strlen(DASHES);

	if (n <= before + behind || n - before - behind > TYPE_MAX ||
	    !str_has_prefix(line, front) || memcmp(line + n - behind, DASHES, behind) != 0)
		return false;
	memcpy(type, line + before, n - before - behind);
	type[n - before - behind] = '\0';
	return true;
}

static bool is_base64(const char *line, size_t n)
{
	return strspn(line, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=") >=
	       n;
}

static bool says_encrypted(const char *line, size_t n)
{
	static const char word[] = "ENCRYPTED";

	return str_has_prefix(line, "Proc-Type:") && memmem(line, n, word, strlen(word));
}

/* Reads lines to the end of the block. */
static void pem_read_block(const char **at, struct block *b)
{
	const char *line;
	bool empty = true, headers = false;
	size_t n;

	b->encrypted = str_eq(b->type, "ENCRYPTED PRIVATE KEY");
	while (next_line(at, &line, &n)) {
		char type[TYPE_MAX + 1];

		if (is_boundary(line, n, END, type) && str_eq(type, b->type)) {
			b->fault = empty ? "is empty" : b->fault;
			return;
		}
		if (str_has_prefix(line, DASHES))
			break;
		headers = memchr(line, ':', n) || (headers && n);
		b->encrypted |= says_encrypted(line, n);
		if (!headers && !is_base64(line, n))
			b->fault = "is not base64";
		empty &= headers || !n;
	}
	b->fault = "has no end; the file may still be in the process of being written";
}

static bool is_for(const struct block *b, enum pem_use use)
{
	if (use == PEM_KEY)
		return str_has_suffix(b->type, "PRIVATE KEY");
	return str_eq(b->type, "CERTIFICATE") || str_eq(b->type, "X509 CERTIFICATE") ||
	       str_eq(b->type, "TRUSTED CERTIFICATE");
}

static int check_block(const char *what, const struct block *b, struct err *err)
{
	if (b->encrypted)
		return err_set(
			err, ERR_INVALID,
			"%s: the %s is protected by a pass phrase; give one without (openssl pkey -in "
			"OLD -out NEW)",
			what, b->type);
	if (b->fault)
		return err_set(err, ERR_INVALID, "%s: the PEM block %s %s", what, b->type,
		               b->fault);
	return 0;
}

int kube_pem_check(const char *what, const char *text, enum pem_use use, struct err *err)
{
	char other[TYPE_MAX + 1] = "";
	const char *line;
	bool found = false;
	size_t n;

	while (next_line(&text, &line, &n)) {
		struct block b = { .fault = NULL };

		if (!is_boundary(line, n, BEGIN, b.type))
			continue;
		pem_read_block(&text, &b);
		if (!is_for(&b, use)) {
			memcpy(other, b.type, sizeof(other));
			continue;
		}
		if (check_block(what, &b, err))
			return -1;
		found = true;
	}
	if (found)
		return 0;
	if (!*other)
		return err_set(err, ERR_INVALID, "%s does not hold PEM data", what);
	return err_set(err, ERR_INVALID, "%s holds no %s, but %s", what,
	               use == PEM_KEY ? "private key" : "certificate", other);
}
