/* SPDX-License-Identifier: Apache-2.0 */
/* Which PEM texts are accepted, and the errors of the others. */
#include <string.h>

#include "kube/kube_pem.h"
#include "test/lib/suite.h"

#define BLOCK(type, body) "-----BEGIN " type "-----\n" body "-----END " type "-----\n"
#define BODY "MIIB\nAg==\n"
#define HEADERS "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,0123456789ABCDEF\n\n"
#define PROTECTED(type) \
	"it: the " type \
	" is protected by a pass phrase; give one without (openssl pkey -in OLD -out NEW)"
#define NO_END(type)              \
	"it: the PEM block " type \
	" has no end; the file may still be in the process of being written"

static const struct {
	const char *what;
	enum pem_use use;
	const char *text, *error; /* error NULL: it is accepted */
} rows[] = {
	{ "a certificate", PEM_CERTIFICATE, BLOCK("CERTIFICATE", BODY), NULL },
	{ "a chain with text in between", PEM_CERTIFICATE,
	  "subject=a\n" BLOCK("CERTIFICATE", BODY) "\nsubject=b\n" BLOCK("CERTIFICATE", BODY),
	  NULL },
	{ "PKCS#8", PEM_KEY, BLOCK("PRIVATE KEY", BODY), NULL },
	{ "PKCS#1", PEM_KEY, BLOCK("RSA PRIVATE KEY", BODY), NULL },
	{ "an EC key behind its parameters", PEM_KEY,
	  BLOCK("EC PARAMETERS", BODY) BLOCK("EC PRIVATE KEY", BODY), NULL },
	{ "key and certificate in one file, as key", PEM_KEY,
	  BLOCK("CERTIFICATE", BODY) BLOCK("PRIVATE KEY", BODY), NULL },
	{ "lines that end with CR LF", PEM_KEY,
	  "-----BEGIN PRIVATE KEY-----\r\nMIIB\r\n-----END PRIVATE KEY-----\r\n", NULL },
	{ "no newline at the end", PEM_KEY,
	  "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----", NULL },
	{ "a header that says nothing of encryption", PEM_KEY,
	  BLOCK("RSA PRIVATE KEY", "Comment: mine\n\n" BODY), NULL },
	{ "a protected key in a file of certificates", PEM_CERTIFICATE,
	  BLOCK("ENCRYPTED PRIVATE KEY", BODY) BLOCK("CERTIFICATE", BODY), NULL },
	{ "PKCS#8 with a pass phrase", PEM_KEY, BLOCK("ENCRYPTED PRIVATE KEY", BODY),
	  PROTECTED("ENCRYPTED PRIVATE KEY") },
	{ "PKCS#1 with a pass phrase", PEM_KEY, BLOCK("RSA PRIVATE KEY", HEADERS BODY),
	  PROTECTED("RSA PRIVATE KEY") },
	{ "the same with CR LF", PEM_KEY,
	  "-----BEGIN EC PRIVATE KEY-----\r\nProc-Type: 4,ENCRYPTED\r\n\r\nMIIB\r\n-----END EC PRIVATE KEY-----\r\n",
	  PROTECTED("EC PRIVATE KEY") },
	{ "a protected key behind another one", PEM_KEY,
	  BLOCK("PRIVATE KEY", BODY) BLOCK("ENCRYPTED PRIVATE KEY", BODY),
	  PROTECTED("ENCRYPTED PRIVATE KEY") },
	{ "a certificate with a pass phrase", PEM_CERTIFICATE, BLOCK("CERTIFICATE", HEADERS BODY),
	  PROTECTED("CERTIFICATE") },
	{ "a certificate in place of the key", PEM_KEY, BLOCK("CERTIFICATE", BODY),
	  "it holds no private key, but CERTIFICATE" },
	{ "a key in place of the certificate", PEM_CERTIFICATE, BLOCK("PRIVATE KEY", BODY),
	  "it holds no certificate, but PRIVATE KEY" },
	{ "half a file", PEM_KEY, "-----BEGIN PRIVATE KEY-----\nMIIB\n", NO_END("PRIVATE KEY") },
	{ "half a line", PEM_KEY, "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIV",
	  NO_END("PRIVATE KEY") },
	{ "the end of another type", PEM_KEY,
	  "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END CERTIFICATE-----\n", NO_END("PRIVATE KEY") },
	{ "the second of two is cut", PEM_CERTIFICATE,
	  BLOCK("CERTIFICATE", BODY) "-----BEGIN CERTIFICATE-----\n", NO_END("CERTIFICATE") },
	{ "nothing in it", PEM_KEY, BLOCK("PRIVATE KEY", "\n"),
	  "it: the PEM block PRIVATE KEY is empty" },
	{ "no base64", PEM_KEY, BLOCK("PRIVATE KEY", "MII$\n"),
	  "it: the PEM block PRIVATE KEY is not base64" },
	{ "an empty file", PEM_KEY, "", "it does not hold PEM data" },
	{ "DER", PEM_KEY, "\x30\x82\x01", "it does not hold PEM data" },
	{ "a byte order mark", PEM_KEY, "\xef\xbb\xbf" BLOCK("PRIVATE KEY", BODY),
	  "it does not hold PEM data" },
};

START_TEST(a_pem_text_is_taken_or_said_to_be_of_no_use)
{
	struct err err = ERR_INIT;
	int rc = kube_pem_check("it", rows[_i].text, rows[_i].use, &err);

	ck_assert_int_eq(rc, rows[_i].error ? -1 : 0);
	ROW_STR_EQ(rows[_i].what, err.msg, rows[_i].error ? rows[_i].error : "");
	ck_assert_int_eq(err.code, rows[_i].error ? ERR_INVALID : ERR_OK);
}
END_TEST

SUITE("kube_pem", LOOP(a_pem_text_is_taken_or_said_to_be_of_no_use, ARRAY_LEN(rows)));
