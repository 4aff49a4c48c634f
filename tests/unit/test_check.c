/*
 * "tidemark check" on stores that replays of the fixtures made: no faults; and
 * after one row was damaged, exactly the complaint about it.
 *
 * Runs from the checkout's root.
 */
#define _GNU_SOURCE		/* glob */
#include "listener/check.h"

#include "listener/replay.h"
#include "store/chain.h"
#include "store/claims.h"
#include "store/intents.h"
#include "store/ledger.h"
#include "store/sightings.h"
#include "tests/unit/world.h"

#include <fcntl.h>
#include <glob.h>

#define CHAIN 1

/* --- stores ----------------------------------------------------------------------- */

static void replay_into(struct world *w, const char *path)
{
	struct replay_options options = { .output = REPLAY_SUMMARY, .store = w->dir, .map_bytes = 1 << 20 };
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	enum err err;

	if (fd < 0)
		fail_msg("%s: cannot be read (tests run from the checkout's root)", path);
	options.out = fopen("/dev/null", "w");
	err = replay(path, fd, &options, &w->why);
	fclose(options.out);
	close(fd);
	if (err)
		fail_msg("%s: %s", path, w->why.text);
}

/* Hashes and times are not the test's business. */
static void put_plain(struct buf *out, const char *text)
{
	while (*text) {
		size_t hex = text[0] == '0' && text[1] == 'x' ? strspn(text + 2, "0123456789abcdef") : 0;

		if (hex >= 16) {
			buf_put_text(out, "0x..");
			text += 2 + hex;
		} else if (strncmp(text, "2026-", 5) == 0) {
			buf_put_text(out, "TIME");
			text += strcspn(text, "Z") + 1;
		} else {
			buf_put_u8(out, (uint8_t)*text++);
		}
	}
	buf_put_u8(out, 0);
}

/* What check says; @err is what it returned. */
static struct buf check(const char *dir, enum err *err, struct complaint *why)
{
	struct buf plain = { 0 };
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	*err = check_store(dir, out, why);
	fclose(out);
	put_plain(&plain, text);
	free(text);
	return plain;
}

static void expect_sound(struct world *w, const char *name)
{
	struct buf said;
	enum err err;

	said = check(w->dir, &err, &w->why);
	if (err || !strstr((char *)said.data, ": no faults\n"))
		fail_msg("%s: %s\n%s", name, err_name(err), (char *)said.data);
	assert_true(strchr((char *)said.data, '\n') == (char *)said.data + said.len - 2);
	buf_free(&said);
}

static void test_fixtures(void **state)
{
	glob_t tapes;

	(void)state;
	assert_int_equal(glob("fixtures/*.tape", 0, NULL, &tapes), 0);
	assert_true(tapes.gl_pathc >= 10);
	for (size_t i = 0; i < tapes.gl_pathc; i++) {
		struct world w;

		world_make(&w);
		replay_into(&w, tapes.gl_pathv[i]);
		expect_sound(&w, tapes.gl_pathv[i]);
		world_remove(&w);
	}
	globfree(&tapes);
}

/* A look writes nothing, and makes nothing where nothing is. */
static void test_reads_only(void **state)
{
	struct world w;
	struct buf before, said;
	enum err err;

	(void)state;
	world_make(&w);
	said = check(w.dir, &err, &w.why);
	assert_true(err && err != E_CORRUPT && said.len == 1 && w.why.text[0]);
	assert_int_equal(rmdir(w.dir), 0);
	buf_free(&said);

	world_make(&w);
	replay_into(&w, "fixtures/paid.tape");
	world_open(&w);
	before = world_dump(w.kv);
	world_close(&w);
	said = check(w.dir, &err, &w.why);
	assert_string_equal((char *)said.data, "1 intent, 6 events, 3 blocks: no faults\n");
	world_open(&w);
	expect_same(before, world_dump(w.kv));
	buf_free(&said);
	world_remove(&w);
}

/* --- damage ------------------------------------------------------------------------- */

/* @i is the intent that the case names. */
typedef void damage_fn(struct kv_txn *t, struct intent *i);

static void put_intent(struct kv_txn *t, const struct intent *i)
{
	struct key key = key_u64(i->row);

	row_put(t, T_INTENT, &key, ROW_INTENT, i);
}

static struct sighting_at sighting_place(struct kv_txn *t, const struct intent *i, struct sighting_row *s)
{
	struct sighting_at at;

	assert_true(sighting_of(t, CHAIN, i->row, NULL, &at, s));
	return at;
}

static struct key transfer_place(const struct transfer_row *tr)
{
	return key_transfer(CHAIN, tr->height, &tr->block_hash, tr->tx_index, tr->ordinal);
}

/* The first transfer of the intent's recorded transaction. */
static struct transfer_row own_transfer(struct kv_txn *t, const struct intent *i)
{
	struct sighting_row s;
	struct sighting_at at = sighting_place(t, i, &s);
	struct transfer_row tr;

	assert_true(transfers_of(t, CHAIN, at.height, &s.block_hash, at.tx_index, &tr, 1) == 1);
	return tr;
}

static void put_transfer(struct kv_txn *t, const struct transfer_row *tr)
{
	struct key key = transfer_place(tr);

	row_put(t, T_TRANSFER, &key, ROW_TRANSFER, tr);
}

static struct history_row entry(struct kv_txn *t, const struct intent *i, uint64_t version)
{
	struct key key = key_history(i->row, version);
	struct history_row h;

	assert_true(row_get(t, T_HISTORY, &key, ROW_HISTORY, &h));
	return h;
}

static void put_entry(struct kv_txn *t, const struct intent *i, const struct history_row *h)
{
	struct key key = key_history(i->row, h->version);

	row_put(t, T_HISTORY, &key, ROW_HISTORY, h);
}

/* Names. */

