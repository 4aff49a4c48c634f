#include "listener/reads_parts.h"

#include <stdio.h>
#include <string.h>

/* balanceOf at a block and at its parent, by hash (EIP-1898).  What a call is for: */
enum {
	BEFORE = 0,
	AFTER = 1,
	LATE = 2,		/* its block was applied without it */
};

#define BALANCE_PATIENCE 2	/* a block does not wait for a balance that failed so often */

static struct fetch *fetch_of(struct body_witness *bw, unsigned kind)
{
	return kind & AFTER ? &bw->after : &bw->before;
}

static struct late_balance *find_late(struct late_balance *list, size_t count, const struct hash32 *hash, const struct address *token,
			      const struct address *payee)
{
	for (size_t i = 0; i < count; i++) {
		if (hash_eq(&list[i].hash, hash) && address_eq(&list[i].bw.witness.token, token) &&
		    address_eq(&list[i].bw.witness.payee, payee))
			return &list[i];
	}
	return NULL;
}

/* By what was asked, not by its place: that may have been given up and made anew since. */
static struct body_witness *find_asked(struct reads *r, const struct rpc_call *call)
{
	struct body_slot *slot;
	struct late_balance *late;

	if (call->kind & LATE) {
		late = find_late(r->late, r->late_count, &call->hash, &call->token, &call->account);
		return late ? &late->bw : NULL;
	}
	slot = bodies_find(&r->bodies, &call->hash);
	return slot ? bodies_witness(slot, &call->token, &call->account) : NULL;
}

static void take_balance(struct body_witness *bw, unsigned kind, const struct u256 *v)
{
	if (kind & AFTER) {
		bw->witness.after = *v;
		bw->have_after = true;
	} else {
		bw->witness.before = *v;
		bw->have_before = true;
	}
	if (bw->have_before && bw->have_after) {
		bw->readings++;
		bw->witness.have = true;
	}
}

static void balance_done(struct rpc_call *call, enum rpc_outcome outcome, const struct reply *reply)
{
	struct reads *r = call->ctx;
	struct body_witness *bw = find_asked(r, call);
	struct complaint why;
	struct u256 v;
	bool good;

	if (outcome == RPC_CANCELED)
		return;
	/* A result is not judged: nothing proves a balance. */
	reads_heard(r, call->who, outcome == RPC_RESULT ? RPC_NULL : outcome, false);
	/* Of another turn: the other of two calls brought it, and this is no second reading. */
	if (!bw || call->turn != fetch_of(bw, call->kind)->turn)
		return;
	good = outcome == RPC_RESULT && result_word(reply->result, &v, &why) == OK;
	reads_ended(r, fetch_of(bw, call->kind), call->turn, good);
	if (good) {
		/* If it must be read again, another is asked. */
		fetch_of(bw, call->kind)->who = call->who;
		take_balance(bw, call->kind, &v);
	} else if (outcome == RPC_ERROR && rpc_is_gone(reply)) {
		bw->gone = reads_gone(r, fetch_of(bw, call->kind), call->who);
	}
	r->changed(r->ctx);
}

static void ask_balance(struct reads *r, struct body_witness *bw, const struct hash32 *hash, const struct hash32 *at,
			unsigned kind)
{
	struct fetch *f = fetch_of(bw, kind);
	char token[ADDRESS_TEXT], payee[ADDRESS_TEXT], text[HASH_TEXT], params[320];

	if (!reads_may_ask(r, f))
		return;
	snprintf(params, sizeof(params),
		 "[{\"to\":\"%s\",\"data\":\"0x70a08231000000000000000000000000%s\"},{\"blockHash\":\"%s\"}]",
		 address_format(&bw->witness.token, token), address_format(&bw->witness.payee, payee) + 2,
		 hash_format(at, text));
	reads_ask(r, f, NEED_ANY,
	    (struct rpc_call){ .method = "eth_call", .done = balance_done, .hash = *hash, .kind = kind,
			       .token = bw->witness.token, .account = bw->witness.payee }, params);
}

static void ask_missing(struct reads *r, struct body_witness *bw, const struct hash32 *hash, const struct hash32 *parent,
			unsigned late)
{
	if (!bw->have_before)
		ask_balance(r, bw, hash, parent, BEFORE | late);
	if (!bw->have_after)
		ask_balance(r, bw, hash, hash, AFTER | late);
}

/* Of a block that is to be applied. */

static bool has_waited(struct reads *r, struct body_witness *bw)
{
	int64_t until_ms;

	if (bw->before.failures >= BALANCE_PATIENCE || bw->after.failures >= BALANCE_PATIENCE)
		return true;
	if (!r->config->balance_wait_ms)
		return false;
	if (!bw->since_ms)
		bw->since_ms = reads_now_ms(r);
	until_ms = bw->since_ms + r->config->balance_wait_ms;
	if (until_ms > reads_now_ms(r))
		reads_wake_at(r, until_ms);
	return until_ms <= reads_now_ms(r);
}

/* A contradiction that cannot be read again stands: the doubt is a person's. */
static void keep_first(struct body_witness *bw)
{
	bw->witness = bw->first;
	bw->readings++;
}

/* The block need not wait for it. */
static bool is_over(struct reads *r, struct body_witness *bw)
{
	if (bw->witness.have || bw->witness.late)
		return true;
	if (bw->gone && bw->readings == 1)
		keep_first(bw);
	if (!bw->gone)
		bw->witness.late = has_waited(r, bw);
	return bw->gone || bw->witness.late;
}

bool reads_witnesses(struct reads *r, struct body_slot *slot)
{
	bool all = true;

	reads_hold(r);
	for (size_t i = 0; i < slot->witness_count; i++) {
		struct body_witness *bw = &slot->witnesses[i];

		if (is_over(r, bw))
			continue;
		all = false;
		ask_missing(r, bw, &slot->hash, &slot->block.header.parent_hash, 0);
	}
	reads_release(r);
	return all;
}

void reads_witness_again(struct reads *r, struct body_slot *slot, struct body_witness *bw)
{
	bodies_read_again(bw);
	reads_witnesses(r, slot);
}

/* Of blocks that were applied without it. */

void reads_late_keep(struct reads *r, const struct late_balance *wanted, size_t count)
{
	struct late_balance before[LATE_MAX];
	size_t before_count = r->late_count;

	memcpy(before, r->late, sizeof(before));
	for (size_t i = 0; i < count; i++) {
		const struct witness *w = &wanted[i].bw.witness;
		const struct late_balance *known = find_late(before, before_count, &wanted[i].hash, &w->token, &w->payee);

		r->late[i] = known ? *known : wanted[i];
	}
	r->late_count = count;
}

void reads_late_ask(struct reads *r)
{
	reads_hold(r);
	for (size_t i = 0; i < r->late_count; i++) {
		struct late_balance *late = &r->late[i];

		if (!late->bw.witness.have && !late->bw.gone)
			ask_missing(r, &late->bw, &late->hash, &late->parent, LATE);
	}
	reads_release(r);
}
