/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses a request's head strictly. It refuses encodings that two programs could read differently
 * (whitespace before a colon, a folded line, a bare LF, a body), and features that are not needed
 * to read a page.
 */
#include "web/web_request.h"

#include <string.h>
#include <strings.h>

struct text {
	const char *at;
	size_t n;
};

static bool is(struct text t, const char *what)
{
	return t.n == strlen(what) && strncasecmp(t.at, what, t.n) == 0;
}

/* Cuts off the text up to `end`, together with `end`. Returns false if `end` is absent. */
static bool web_text_cut(struct text *rest, char end, struct text *ret)
{
	const char *at = memchr(rest->at, end, rest->n);

	if (!at)
		return false;
	*ret = (struct text) { rest->at, (size_t)(at - rest->at) };
	rest->n -= ret->n + 1;
	rest->at = at + 1;
	return true;
}

static bool has(struct text t, char c)
{
	return memchr(t.at, c, t.n) != NULL;
}

static struct text trim(struct text t)
{
	while (t.n && (*t.at == ' ' || *t.at == '\t')) {
		t.at++;
		t.n--;
	}
	while (t.n && (t.at[t.n - 1] == ' ' || t.at[t.n - 1] == '\t'))
		t.n--;
	return t;
}

/* Parses "GET /metrics?x=y HTTP/1.1". */
static int parse_line(struct text line, struct web_request *ret)
{
	struct text method, target;
	const char *query;

	if (!web_text_cut(&line, ' ', &method) || !web_text_cut(&line, ' ', &target) || !method.n)
		return 400;
	if (line.n != 8 || memcmp(line.at, "HTTP/1.", 7) != 0)
		return line.n >= 5 && memcmp(line.at, "HTTP/", 5) == 0 ? 505 : 400;
	if (line.at[7] != '0' && line.at[7] != '1')
		return 505;
	ret->head = is(method, "HEAD");
	if (!(method.n == 3 && memcmp(method.at, "GET", 3) == 0) &&
	    !(method.n == 4 && memcmp(method.at, "HEAD", 4) == 0))
		return 405;
	if (!target.n || *target.at != '/')
		return 400;
	query = memchr(target.at, '?', target.n);
	ret->path = target.at;
	ret->path_n = query ? (size_t)(query - target.at) : target.n;
	return 0;
}

static int parse_header(struct text line)
{
	struct text name;

	if (!web_text_cut(&line, ':', &name) || !name.n || has(name, ' ') || has(name, '\t'))
		return 400;
	line = trim(line);
	if (is(name, "Transfer-Encoding"))
		return 501;
	if (is(name, "Content-Length"))
		return is(line, "0") ? 0 : 400;
	return 0;
}

/* Returns each line without its CRLF; the head ends with an empty line. */
static bool next_line(struct text *rest, struct text *ret)
{
	if (!web_text_cut(rest, '\n', ret))
		return false;
	if (ret->n)
		ret->n--; /* the CR, as checked by web_request_parse() */
	return true;
}

/*
 * Returns true if every LF follows a CR, every CR precedes an LF, and no other byte except a tab is
 * a control character.
 */
static bool is_clean(struct text t)
{
	for (size_t i = 0; i < t.n; i++) {
		unsigned char c = (unsigned char)t.at[i];

		if (c == '\n'   ? !i || t.at[i - 1] != '\r'
		    : c == '\r' ? i + 1 < t.n && t.at[i + 1] != '\n'
		                : (c < ' ' && c != '\t') || c == 0x7f)
			return false;
	}
	return true;
}

int web_request_parse(const char *bytes, size_t n, struct web_request *ret, size_t *ret_used)
{
	const char *end = memmem(bytes, n, "\r\n\r\n", 4);
	struct text rest = { bytes, end ? (size_t)(end - bytes) + 4 : n }, line;
	int rc;

	*ret = (struct web_request) { .path = bytes };
	if (!is_clean(rest))
		return 400;
	if (!end)
		return WEB_MORE;
	*ret_used = rest.n;
	rc = next_line(&rest, &line) ? parse_line(line, ret) : 400;
	while (!rc && next_line(&rest, &line) && line.n)
		rc = parse_header(line);
	return rc;
}