static void id_gone(struct kv_txn *t, struct intent *i)
{
	struct key key = key_intent_id(i->id);

	key_del(t, T_INTENT_ID, &key);
}

static void id_stray(struct kv_txn *t, struct intent *i)
{
	struct key key = key_intent_id("pi_9");

	number_put(t, T_INTENT_ID, &key, i->row);
}

static void id_of_nothing(struct kv_txn *t, struct intent *i)
{
	struct key key = key_intent_id(i->id);

	number_put(t, T_INTENT_ID, &key, 9);
}

static void key_gone(struct kv_txn *t, struct intent *i)
{
	struct key key = key_intent_key(i->merchant_id, i->idempotency_key);

	key_del(t, T_INTENT_KEY, &key);
}

static void key_stray(struct kv_txn *t, struct intent *i)
{
	struct key key = key_intent_key("m_9", "k_9");

	number_put(t, T_INTENT_KEY, &key, i->row);
}

/* Marks. */

static void state_gone(struct kv_txn *t, struct intent *i)
{
	struct key key = key_state(i->state, i->entered_at_ms, i->row);

	key_del(t, T_STATE, &key);
}

static void state_stray(struct kv_txn *t, struct intent *i)
{
	struct key key = key_state(INTENT_FAILED, i->entered_at_ms, i->row);

	mark_put(t, T_STATE, &key);
}

static void state_of_nothing(struct kv_txn *t, struct intent *i)
{
	struct key key = key_state(INTENT_FAILED, 1, 9);

	(void)i;
	mark_put(t, T_STATE, &key);
}

static void route_gone(struct kv_txn *t, struct intent *i)
{
	struct key key = key_route(i);

	key_del(t, T_ROUTE, &key);
}

static void route_stray(struct kv_txn *t, struct intent *i)
{
	struct key key = key_route(i);

	mark_put(t, T_ROUTE, &key);
}

static void deadline_gone(struct kv_txn *t, struct intent *i)
{
	struct key key = key_deadline(CHAIN, DEADLINE_MISSING, i->missing_from_ms, i->row);

	key_del(t, T_DEADLINE, &key);
}

static void deadline_stray(struct kv_txn *t, struct intent *i)
{
	struct key key = key_deadline(CHAIN, DEADLINE_MISSING, 1, i->row);

	mark_put(t, T_DEADLINE, &key);
}

static void overdue_gone(struct kv_txn *t, struct intent *i)
{
	i->has_expiry = true;
	i->expires_at_ms = 1;
	put_intent(t, i);
}

static void overdue_stray(struct kv_txn *t, struct intent *i)
{
	struct key key = key_deadline(CHAIN, DEADLINE_OVERDUE, 1, i->row);

	mark_put(t, T_DEADLINE, &key);
}

static void lookup_of_nothing(struct kv_txn *t, struct intent *i)
{
	struct key key = key_lookup(CHAIN, 9);

	(void)i;
	mark_put(t, T_LOOKUP, &key);
}

/* Attempts. */

static struct attempt_row first_attempt(struct kv_txn *t, const struct intent *i)
{
	struct attempt_row a;

	assert_true(intents_attempt(t, i->row, 0, &a));
	return a;
}

static void tx_gone(struct kv_txn *t, struct intent *i)
{
	struct attempt_row a = first_attempt(t, i);
	struct key key = key_tx(CHAIN, &a.tx_hash, a.order);

	key_del(t, T_TX, &key);
}

static void tx_stray(struct kv_txn *t, struct intent *i)
{
	struct attempt_row a = first_attempt(t, i);
	struct key key = key_tx(CHAIN, &a.tx_hash, a.order + 1);

	number_put(t, T_TX, &key, i->row);
}

static void attempt_gone(struct kv_txn *t, struct intent *i)
{
	struct key key = key_attempt(i->row, 0);

	key_del(t, T_ATTEMPT, &key);
}

static void attempt_gap(struct kv_txn *t, struct intent *i)
{
	struct attempt_row a = first_attempt(t, i);
	struct key key = key_attempt(i->row, 1);

	attempt_gone(t, i);
	row_put(t, T_ATTEMPT, &key, ROW_ATTEMPT, &a);
}

static void attempt_twice(struct kv_txn *t, struct intent *i)
{
	struct attempt_row a = first_attempt(t, i);
	struct key key = key_attempt(i->row, 1), tx;

	a.order += 1000;
	tx = key_tx(CHAIN, &a.tx_hash, a.order);
	row_put(t, T_ATTEMPT, &key, ROW_ATTEMPT, &a);
	number_put(t, T_TX, &tx, i->row);
}

static void attempt_of_nothing(struct kv_txn *t, struct intent *i)
{
	struct attempt_row a = first_attempt(t, i);
	struct key key = key_attempt(9, 0);

	row_put(t, T_ATTEMPT, &key, ROW_ATTEMPT, &a);
}

/* History. */

static void history_gap(struct kv_txn *t, struct intent *i)
{
	struct key key = key_history(i->row, 3);

	key_del(t, T_HISTORY, &key);
}

static void history_end_gone(struct kv_txn *t, struct intent *i)
{
	struct key key = key_history(i->row, i->version);

	key_del(t, T_HISTORY, &key);
}

static void history_begins_late(struct kv_txn *t, struct intent *i)
{
	struct history_row h = entry(t, i, 1);

	h.actor = ACTOR_RELAYER;
	put_entry(t, i, &h);
}

static void history_by_api(struct kv_txn *t, struct intent *i)
{
	struct history_row h = entry(t, i, i->version);

	h.actor = ACTOR_API;
	put_entry(t, i, &h);
}

static void history_other_tx(struct kv_txn *t, struct intent *i)
{
	struct history_row h = entry(t, i, i->version);

	h.tx_hash.b[0] ^= 1;
	put_entry(t, i, &h);
}

static void history_no_evidence(struct kv_txn *t, struct intent *i)
{
	struct history_row h = entry(t, i, 4);

	h.has_tx = false;
	put_entry(t, i, &h);
}

