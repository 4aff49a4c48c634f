#include "listener/bodies.h"

#include <stdlib.h>

void bodies_drop_singles(struct body_slot *slot)
{
	for (uint32_t i = 0; slot->singles && i < slot->block.tx_count; i++)
		buf_free(&slot->singles[i]);
	free(slot->singles);
	slot->singles = NULL;
}

void bodies_free(struct bodies *b)
{
	for (size_t i = 0; i < BODIES_MAX; i++) {
		block_free(&b->slots[i].block);
		receipts_free(&b->slots[i].receipts);
		bodies_drop_singles(&b->slots[i]);
		free(b->slots[i].witnesses);
	}
}

struct body_slot *bodies_find(struct bodies *b, const struct hash32 *hash)
{
	for (size_t i = 0; i < BODIES_MAX; i++) {
		if (b->slots[i].used && hash_eq(&b->slots[i].hash, hash))
			return &b->slots[i];
	}
	return NULL;
}

void bodies_drop(struct body_slot *slot)
{
	struct block block = slot->block;
	struct receipts receipts = slot->receipts;

	bodies_drop_singles(slot);
	free(slot->witnesses);
	*slot = (struct body_slot){ .block = block, .receipts = receipts };
}

static struct body_slot *least_recent(struct bodies *b)
{
	struct body_slot *oldest = &b->slots[0];

	for (size_t i = 0; i < BODIES_MAX; i++) {
		if (!b->slots[i].used)
			return &b->slots[i];
		if (b->slots[i].last_used < oldest->last_used)
			oldest = &b->slots[i];
	}
	return oldest;
}

struct body_slot *bodies_use(struct bodies *b, const struct hash32 *hash)
{
	struct body_slot *slot = bodies_find(b, hash);

	if (!slot) {
		slot = least_recent(b);
		bodies_drop(slot);
		slot->used = true;
		slot->hash = *hash;
	}
	slot->last_used = ++b->clock;
	return slot;
}

struct buf *bodies_singles(struct body_slot *slot)
{
	if (!slot->singles)
		slot->singles = xcalloc(slot->block.tx_count + 1, sizeof(*slot->singles));
	return slot->singles;
}

struct body_witness *bodies_witness(struct body_slot *slot, const struct address *token,
				    const struct address *payee)
{
	for (size_t i = 0; i < slot->witness_count; i++) {
		const struct witness *w = &slot->witnesses[i].witness;

		if (address_eq(&w->token, token) && address_eq(&w->payee, payee))
			return &slot->witnesses[i];
	}
	return NULL;
}

struct body_witness *bodies_want(struct body_slot *slot, const struct witness *w)
{
	struct body_witness *bw;

	slot->witnesses = xrealloc(slot->witnesses, (slot->witness_count + 1) * sizeof(*slot->witnesses));
	bw = &slot->witnesses[slot->witness_count++];
	*bw = (struct body_witness){ .witness = { .token = w->token, .payee = w->payee } };
	return bw;
}

struct witness bodies_reading(const struct body_witness *bw)
{
	struct witness w = bw->witness;

	if (w.have || !w.late)
		return w;
	w.doubted = bw->readings > 0;
	w.before = w.doubted ? bw->first.before : u256_from_u64(0);
	w.after = w.doubted ? bw->first.after : u256_from_u64(0);
	return w;
}

void bodies_read_again(struct body_witness *bw)
{
	bw->first = bw->witness;
	bw->witness.have = bw->witness.late = bw->have_before = bw->have_after = bw->gone = false;
	bw->since_ms = 0;
	/* As after a failure: elsewhere, if there is another endpoint. */
	bw->before.failures = bw->after.failures = 1;
}
