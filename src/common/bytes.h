/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that read numbers from the bytes of a disk or a device, at any alignment. le32() reads
 * a little-endian number of 32 bits.
 */
#pragma once

#include <endian.h>
#include <stdint.h>
#include <string.h>

#define DEFINE_READ(order, bits)                                   \
	static inline uint##bits##_t order##bits(const uint8_t *p) \
	{                                                          \
		uint##bits##_t v;                                  \
		memcpy(&v, p, sizeof(v));                          \
		return order##bits##toh(v);                        \
	}                                                          \
	struct read_semicolon_

DEFINE_READ(le, 16);
DEFINE_READ(le, 32);
DEFINE_READ(le, 64);
DEFINE_READ(be, 16);
DEFINE_READ(be, 32);
DEFINE_READ(be, 64);