static void history_jumps(struct kv_txn *t, struct intent *i)
{
	struct history_row h = entry(t, i, 3);

	h.from = INTENT_CREATED;
	put_entry(t, i, &h);
}

static void history_conflict(struct kv_txn *t, struct intent *i)
{
	struct history_row h = entry(t, i, 4);

	h.conflict = true;
	put_entry(t, i, &h);
}

static void history_of_nothing(struct kv_txn *t, struct intent *i)
{
	struct history_row h = entry(t, i, 1);
	struct key key = key_history(9, 1);

	row_put(t, T_HISTORY, &key, ROW_HISTORY, &h);
}

static void stored_version(struct kv_txn *t, struct intent *i)
{
	i->version++;
	put_intent(t, i);
}

static void stored_tx(struct kv_txn *t, struct intent *i)
{
	i->tx_hash.b[0] ^= 1;
	put_intent(t, i);
}

static void stored_reason(struct kv_txn *t, struct intent *i)
{
	snprintf(i->reason.code, sizeof(i->reason.code), "other");
	put_intent(t, i);
}

static void stored_created_at(struct kv_txn *t, struct intent *i)
{
	i->created_at_ms++;
	put_intent(t, i);
}

static void stored_event_number(struct kv_txn *t, struct intent *i)
{
	i->event_number++;
	put_intent(t, i);
}

/* Transfers and claims. */

static void claim_gone(struct kv_txn *t, struct intent *i)
{
	struct key key = key_claim(CHAIN, &i->tx_hash, own_transfer(t, i).ordinal);

	key_del(t, T_CLAIM, &key);
}

static struct claim_row own_claim(struct kv_txn *t, const struct intent *i, struct key *key)
{
	struct transfer_row tr = own_transfer(t, i);
	struct claim_row claim;

	*key = key_claim(CHAIN, &tr.tx_hash, tr.ordinal);
	assert_true(claim_get(t, CHAIN, &tr.tx_hash, tr.ordinal, &claim));
	return claim;
}

static void claim_of_another(struct kv_txn *t, struct intent *i)
{
	struct key key;
	struct claim_row claim = own_claim(t, i, &key);

	claim.row = 9;
	row_put(t, T_CLAIM, &key, ROW_CLAIM, &claim);
}

static void claim_elsewhere(struct kv_txn *t, struct intent *i)
{
	struct key key;
	struct claim_row claim = own_claim(t, i, &key);

	claim.tx_index = 5;
	row_put(t, T_CLAIM, &key, ROW_CLAIM, &claim);
}

static void claim_stray(struct kv_txn *t, struct intent *i)
{
	struct key key;
	struct claim_row claim = own_claim(t, i, &key);

	key.b[8] ^= 1;
	row_put(t, T_CLAIM, &key, ROW_CLAIM, &claim);
}

static void transfer_orphaned(struct kv_txn *t, struct intent *i)
{
	struct transfer_row tr = own_transfer(t, i);

	tr.orphaned = true;
	put_transfer(t, &tr);
}

static void transfer_orphaned_claimed(struct kv_txn *t, struct intent *i)
{
	struct transfer_row tr = own_transfer(t, i);

	tr.orphaned = true;
	tr.owner_kind = OWNER_NONE;
	tr.owner = 0;
	put_transfer(t, &tr);
}

static void transfer_free(struct kv_txn *t, struct intent *i)
{
	struct transfer_row tr = own_transfer(t, i);

	tr.owner_kind = OWNER_NONE;
	tr.owner = 0;
	put_transfer(t, &tr);
}

static void transfer_of_another_token(struct kv_txn *t, struct intent *i)
{
	struct transfer_row tr = own_transfer(t, i);

	tr.token.b[0] ^= 1;
	put_transfer(t, &tr);
}

static void transfer_value(struct kv_txn *t, struct intent *i)
{
	struct transfer_row tr = own_transfer(t, i);

	tr.value = u256_from_u64(4999999);
	put_transfer(t, &tr);
}

static void transfer_misplaced(struct kv_txn *t, struct intent *i)
{
	struct transfer_row tr = own_transfer(t, i);
	struct key key;

	tr.ordinal++;
	key = transfer_place(&tr);
	tr.ordinal--;
	row_put(t, T_TRANSFER, &key, ROW_TRANSFER, &tr);
}

/* The first orphaned transfer, as if its block were ours. */
static void transfer_off_chain(struct kv_txn *t, struct intent *i)
{
	struct key from = key_u64(CHAIN);
	struct transfer_row tr = { .orphaned = false };
	struct kv_cursor c;

	(void)i;
	for (bool more = kv_seek(t, T_TRANSFER, key_slice(&from), 8, &c); more && !tr.orphaned; more = kv_next(&c))
		assert_true(row_decode(t, c.val, ROW_TRANSFER, &tr));
	assert_true(tr.orphaned);
	tr.orphaned = false;
	put_transfer(t, &tr);
}

/* Sightings. */

static void sighting_gone(struct kv_txn *t, struct intent *i)
{
	struct sighting_row s;
	struct sighting_at at = sighting_place(t, i, &s);
	struct key key = key_sighting(&at);

	key_del(t, T_SIGHTING, &key);
}

static void sighting_off_chain(struct kv_txn *t, struct intent *i)
{
	struct sighting_row s;
	struct sighting_at at = sighting_place(t, i, &s);

	s.block_hash.b[0] ^= 1;
	sighting_put(t, &at, &s);
}

static void sighting_no_attempt(struct kv_txn *t, struct intent *i)
{
	struct sighting_row s;
	struct sighting_at at = sighting_place(t, i, &s);

	s.tx_hash.b[0] ^= 1;
	sighting_put(t, &at, &s);
}

