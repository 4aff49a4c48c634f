#include "tests/sim/gen.h"

#define STRANGER 14
#define TX_PAYEES 6		/* accounts 6 to 9 */
#define ROUTE_PAYEES 10		/* accounts 10 to 13: no transaction's intents are theirs */

/* Transactions. */

static int make_tx(struct gen *g, bool reverted)
{
	ADD(g, ITEM_TX, 0, g->txs, reverted);
	return g->txs++;
}

static void make_log(struct gen *g, int tx, int contract, int from, int to, uint64_t value, enum log_form form)
{
	ADD(g, ITEM_LOG, 0, tx, contract, from, to, (int64_t)value, form);
}

static void send(struct gen *g, int tx, int64_t from_ms, unsigned group)
{
	struct pooled *p = &g->pool[g->pool_count++];

	*p = (struct pooled){ .tx = tx, .from_ms = from_ms, .percent = of(g, 80) ? 60 : 15, .group = group };
	p->until_ms = of(g, 20) ? from_ms + 15000 + (int64_t)below(g, 60000) : INT64_MAX;
}

static bool has_room(const struct gen *g, int txs)
{
	return g->txs + txs < TXS_MAX - 2 && g->intents < 12;
}

struct wish {
	int id, token, payee, payer;	/* payer -1: any */
	uint64_t amount;
	int64_t open_ms;
};

static int payer_of(struct gen *g, const struct wish *i)
{
	return i->payer >= 0 ? i->payer : (int)below(g, 6);
}

static struct wish make_intent(struct gen *g, int64_t at_ms, int payee)
{
	struct wish i = { .id = g->intents++, .payee = payee, .open_ms = at_ms };
	bool opened = of(g, 80);

	i.token = (int)below(g, 2);
	i.payer = of(g, 30) ? (int)below(g, 6) : -1;
	i.amount = 100 + below(g, of(g, 50) ? 4000 : 20000);
	ADD(g, ITEM_INTENT, at_ms, i.id, 0, i.token, i.payee, i.payer, (int64_t)i.amount, -1, opened);
	if (opened)
		return i;
	if (of(g, 20)) {
		ADD(g, ITEM_CANCEL, at_ms + 5000, i.id);
		return i;
	}
	i.open_ms = at_ms + 1000 + (int64_t)below(g, 40000);
	ADD(g, ITEM_OPEN, i.open_ms, i.id);
	return i;
}

/* What the transaction really does for the intent. */
static void pay(struct gen *g, int tx, const struct wish *i)
{
	int from = payer_of(g, i), another = (int)below(g, 6);
	uint64_t part = 1 + below(g, i->amount - 1);

	if (of(g, 20))
		make_log(g, tx, i->token, another, STRANGER, 7, of(g, 50) ? FORM_OTHER_TOPIC : FORM_TRANSFER);
	switch (below(g, 16)) {
	case 0:
		make_log(g, tx, i->token, from, i->payee, i->amount - 1, FORM_TRANSFER);
		return;
	case 1:
		make_log(g, tx, i->token, from, i->payee, i->amount + 1 + below(g, 50), FORM_TRANSFER);
		return;
	case 2:
		make_log(g, tx, i->token, from, i->payee, part, FORM_TRANSFER);
		make_log(g, tx, i->token, from, i->payee, i->amount - part, FORM_TRANSFER);
		return;
	case 3:
		make_log(g, tx, i->token, from, i->payee, part, FORM_TRANSFER);
		make_log(g, tx, i->token, from, i->payee, i->amount, FORM_TRANSFER);
		return;
	case 4:
		make_log(g, tx, i->token, (from + 1) % 6, i->payee, i->amount, FORM_TRANSFER);
		return;
	case 5:
		make_log(g, tx, of(g, 50) ? CONTRACT_OTHER : !i->token, from, i->payee, i->amount, FORM_TRANSFER);
		return;
	case 6:
		if (of(g, 40))
			make_log(g, tx, CONTRACT_NATIVE, from, i->payee, i->amount, FORM_TRANSFER);
		else
			make_log(g, tx, i->token, from, i->payee, i->amount, of(g, 50) ? FORM_INDEXED : FORM_OTHER_TOPIC);
		return;
	case 7:
		make_log(g, tx, i->token, from, i->payee, 0, FORM_TRANSFER);
		return;
	case 8:
		make_log(g, tx, i->token, from, i->payee, i->amount, FORM_SKIMMED);
		return;
	default:
		make_log(g, tx, i->token, from, i->payee, i->amount, FORM_TRANSFER);
		if (of(g, 15))
			make_log(g, tx, i->token, i->payee, STRANGER, part, FORM_TRANSFER);
	}
}

