/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "<form><check>.<body>". The checksum covers the namespace and the API server's token. It is not
 * secret, because a caller may read every page anyway. All driver instances compute the same
 * checksum, so that one instance can continue a list that another has begun.
 *
 * API servers encode their token as base64url of printable text, without padding; the body is then
 * the decoded text (form "t"), which is a quarter shorter and is not interpreted. Any other token
 * is used as the body unchanged (form "r").
 */
#include "controller/list_token.h"

#include <stdint.h>
#include <string.h>

#include "common/str.h"

#define CHECK_LEN 8
#define HEAD_LEN (1 + CHECK_LEN + 1)

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static char *to_base64url(const char *text, struct arena *arena)
{
	size_t n = strlen(text), out = 0;
	char *ret = arena_alloc(arena, n / 3 * 4 + 5);
	uint32_t bits = 0;
	int have = 0;

	for (size_t i = 0; i < n; i++) {
		bits = bits << 8 | (unsigned char)text[i];
		for (have += 8; have >= 6; have -= 6)
			ret[out++] = alphabet[bits >> (have - 6) & 63];
	}
	if (have)
		ret[out++] = alphabet[bits << (6 - have) & 63];
	ret[out] = 0;
	return ret;
}

/* Returns NULL if the text is not the base64url of printable ASCII. */
static char *from_base64url(const char *coded, struct arena *arena)
{
	char *ret = arena_alloc(arena, strlen(coded) / 4 * 3 + 4);
	uint32_t bits = 0;
	size_t out = 0;
	int have = 0;

	for (; *coded; coded++) {
		const char *at = strchr(alphabet, *coded);

		if (!at)
			return NULL;
		bits = bits << 6 | (uint32_t)(at - alphabet);
		have += 6;
		if (have < 8)
			continue;
		have -= 8;
		ret[out] = (char)(bits >> have & 255);
		if (ret[out] < ' ' || ret[out] > '~')
			return NULL;
		out++;
	}
	ret[out] = 0;
	return ret;
}

static void check_of(const char *ns, const char *api_token, char ret[CHECK_LEN + 1])
{
	char *both AUTO(free) = xasprintf("%s/%s", ns, api_token);
	char hash[33];

	fnv128_hex("list ", both, hash);
	memcpy(ret, hash + sizeof(hash) - 1 - CHECK_LEN, CHECK_LEN);
	ret[CHECK_LEN] = 0;
}

const char *list_token_make(const char *ns, const char *api_token, struct arena *arena)
{
	char check[CHECK_LEN + 1];
	const char *text;

	if (str_empty(api_token))
		return "";
	check_of(ns, api_token, check);
	text = from_base64url(api_token, arena);
	if (text && str_eq(to_base64url(text, arena), api_token))
		return arena_printf(arena, "t%s.%s", check, text);
	return arena_printf(arena, "r%s.%s", check, api_token);
}

const char *list_token_read(const char *ns, const char *token, struct arena *arena)
{
	const char *api_token;

	if (str_empty(token))
		return "";
	if (strlen(token) <= HEAD_LEN || token[HEAD_LEN - 1] != '.' ||
	    (token[0] != 't' && token[0] != 'r'))
		return NULL;
	api_token = token[0] == 't' ? to_base64url(token + HEAD_LEN, arena) : token + HEAD_LEN;
	return str_eq(list_token_make(ns, api_token, arena), token) ? api_token : NULL;
}