static void sighting_verdict(struct kv_txn *t, struct intent *i)
{
	struct sighting_row s;
	struct sighting_at at = sighting_place(t, i, &s);

	s.verdict = 200;
	sighting_put(t, &at, &s);
}

static void change_witness(struct kv_txn *t, const struct intent *i, uint8_t witness)
{
	struct sighting_row s;
	struct sighting_at at = sighting_place(t, i, &s);

	s.witness = witness;
	sighting_put(t, &at, &s);
}

static void witness_unknown(struct kv_txn *t, struct intent *i)
{
	change_witness(t, i, WITNESS_STATES);
}

static void witness_disagrees(struct kv_txn *t, struct intent *i)
{
	change_witness(t, i, WITNESS_DISAGREES);
}

static void witness_agrees(struct kv_txn *t, struct intent *i)
{
	change_witness(t, i, WITNESS_AGREES);
}

/* Of one that is final. */
static void witness_pending(struct kv_txn *t, struct intent *i)
{
	change_witness(t, i, WITNESS_PENDING);
}

/* Sound: a sighting that waits for its balance. */
static void witness_waits(struct kv_txn *t, struct intent *i)
{
	struct sighting_row s;
	struct sighting_at at = sighting_place(t, i, &s);

	change_witness(t, i, WITNESS_DOUBTED);
	pending_move(t, &at, 0, TIER_WAITS);
}

static void witness_waits_for_nothing(struct kv_txn *t, struct intent *i)
{
	struct sighting_row s;
	struct sighting_at at = sighting_place(t, i, &s);

	pending_move(t, &at, 0, TIER_WAITS);
}

static void sighting_of_gone(struct kv_txn *t, struct intent *i)
{
	struct sighting_row s;
	struct sighting_at at = sighting_place(t, i, &s);
	struct key key = key_sighting_of(&at);

	key_del(t, T_SIGHTING_OF, &key);
}

static void sighting_of_stray(struct kv_txn *t, struct intent *i)
{
	struct sighting_at at = { CHAIN, 102, 7, 0, i->row };
	struct key key = key_sighting_of(&at);

	mark_put(t, T_SIGHTING_OF, &key);
}

static void pending_stray(struct kv_txn *t, struct intent *i)
{
	struct sighting_at at = { CHAIN, 102, 7, 0, i->row };
	struct key key = key_pending(&at, 0);

	mark_put(t, T_PENDING, &key);
}

static void pending_gone(struct kv_txn *t, struct intent *i)
{
	struct sighting_row s;
	struct sighting_at at = sighting_place(t, i, &s);

	pending_del(t, &at, 0);
}

static void pending_twice(struct kv_txn *t, struct intent *i)
{
	struct sighting_row s;
	struct sighting_at at = sighting_place(t, i, &s);
	struct key key = key_pending(&at, 1);

	mark_put(t, T_PENDING, &key);
}

/* Ledger. */

static struct ledger_row own_ledger(struct kv_txn *t, const struct intent *i)
{
	struct key key = key_ledger(i->row, 0);
	struct ledger_row l;

	assert_true(row_get(t, T_LEDGER, &key, ROW_LEDGER, &l));
	return l;
}

static void ledger_gone(struct kv_txn *t, struct intent *i)
{
	struct key key = key_ledger(i->row, 0);

	key_del(t, T_LEDGER, &key);
}

static void ledger_twice(struct kv_txn *t, struct intent *i)
{
	struct ledger_row l = own_ledger(t, i);
	struct key key = key_ledger(i->row, 1);

	row_put(t, T_LEDGER, &key, ROW_LEDGER, &l);
}

static void ledger_gap(struct kv_txn *t, struct intent *i)
{
	ledger_twice(t, i);
	ledger_gone(t, i);
}

static void ledger_amount(struct kv_txn *t, struct intent *i)
{
	struct ledger_row l = own_ledger(t, i);
	struct key key = key_ledger(i->row, 0);

	l.amount = u256_from_u64(1);
	row_put(t, T_LEDGER, &key, ROW_LEDGER, &l);
}

static void ledger_event(struct kv_txn *t, struct intent *i)
{
	struct ledger_row l = own_ledger(t, i);
	struct key key = key_ledger(i->row, 0);

	l.event--;
	row_put(t, T_LEDGER, &key, ROW_LEDGER, &l);
}

static void ledger_of_unsettled(struct kv_txn *t, struct intent *i)
{
	ledger_add(t, i, LEDGER_SETTLEMENT, UINT64_MAX, 1);
}

static void ledger_of_nothing(struct kv_txn *t, struct intent *i)
{
	struct intent nobody = *i;

	nobody.row = 9;
	ledger_add(t, &nobody, LEDGER_SETTLEMENT, UINT64_MAX, 1);
}

/* As the listener reverses; then without its ledger row. */
static void reversed(struct kv_txn *t, struct intent *i)
{
	struct reason reason = { "reorg", "accepted" };
	struct evidence e = { .by = ACTOR_LISTENER };

	i->reversed = true;
	event_intent(t, EVENT_INTENT_REVERSED, i, &reason, &e, 1);
	ledger_add(t, i, LEDGER_REVERSAL, outbox_last(t), 1);
	intents_save(t, i);
}

static void reversal_gone(struct kv_txn *t, struct intent *i)
{
	struct key key = key_ledger(i->row, 1);

	reversed(t, i);
	key_del(t, T_LEDGER, &key);
}

/* Events. */

static void event_gone(struct kv_txn *t, struct intent *i)
{
	struct key key = key_u64(3);

	(void)i;
	key_del(t, T_EVENT, &key);
}

static void event_last_gone(struct kv_txn *t, struct intent *i)
{
	struct key key = key_u64(outbox_last(t));

	(void)i;
	key_del(t, T_EVENT, &key);
}