/* The relayer names the transaction, mostly before it is mined, and may say that it was sent. */
static void name(struct gen *g, const struct wish *i, int tx, int64_t mined_ms)
{
	int64_t at_ms = i->open_ms + 100 + (int64_t)below(g, 5000);

	if (of(g, 15))
		at_ms = mined_ms + (int64_t)below(g, 120000);
	if (of(g, 85))
		ADD(g, ITEM_ATTEMPT, at_ms, i->id, tx);
	else
		ADD(g, ITEM_CONFIRM, at_ms, i->id, tx);
	if (of(g, 20))
		ADD(g, ITEM_CONFIRM, at_ms + 100 + (int64_t)below(g, 60000), i->id, tx);
}

static void make_single(struct gen *g, int64_t at_ms)
{
	struct wish i = make_intent(g, at_ms, TX_PAYEES + (int)below(g, 4));
	int tx = make_tx(g, of(g, 6));
	int64_t mined_ms = i.open_ms + (int64_t)below(g, 60000);

	pay(g, tx, &i);
	if (of(g, 5))
		mined_ms -= 240000;		/* long before it was asked for */
	if (of(g, 90))
		send(g, tx, mined_ms, 0);
	name(g, &i, tx, mined_ms);
	if (of(g, 8))
		ADD(g, ITEM_FAIL, i.open_ms + 8000 + (int64_t)below(g, 60000), i.id);
	if (of(g, 8)) {
		int64_t decided_ms = i.open_ms + 60000 + (int64_t)below(g, 400000);

		ADD(g, ITEM_DECIDE, decided_ms, i.id, of(g, 50), -1);
	}
}

/* Two attempts: of one nonce, so that one is mined; or of two, and it may be paid twice. */
static void make_replaced(struct gen *g, int64_t at_ms)
{
	struct wish i = make_intent(g, at_ms, TX_PAYEES + (int)below(g, 4));
	unsigned group = of(g, 60) ? ++g->groups : 0;

	for (int n = 0; n < 2 + (int)below(g, 2); n++) {
		int tx = make_tx(g, of(g, 5));
		int64_t mined_ms = i.open_ms + (int64_t)below(g, 90000);

		pay(g, tx, &i);
		send(g, tx, mined_ms, group);
		name(g, &i, tx, mined_ms);
	}
}

/* One transaction pays several; they may want the same transfer. */
static void make_batch(struct gen *g, int64_t at_ms)
{
	struct wish first = make_intent(g, at_ms, TX_PAYEES + (int)below(g, 4));
	int64_t mined_ms = first.open_ms + 30000 + (int64_t)below(g, 60000);
	int tx = make_tx(g, of(g, 4)), count = 1 + (int)below(g, 2);

	pay(g, tx, &first);
	name(g, &first, tx, mined_ms);
	for (int n = 0; n < count; n++) {
		struct wish i = { g->intents++, first.token, first.payee, first.payer, first.amount,
				  at_ms + (int64_t)below(g, 20000) };
		bool same = of(g, 60);

		if (!same) {
			i.payee = TX_PAYEES + (int)below(g, 4);
			i.amount = 100 + below(g, 4000);
		}
		ADD(g, ITEM_INTENT, i.open_ms, i.id, 0, i.token, i.payee, i.payer, (int64_t)i.amount, -1, true);
		if (!same || of(g, 50))
			make_log(g, tx, i.token, payer_of(g, &i), i.payee, i.amount, FORM_TRANSFER);
		name(g, &i, tx, mined_ms);
		if (of(g, 10))
			ADD(g, ITEM_FAIL, i.open_ms + 8000 + (int64_t)below(g, 60000), i.id);
	}
	send(g, tx, mined_ms, 0);
}

