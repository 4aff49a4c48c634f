#include "common/keccak.h"

#include <string.h>

#define RATE 136		/* bytes taken up by one permutation */
#define ROUNDS 24

static const uint64_t round_constants[ROUNDS] = {
	0x0000000000000001, 0x0000000000008082, 0x800000000000808a, 0x8000000080008000,
	0x000000000000808b, 0x0000000080000001, 0x8000000080008081, 0x8000000000008009,
	0x000000000000008a, 0x0000000000000088, 0x0000000080008009, 0x000000008000000a,
	0x000000008000808b, 0x800000000000008b, 0x8000000000008089, 0x8000000000008003,
	0x8000000000008002, 0x8000000000000080, 0x000000000000800a, 0x800000008000000a,
	0x8000000080008081, 0x8000000000008080, 0x0000000080000001, 0x8000000080008008,
};

static inline uint64_t rotate(uint64_t v, int bits)
{
	return v << bits | v >> (64 - bits);
}

static inline void put_row(uint64_t *out, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
			   uint64_t e)
{
	out[0] = a ^ (~b & c);
	out[1] = b ^ (~c & d);
	out[2] = c ^ (~d & e);
	out[3] = d ^ (~e & a);
	out[4] = e ^ (~a & b);
}

static inline uint64_t column(const uint64_t *in, int x)
{
	return in[x] ^ in[x + 5] ^ in[x + 10] ^ in[x + 15] ^ in[x + 20];
}

/*
 * One round, lane x + 5y.  Theta, rho and pi pick each row's lanes, chi is
 * put_row(), iota the constant.  Inlined so that two rounds share registers:
 * a third faster.
 */
static inline __attribute__((always_inline)) void
step(const uint64_t *restrict in, uint64_t *restrict out, uint64_t constant)
{
	uint64_t p = column(in, 0), q = column(in, 1), r = column(in, 2), s = column(in, 3),
		 t = column(in, 4);
	uint64_t d0 = t ^ rotate(q, 1), d1 = p ^ rotate(r, 1), d2 = q ^ rotate(s, 1),
		 d3 = r ^ rotate(t, 1), d4 = s ^ rotate(p, 1);

	put_row(out, in[0] ^ d0, rotate(in[6] ^ d1, 44), rotate(in[12] ^ d2, 43),
		rotate(in[18] ^ d3, 21), rotate(in[24] ^ d4, 14));
	put_row(out + 5, rotate(in[3] ^ d3, 28), rotate(in[9] ^ d4, 20), rotate(in[10] ^ d0, 3),
		rotate(in[16] ^ d1, 45), rotate(in[22] ^ d2, 61));
	put_row(out + 10, rotate(in[1] ^ d1, 1), rotate(in[7] ^ d2, 6), rotate(in[13] ^ d3, 25),
		rotate(in[19] ^ d4, 8), rotate(in[20] ^ d0, 18));
	put_row(out + 15, rotate(in[4] ^ d4, 27), rotate(in[5] ^ d0, 36), rotate(in[11] ^ d1, 10),
		rotate(in[17] ^ d2, 15), rotate(in[23] ^ d3, 56));
	put_row(out + 20, rotate(in[2] ^ d2, 62), rotate(in[8] ^ d3, 55), rotate(in[14] ^ d4, 39),
		rotate(in[15] ^ d0, 41), rotate(in[21] ^ d1, 2));
	out[0] ^= constant;
}

static void permute(uint64_t lanes[25])
{
	uint64_t other[25];

	for (int i = 0; i < ROUNDS; i += 2) {
		step(lanes, other, round_constants[i]);
		step(other, lanes, round_constants[i + 1]);
	}
}

static inline uint64_t le64_get(const uint8_t *in)
{
	return (uint64_t)in[0] | (uint64_t)in[1] << 8 | (uint64_t)in[2] << 16 |
	       (uint64_t)in[3] << 24 | (uint64_t)in[4] << 32 | (uint64_t)in[5] << 40 |
	       (uint64_t)in[6] << 48 | (uint64_t)in[7] << 56;
}

static void absorb(uint64_t lanes[25], const uint8_t block[RATE])
{
	for (int i = 0; i < RATE / 8; i++)
		lanes[i] ^= le64_get(block + 8 * i);
	permute(lanes);
}

static struct hash32 squeeze(const uint64_t lanes[25])
{
	struct hash32 h;

	for (int i = 0; i < 32; i++)
		h.b[i] = (uint8_t)(lanes[i / 8] >> 8 * (i % 8));
	return h;
}

struct hash32 keccak256(const void *data, size_t len)
{
	uint64_t lanes[25] = { 0 };
	uint8_t last[RATE] = { 0 };
	const uint8_t *at = data;

	for (; len >= RATE; at += RATE, len -= RATE)
		absorb(lanes, at);
	if (len)
		memcpy(last, at, len);
	last[len] = 0x01;
	last[RATE - 1] |= 0x80;
	absorb(lanes, last);
	return squeeze(lanes);
}