/* In event @sequence, put @new where @old stands. */
static void edit_event(struct kv_txn *t, uint64_t sequence, const char *old, const char *new)
{
	struct key key = key_u64(sequence);
	struct buf edited = { 0 };
	char text[2048];
	struct slice body;
	char *at;

	assert_true(outbox_get(t, sequence, &body) && body.len < sizeof(text));
	memcpy(text, body.data, body.len);
	text[body.len] = '\0';
	at = strstr(text, old);
	assert_non_null(at);
	buf_put(&edited, text, (size_t)(at - text));
	buf_put_text(&edited, new);
	buf_put_text(&edited, at + strlen(old));
	kv_put(t, T_EVENT, key_slice(&key), buf_slice(&edited));
	buf_free(&edited);
}

static void event_no_json(struct kv_txn *t, struct intent *i)
{
	struct key key = key_u64(outbox_last(t));

	(void)i;
	kv_put(t, T_EVENT, key_slice(&key), slice_of_text("{"));
}

static void event_no_id(struct kv_txn *t, struct intent *i)
{
	(void)i;
	edit_event(t, outbox_last(t), "\"id\":\"ev_", "\"id\":\"0x");
}

static void event_same_id(struct kv_txn *t, struct intent *i)
{
	char ids[2][28], text[2048];
	struct slice body;

	(void)i;
	for (uint64_t n = 0; n < 2; n++) {
		assert_true(outbox_get(t, n + 2, &body));
		snprintf(text, sizeof(text), "%.*s", (int)body.len, (const char *)body.data);
		snprintf(ids[n], sizeof(ids[n]), "%s", strstr(text, "ev_"));
	}
	edit_event(t, 3, ids[1], ids[0]);
}

static void event_sequence(struct kv_txn *t, struct intent *i)
{
	(void)i;
	edit_event(t, 3, "\"sequence\":3", "\"sequence\":9");
}

static void event_number(struct kv_txn *t, struct intent *i)
{
	(void)i;
	edit_event(t, outbox_last(t), "\"event_number\":6", "\"event_number\":7");
}

static void event_state(struct kv_txn *t, struct intent *i)
{
	(void)i;
	edit_event(t, 2, "\"state\":\"authorized\"", "\"state\":\"failed\"");
	edit_event(t, 2, "intent.authorized", "intent.failed");
}

static void event_of_nobody(struct kv_txn *t, struct intent *i)
{
	(void)i;
	edit_event(t, outbox_last(t), "\"id\":\"pi_1\"", "\"id\":\"pi_9\"");
}

/* Blocks. */

static struct chain_row chain_row(struct kv_txn *t)
{
	struct chain_row row;

	assert_true(chain_get(t, CHAIN, &row));
	return row;
}

static void block_parent(struct kv_txn *t, struct intent *i)
{
	struct key key = key_block(CHAIN, 102);
	struct block_row b;

	(void)i;
	assert_true(chain_block(t, CHAIN, 102, &b));
	b.parent.b[0] ^= 1;
	row_put(t, T_BLOCK, &key, ROW_BLOCK, &b);
}

static void block_gone(struct kv_txn *t, struct intent *i)
{
	struct key key = key_block(CHAIN, 102);

	(void)i;
	key_del(t, T_BLOCK, &key);
}

static void block_top_gone(struct kv_txn *t, struct intent *i)
{
	struct key key = key_block(CHAIN, 103);

	(void)i;
	key_del(t, T_BLOCK, &key);
}

static void tip_hash(struct kv_txn *t, struct intent *i)
{
	struct chain_row row = chain_row(t);

	(void)i;
	row.tip_hash.b[0] ^= 1;
	chain_put(t, CHAIN, &row);
}

static void watermark_hash(struct kv_txn *t, struct intent *i)
{
	struct chain_row row = chain_row(t);

	(void)i;
	row.marks[0].hash.b[0] ^= 1;
	chain_put(t, CHAIN, &row);
}

static void chain_events(struct kv_txn *t, struct intent *i)
{
	struct chain_row row = chain_row(t);

	(void)i;
	row.event_number++;
	chain_put(t, CHAIN, &row);
}

static void block_of_no_chain(struct kv_txn *t, struct intent *i)
{
	struct key key = key_block(7, 5);
	struct block_row b = { .tx_count = 0 };

	(void)i;
	row_put(t, T_BLOCK, &key, ROW_BLOCK, &b);
}

static void put_prefixes(struct kv_txn *t, uint64_t height)
{
	struct key key = key_block_tx(CHAIN, height, 0);
	uint8_t two[16] = { 0 };

	kv_put(t, T_BLOCK_TX, key_slice(&key), (struct slice){ two, sizeof(two) });
}

static void prefixes_other(struct kv_txn *t, struct intent *i)
{
	(void)i;
	put_prefixes(t, 102);
}

static void prefixes_stray(struct kv_txn *t, struct intent *i)
{
	(void)i;
	put_prefixes(t, 200);
}

/* Bytes. */

static void value_cut(struct kv_txn *t, struct intent *i)
{
	struct key from = key_u64(CHAIN), key = { .len = 0 };
	uint8_t copy[256];
	struct kv_cursor c;

	(void)i;
	assert_true(kv_seek(t, T_ORPHAN, key_slice(&from), 8, &c) && c.val.len < sizeof(copy));
	memcpy(copy, c.val.data, c.val.len);
	memcpy(key.b, c.key, c.key_len);
	key.len = (uint16_t)c.key_len;
	kv_put(t, T_ORPHAN, key_slice(&key), (struct slice){ copy, c.val.len - 1 });
}

static void key_short(struct kv_txn *t, struct intent *i)
{
	struct key key = key_text("\x01\x02\x03");

	(void)i;
	mark_put(t, T_LOOKUP, &key);
}

static void state_unknown(struct kv_txn *t, struct intent *i)
{
	struct history_row h = entry(t, i, 1);
	struct key key = key_history(i->row, 1);

	h.from = (enum intent_state)99;
	row_put(t, T_HISTORY, &key, ROW_HISTORY, &h);
}