/* Routes. */

static struct wish make_route(struct gen *g, int64_t at_ms, int payee, bool any_payer)
{
	struct wish i = { .id = g->intents++, .payee = payee, .open_ms = at_ms };
	int64_t expiry_ms = of(g, 25) ? at_ms + 60000 + (int64_t)below(g, 120000) : -1;

	i.token = (int)below(g, 2);
	i.payer = any_payer || of(g, 60) ? -1 : (int)below(g, 6);
	i.amount = 100 + below(g, 8000);
	ADD(g, ITEM_INTENT, at_ms, i.id, 1, i.token, i.payee, i.payer, (int64_t)i.amount, expiry_ms, true);
	if (of(g, 6))
		ADD(g, ITEM_FAIL, at_ms + 60000 + (int64_t)below(g, 200000), i.id);
	return i;
}

static int pay_route(struct gen *g, const struct wish *i)
{
	int tx = make_tx(g, of(g, 3)), from = payer_of(g, i), token = i->token;
	uint64_t amount = i->amount;
	int64_t mined_ms = i->open_ms + (of(g, 10) ? -20000 : 2000);

	mined_ms += (int64_t)below(g, of(g, 80) ? 60000 : 260000);
	switch (below(g, 10)) {
	case 0:
		amount--;
		break;
	case 1:
		amount += 5;
		break;
	case 2:
		from = (from + 1) % 6;
		break;
	case 3:
		token = !token;
		break;
	default:
		break;
	}
	make_log(g, tx, token, from, i->payee, amount, FORM_TRANSFER);
	send(g, tx, mined_ms, 0);
	return tx;
}

static void make_one_route(struct gen *g, int64_t at_ms, int payee)
{
	struct wish i = make_route(g, at_ms, payee, false);

	if (of(g, 90))
		pay_route(g, &i);
	if (of(g, 25))
		pay_route(g, &i);
}

/* Two that one transfer fits; sometimes the relayer says which. */
static void make_ambiguous(struct gen *g, int64_t at_ms, int payee)
{
	struct wish any = make_route(g, at_ms, payee, true);
	struct wish one = any;
	int tx;

	one.id = g->intents++;
	one.payer = (int)below(g, 6);
	one.open_ms += (int64_t)below(g, 5000);
	ADD(g, ITEM_INTENT, one.open_ms, one.id, 1, one.token, one.payee, one.payer, (int64_t)one.amount, -1, true);
	any.open_ms = one.open_ms;
	any.payer = of(g, 80) ? one.payer : -1;
	tx = pay_route(g, &any);
	if (of(g, 60))
		ADD(g, ITEM_CONFIRM, one.open_ms + 20000 + (int64_t)below(g, 200000), one.id, tx);
}

void gen_intents(struct gen *g)
{
	int wanted = 3 + (int)below(g, 8), routes = 0;

	while (g->intents < wanted && has_room(g, 5)) {
		int64_t at_ms = 5000 + (int64_t)below(g, (uint64_t)g->end_ms * 6 / 10);
		uint64_t kind = below(g, 100);

		if (kind < 40)
			make_single(g, at_ms);
		else if (kind < 55)
			make_replaced(g, at_ms);
		else if (kind < 75 || routes == 4)
			make_batch(g, at_ms);
		else if (kind < 90)
			make_one_route(g, at_ms, ROUTE_PAYEES + routes++);
		else
			make_ambiguous(g, at_ms, ROUTE_PAYEES + routes++);
	}
	for (int n = 0; n < 4 && has_room(g, 1); n++) {
		int tx = make_tx(g, false), contract = (int)below(g, 3), from = (int)below(g, 10);
		int to = of(g, 30) ? TX_PAYEES + (int)below(g, 4) : STRANGER;

		make_log(g, tx, contract, from, to, 1 + below(g, 900), FORM_TRANSFER);
		send(g, tx, (int64_t)below(g, (uint64_t)g->end_ms), 0);
	}
}