/* --- the cases -------------------------------------------------------------------------- */

struct damage_case {
	const char *name, *tape, *intent;
	damage_fn *damage;
	const char *want;		/* the lines, but for the last */
};

#define PAID "paid", "pi_1"
#define LIED "balance_mismatch", "pi_lied"
#define ROUTE(intent) "route", intent
#define TIERS(intent) "tiers", intent
#define REORG "reorg_dropped", "pi_back"
#define CASE(damage, of, want) { #damage, of, damage, want }

static const struct damage_case cases[] = {
	CASE(id_gone, PAID, "intent pi_1: intent_id does not have it\n"),
	CASE(id_stray, PAID, "intent_id pi_9: names intent pi_1\n"),
	CASE(id_of_nothing, PAID, "intent_id pi_1: names row 9, which is no intent\n"),
	CASE(key_gone, PAID, "intent pi_1: intent_key does not have its merchant and key\n"),
	CASE(key_stray, PAID, "intent_key m_9 k_9: names intent pi_1\n"),

	CASE(state_gone, PAID, "intent pi_1: state does not have it as settled\n"),
	CASE(state_stray, PAID, "intent pi_1: state has a row for it that it should not\n"),
	CASE(state_of_nothing, PAID, "state: names row 9, which is no intent\n"),
	CASE(route_gone, ROUTE("pi_any"), "intent pi_any: an open route that route does not have\n"),
	CASE(route_stray, ROUTE("pi_exact"), "intent pi_exact: route has a row for it that it should not\n"),
	CASE(deadline_gone, TIERS("pi_waiting"), "intent pi_waiting: confirming, but no deadline for a missing transaction\n"),
	CASE(deadline_stray, TIERS("pi_small"), "intent pi_small: deadline has a row for it that it should not\n"),
	CASE(overdue_gone, ROUTE("pi_any"), "intent pi_any: a route that may be overdue, but no deadline\n"),
	CASE(overdue_stray, ROUTE("pi_any"), "intent pi_any: deadline has a row for it that it should not\n"),
	CASE(lookup_of_nothing, PAID, "lookup: names row 9, which is no intent\n"),

	CASE(tx_gone, PAID, "intent pi_1: tx does not have its attempt 0x..\n"),
	CASE(tx_stray, PAID, "tx 0x..: names intent pi_1, which has no such attempt\n"),
	CASE(attempt_gone, TIERS("pi_fresh"),
	     "intent pi_fresh: confirming with a transaction that is none of its attempts\n"
	     "tx 0x..: names intent pi_fresh, which has no such attempt\n"
	     "sighting 105.0.0 of intent pi_fresh: its transaction is no attempt of the intent\n"),
	CASE(attempt_gap, PAID, "intent pi_1: attempt 0 is missing\n"),
	CASE(attempt_twice, PAID, "intent pi_1: 0x.. is recorded as an attempt twice\n"),
	CASE(attempt_of_nothing, PAID, "attempt: a row of row 9, which is no intent\n"),

	CASE(history_gap, PAID, "intent pi_1: version 3 is missing in the history\n"),
	CASE(history_end_gone, PAID,
	     "intent pi_1: the history ends in confirming, the intent is settled\n"
	     "intent pi_1: the history ends at version 4, the intent has 5\n"),
	CASE(history_begins_late, PAID, "intent pi_1: the history does not begin with its creation\n"),
	CASE(history_by_api, PAID,
	     "intent pi_1: version 5, confirming -> settled by api, is no move: E_FORBIDDEN_ACTOR\n"),
	CASE(history_other_tx, PAID,
	     "intent pi_1: version 5, confirming -> settled by listener, is no move: E_TX_MISMATCH\n"),
	CASE(history_no_evidence, PAID,
	     "intent pi_1: version 4, settling -> confirming by relayer, is no move: E_MISSING_EVIDENCE\n"),
	CASE(history_jumps, PAID,
	     "intent pi_1: version 3 goes from created, but the one before leads to authorized\n"),
	CASE(history_conflict, PAID, "intent pi_1: version 4 does not tell of both transactions rightly\n"),
	CASE(history_of_nothing, PAID, "history: a row of row 9, which is no intent\n"),
	CASE(stored_version, PAID,
	     "intent pi_1: the history ends at version 5, the intent has 6\n"
	     "intent pi_1: its last event is of version 5, the intent has 6\n"),
	CASE(stored_tx, TIERS("pi_fresh"),
	     "intent pi_fresh: confirming with a transaction that is none of its attempts\n"
	     "intent pi_fresh: the history ends with transaction 0x.., the intent has 0x..\n"),
	CASE(stored_reason, PAID, "intent pi_1: the history ends with reason \"\", the intent has \"other\"\n"),
	CASE(stored_created_at, PAID, "intent pi_1: created at TIME, but its history begins at TIME\n"),
	CASE(stored_event_number, PAID, "intent pi_1: its last event is number 6, the intent says 7\n"),

	CASE(claim_gone, PAID,
	     "intent pi_1: settled, but what it claims adds up to 0, not 5000000\n"
	     "transfer 0x.. log 0: belongs to intent pi_1, but there is no claim\n"),
	CASE(claim_of_another, PAID,
	     "intent pi_1: settled, but what it claims adds up to 0, not 5000000\n"
	     "transfer 0x.. log 0: belongs to intent pi_1, but its claim says otherwise\n"),
	CASE(claim_elsewhere, PAID,
	     "intent pi_1: settled, but what it claims adds up to 0, not 5000000\n"
	     "transfer 0x.. log 0: belongs to intent pi_1, but its claim says otherwise\n"
	     "claim 0x.. log 0: no such transfer in block 102\n"),
	CASE(claim_stray, PAID, "claim 0x.. log 0: no such transfer in block 102\n"),
	CASE(transfer_orphaned, PAID, "transfer 0x.. log 0: orphaned, but belongs to intent pi_1\n"),
	CASE(transfer_orphaned_claimed, PAID, "claim 0x.. log 0: its transfer is orphaned\n"),
	CASE(transfer_free, PAID, "claim 0x.. log 0: its transfer belongs to nobody\n"),
	CASE(transfer_of_another_token, PAID,
	     "transfer 0x.. log 0: belongs to intent pi_1, which has another token or payee\n"),
	CASE(transfer_value, PAID, "intent pi_1: settled, but what it claims adds up to 4999999, not 5000000\n"),
	CASE(transfer_misplaced, PAID, "transfer 0x.. log 0: stands under the key of another\n"),
	CASE(transfer_off_chain, REORG, "transfer 0x.. log 0: its block 102 is not on our chain\n"),

	CASE(sighting_gone, PAID, "sighting_of 102.0.0 of intent pi_1: no such sighting\n"),
	CASE(sighting_off_chain, PAID, "sighting 102.0.0 of intent pi_1: its block is not on our chain\n"),
	CASE(sighting_no_attempt, PAID,
	     "sighting 102.0.0 of intent pi_1: its transaction is no attempt of the intent\n"),
	CASE(sighting_verdict, PAID, "sighting 102.0.0 of intent pi_1: no known verdict\n"),
	CASE(witness_unknown, PAID, "sighting 102.0.0 of intent pi_1: no known witness\n"),
	CASE(witness_disagrees, PAID, "sighting 102.0.0 of intent pi_1: paid, but its balance is \"disagrees\"\n"),
	CASE(witness_agrees, LIED,
	     "sighting 102.0.0 of intent pi_lied: balance_mismatch, but its balance is \"agrees\"\n"),
	CASE(witness_pending, PAID,
	     "sighting 102.0.0 of intent pi_1: its balance is \"pending\", but it does not wait for it\n"),
	CASE(witness_waits, TIERS("pi_fresh"), ""),
	CASE(witness_waits_for_nothing, TIERS("pi_fresh"),
	     "sighting 105.0.0 of intent pi_fresh: its balance is \"not available\", but it waits for it\n"),
	CASE(sighting_of_gone, PAID, "sighting 102.0.0 of intent pi_1: sighting_of does not have it\n"),
	CASE(sighting_of_stray, PAID, "sighting_of 102.7.0 of intent pi_1: no such sighting\n"),
	CASE(pending_stray, PAID, "pending 102.7.0 of intent pi_1: no such sighting\n"),
	CASE(pending_gone, TIERS("pi_fresh"),
	     "sighting 105.0.0 of intent pi_fresh: above every watermark, but not pending\n"),
	CASE(pending_twice, TIERS("pi_fresh"),
	     "sighting 105.0.0 of intent pi_fresh: pending under more than one tier\n"),

	CASE(ledger_gone, PAID, "intent pi_1: settled, but its ledger's balance is 0, not 1\n"),
	CASE(ledger_twice, PAID, "intent pi_1: settled, but its ledger's balance is 2, not 1\n"),
	CASE(ledger_gap, PAID, "intent pi_1: ledger row 0 is missing\n"),
	CASE(ledger_amount, PAID, "intent pi_1: ledger row 0 is of another payment\n"),
	CASE(ledger_event, PAID, "intent pi_1: the ledger names event 5, which is no intent.settled of it\n"),
	CASE(ledger_of_unsettled, TIERS("pi_fresh"), "intent pi_fresh: confirming, but the ledger has it\n"),
	CASE(ledger_of_nothing, PAID, "ledger: a row of row 9, which is no intent\n"),
	CASE(reversed, PAID, ""),
	CASE(reversal_gone, PAID, "intent pi_1: reversed, but its ledger's balance is 1, not 0\n"),

	CASE(event_gone, PAID,
	     "event 3: missing, the next is 4\n"
	     "event 4: number 4 of its intent or chain, want 3\n"
	     "event 4: intent pi_1 at version 4, want 3\n"),
	CASE(event_last_gone, PAID,
	     "events end at 5, the counter says 6\n"
	     "intent pi_1: its last event is number 5, the intent says 6\n"
	     "intent pi_1: its last event is of version 4, the intent has 5\n"),
	CASE(event_no_json, PAID,
	     "event 6: line 1, column 1: string or '}' expected near end of file\n"
	     "intent pi_1: its last event is number 5, the intent says 6\n"
	     "intent pi_1: its last event is of version 4, the intent has 5\n"),
	CASE(event_no_id, PAID, "event 6: \"0x..\" is no id\n"),
	CASE(event_same_id, PAID, "event 3: its id is that of event 2\n"),
	CASE(event_sequence, PAID, "event 3: says that it is 9\n"),
	CASE(event_number, PAID,
	     "event 6: number 7 of its intent or chain, want 6\n"
	     "intent pi_1: its last event is number 7, the intent says 6\n"),
	CASE(event_state, PAID, "event 2: intent pi_1 is failed, its history says authorized\n"),
	CASE(event_of_nobody, PAID,
	     "intent pi_1: the ledger names event 6, which is no intent.settled of it\n"
	     "event 6: of no intent and no chain that is known\n"
	     "intent pi_1: its last event is number 5, the intent says 6\n"
	     "intent pi_1: its last event is of version 4, the intent has 5\n"),

	CASE(block_parent, PAID, "chain 1: block 102 does not have the one below as its parent\n"),
	CASE(block_gone, PAID,
	     "chain 1: block 102 is missing\n"
	     "chain 1: watermark 0 at 102 is no block of ours\n"
	     "chain 1: block_tx has block 102, which is not there\n"
	     "transfer 0x.. log 0: its block 102 is not on our chain\n"
	     "sighting 102.0.0 of intent pi_1: its block is not on our chain\n"),
	CASE(block_top_gone, PAID, "chain 1: the tip is not the top block (103 and 102, or another hash)\n"),
	CASE(tip_hash, PAID, "chain 1: the tip is not the top block (103 and 103, or another hash)\n"),
	CASE(watermark_hash, PAID, "chain 1: watermark 0 at 102 is no block of ours\n"),
	CASE(chain_events, PAID, "chain 1: its last event is number 0, the chain says 1\n"),
	CASE(block_of_no_chain, PAID, "chain 7: blocks, but no row of the chain\n"),
	CASE(prefixes_other, PAID, "chain 1: block 102 has 1 transactions, block_tx other ones\n"),
	CASE(prefixes_stray, PAID, "chain 1: block_tx has block 200, which is not there\n"),

	CASE(value_cut, REORG, "orphan 0x..: the value cannot be read\n"),
	CASE(key_short, PAID, "lookup 0x010203: a key of 3 bytes, want 16\n"),
	CASE(state_unknown, PAID,
	     "history 0x..: the value cannot be read\n"
	     "intent pi_1: version 1 is missing in the history\n"),
};

static void damage_body(struct kv_txn *t, void *ctx)
{
	const struct damage_case *k = ctx;
	struct intent i;

	assert_true(intents_find(t, k->intent, &i));
	k->damage(t, &i);
}

static size_t count_lines(const char *text)
{
	size_t count = 0;

	for (; *text; text++)
		count += *text == '\n';
	return count;
}

/* The lines, and then the figures with as many faults. */
static bool said_it(const struct damage_case *k, const char *said)
{
	size_t len = strlen(k->want), lines = count_lines(k->want);
	char figures[32];

	snprintf(figures, sizeof(figures), lines ? ": %zu fault%s\n" : ": no faults\n", lines, lines == 1 ? "" : "s");
	if (strncmp(said, k->want, len) == 0 && count_lines(said + len) == 1 && strstr(said + len, figures))
		return true;
	print_error("%s: want\n%sgot\n%s", k->name, k->want, said);
	return false;
}

static bool run_case(const struct damage_case *k)
{
	struct damage_case copy = *k;
	char path[64];
	struct world w;
	struct buf said;
	enum err err;
	bool good;

	world_make(&w);
	snprintf(path, sizeof(path), "fixtures/%s.tape", k->tape);
	replay_into(&w, path);
	world_open(&w);
	assert_int_equal(kv_write(w.kv, damage_body, &copy), OK);
	world_close(&w);
	said = check(w.dir, &err, &w.why);
	world_remove(&w);
	good = said_it(k, (char *)said.data);
	assert_true(!good || err == (k->want[0] ? E_CORRUPT : OK));
	buf_free(&said);
	return good;
}

static void test_damage(void **state)
{
	size_t bad = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		bad += !run_case(&cases[i]);
	assert_int_equal(bad, 0);
}

/* --- any damage ---------------------------------------------------------------------------- */

struct dice {
	uint64_t state;
};

static uint64_t roll(struct dice *d, uint64_t sides)
{
	d->state = d->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (d->state >> 33) % sides;
}

/* A row of any table but "meta", where the schema's version stands. */
static bool pick_row(struct kv_txn *t, struct dice *d, unsigned *table, struct kv_cursor *c)
{
	uint64_t skip;

	*table = 1 + (unsigned)roll(d, TABLES - 1);
	if (!kv_count(t, *table) || !kv_seek(t, *table, (struct slice){ NULL, 0 }, 0, c))
		return false;
	for (skip = roll(d, kv_count(t, *table)); skip > 0; skip--)
		assert_true(kv_next(c));
	return true;
}

/* Its key or its value with a byte changed, cut or added; or the row gone. */
static void random_body(struct kv_txn *t, void *ctx)
{
	struct dice *d = ctx;
	uint8_t key[512], val[4096];
	size_t key_len, val_len;
	struct kv_cursor c;
	unsigned table;

	while (!pick_row(t, d, &table, &c))
		;
	key_len = c.key_len;
	val_len = c.val.len;
	assert_true(val_len < sizeof(val) - 1);
	memcpy(key, c.key, key_len);
	memcpy(val, c.val.data, val_len);
	kv_del(t, table, (struct slice){ c.key, c.key_len });
	switch (roll(d, 6)) {
	case 0:
		return;
	case 1:
		key[roll(d, key_len)] = (uint8_t)roll(d, 256);
		break;
	case 2:
		key[key_len++] = (uint8_t)roll(d, 256);
		break;
	case 3:
		val_len = val_len ? roll(d, val_len) : 1;
		val[0] = 1;
		break;
	default:
		if (val_len)
			val[roll(d, val_len)] = (uint8_t)roll(d, 256);
	}
	kv_put(t, table, (struct slice){ key, key_len }, (struct slice){ val, val_len });
}

static void damage_at_random(struct world *w, struct dice *d, unsigned rounds)
{
	struct buf said;
	enum err err;

	for (unsigned n = 0; n < rounds; n++) {
		world_open(w);
		assert_int_equal(kv_write(w->kv, random_body, d), OK);
		world_close(w);
		said = check(w->dir, &err, &w->why);
		assert_true(err == OK || err == E_CORRUPT);
		assert_non_null(strstr((char *)said.data, err ? " fault" : ": no faults\n"));
		buf_free(&said);
	}
}

/* Whatever is wrong, it is read to its end. */
static void test_random_damage(void **state)
{
	static const char *const tapes[] = { "verdicts", "tiers", "route", "reorg_dropped" };
	struct dice d = { 1 };
	char path[64];

	(void)state;
	for (size_t i = 0; i < 16; i++) {
		struct world w;

		world_make(&w);
		snprintf(path, sizeof(path), "fixtures/%s.tape", tapes[i % ARRAY_SIZE(tapes)]);
		replay_into(&w, path);
		damage_at_random(&w, &d, 40);
		world_remove(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fixtures),
		cmocka_unit_test(test_reads_only),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_random_damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
