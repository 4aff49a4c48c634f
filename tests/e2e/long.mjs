/*
 * The long run: 300 payments of every kind in 200 blocks of a real anvil, with reorgs, silent rewinds, kill -9 and cut
 * WebSockets at seeded moments.  At the end each intent must be what the oracle reads from the chain, and the event log
 * must be whole.
 *     SEED=7 node long.mjs
 */
import fs from 'node:fs';
import { keccak256 } from 'viem';
import {
	call, cases, chainConfig, checkEvents, command, Daemon, equal, intent, Node, ok, Random, sleep, until, Wire,
} from './lib.mjs';
import { Oracle } from './oracle.mjs';

const first_seed = Number(process.env.SEED ?? 1);
const blocks = Number(process.env.BLOCKS ?? 200);
const slots = 8;
const snapshot_blocks = 4;
const outages = 2;

const kinds = {
	direct: 46, twice: 4, from: 30, replaced: 25, late: 10, underpaid: 10, overpaid: 10, reverted: 10,
	wrong_payer: 5, no_transfer: 5, wrong_token: 5, rivals: 5, never: 10, missing: 5, failed: 3,
	canceled: 2, route: 18, route_under: 4, route_over: 4, route_payer: 2, ambiguous: 1, batch: 2,
	batch_from: 2,
};
const address = (text) => '0x' + keccak256(Buffer.from(text)).slice(-40);
const shops = [...Array(10).keys()].map((n) => address(`shop ${n}`));

/*
 * One transaction in all its versions (same sender and nonce), and the orders that it is to pay.
 * `fate` is lost for one that a reorg took for good.
 */
class Payment {
	orders = [];
	versions = [];
	fate = 'open';

	constructor(run, kind, n) {
		Object.assign(this, { run, kind, name: `${kind}_${n}`, token: run.rnd.chance(0.5) ? 'usdc' : 'usdt' });
		this.step = run.rnd.between(1, blocks - 15);
	}

	// A new version: another tip, another hash.
	async sign() {
		const tip = 1_000_000_000 * 2 ** this.versions.length;
		const tx = await this.run.node.sign(this.sender, this.to, this.data, { nonce: this.nonce, tip, gas: 1_600_000 });

		this.nonce = tx.nonce;
		this.versions.push(tx);
		this.run.book.set(tx.hash, this);
		return tx;
	}

	get last() {
		return this.versions.at(-1);
	}

	// Whether people of ours wait for its hash.
	get named() {
		return !this.late && !this.kind.startsWith('route') && this.kind !== 'ambiguous' && this.kind !== 'canceled';
	}

	get mayVary() {
		return this.kind !== 'failed' && this.kind !== 'canceled' && !this.orders.some((o) => o.moved === 'confirming');
	}
}

class Run {
	book = new Map();		// transaction hash -> payment
	orders = [];
	attempts = 0;
	counts = { reorg: 0, rollback: 0, revert: 0, kill: 0, cut: 0 };
	finalized = 0;

	constructor(seed, finality) {
		this.rnd = new Random(seed);
		this.finality = finality;
	}

	async begin() {
		this.payments = Object.entries(kinds).flatMap(([kind, count]) =>
			[...Array(count).keys()].map((n) => new Payment(this, kind, n)));
		/* Who pays twice does it with two transactions. */
		for (const p of this.payments.filter(({ kind }) => kind === 'twice'))
			this.payments.push((p.second = new Payment(this, 'second', p.name)));
		this.node = await Node.start({ slots });
		for (const p of this.payments)
			p.payer = await this.node.funded(`payer ${p.name}`);
		this.money = await this.node.money(this.payments.map((p) => p.payer));
		await this.describeAll();
		/* What was set up is final before the first reorg. */
		await this.node.mine(2 * slots + 4);
		this.wire = await Wire.to(this.node.port);
		this.daemon = new Daemon({ config: [await chainConfig(this.node, this.money, {
			endpoints: [{ http: this.node.url, ws: this.wire.ws }],
			far_blocks: this.rnd.pick([4, 64]),
			finality: this.finality,
		})] });
		await this.daemon.start();
	}

	add(p, amount, more = {}) {
		const order = {
			intent: intent({ id: `${p.name}${p.orders.length ? `.${p.orders.length}` : ''}`, token: this.money[p.token],
				payee: this.rnd.pick(shops), amount: String(amount), ...more }),
			attempts: [], sent: p.versions, moved: 'settling',
		};

		p.orders.push(order);
		this.orders.push(order);
		return order;
	}

	// What each kind of payment asks for and what it sends.
	async describeAll() {
		for (const p of this.payments) {
			p.sender = p.payer;
			p.to = this.money[p.token];
			await this.describe(p);
			if (p.second)
				Object.assign(p.second, { token: p.token, orders: p.orders, data: p.data, step: p.step + this.rnd.below(5) });
		}
		await this.node.mine();
	}

	async describe(p) {
		const amount = this.rnd.between(1_000_000, 50_000_000);
		const mine = address(`payee ${p.name}`);
		const transfer = (to, value) => call('TestUsdc', 'transfer', [to, BigInt(value)]);
		const one = (more, value = amount) => {
			const order = this.add(p, amount, more);

			p.data = transfer(order.intent.payee, value);
			return order;
		};

		switch (p.kind) {
		case 'direct': case 'replaced': case 'late': case 'never': case 'missing': case 'failed': case 'canceled':
			return one({ payer: this.rnd.chance(0.5) ? p.payer.address.toLowerCase() : null });
		case 'twice':
			return one({});
		case 'from':
			return this.describeFrom(p, one({ payer: p.payer.address.toLowerCase() }));
		case 'underpaid':
			return one({}, amount - this.rnd.between(1, amount - 1));
		case 'overpaid':
			return one({}, amount + this.rnd.between(1, amount));
		case 'reverted':
			return one({}, 10n ** 12n);
		case 'wrong_payer':
			return one({ payer: address('somebody else') });
		case 'no_transfer':
			one({});
			p.data = transfer(address('somebody else'), amount);
			return;
		case 'wrong_token':
			one({});
			p.to = this.money[p.token === 'usdc' ? 'usdt' : 'usdc'];
			return;
		case 'rivals':
			one({ payee: mine });
			return one({ payee: mine });
		case 'route':
			return one({ payee: mine, watch: 'route', payer: this.rnd.chance(0.5) ? p.payer.address.toLowerCase() : null });
		case 'route_under':
			return one({ payee: mine, watch: 'route' }, amount - 1);
		case 'route_over':
			return one({ payee: mine, watch: 'route' }, amount + 1);
		case 'route_payer':
			return one({ payee: mine, watch: 'route', payer: address('somebody else') });
		case 'ambiguous':
			one({ payee: mine, watch: 'route' });
			return one({ payee: mine, watch: 'route', payer: p.payer.address.toLowerCase() });
		case 'batch': case 'batch_from':
			return this.describeBatch(p, mine);
		}
	}

	// Somebody else sends it, whom the payer allowed to.
	async describeFrom(p, order) {
		const { payee, amount } = order.intent;

		p.sender = await this.node.funded(`sender ${p.name}`);
		await this.node.transact(p.payer, p.to, call('TestUsdc', 'approve', [p.sender.address, BigInt(amount)]));
		p.data = call('TestUsdc', 'transferFrom', [p.payer.address, payee, BigInt(amount)]);
	}

	// Twenty payees; two of them are one, with one amount.  One is paid less than it asks for.
	async describeBatch(p, mine) {
		const token = this.money[p.token];
		const args = [[], []];

		for (let i = 0; i < 20; i++) {
			const amount = i < 2 ? 7_000_000 : this.rnd.between(1_000_000, 9_000_000);
			const order = this.add(p, amount, i < 2 ? { payee: mine } : {});

			args[0].push(order.intent.payee);
			args[1].push(BigInt(i === 19 ? amount - 1 : amount));
		}
		p.to = this.money.batch;
		p.data = call('Batch', 'pay', [token, ...args]);
		if (p.kind === 'batch')
			return;
		p.data = call('Batch', 'payFrom', [token, p.payer.address, ...args]);
		await this.node.transact(p.payer, token, call('TestUsdc', 'approve', [this.money.batch, 10n ** 10n]));
	}

	// The relayer names a transaction for each order that it is to pay.
	async name(p, tx) {
		for (const order of p.named ? p.orders : []) {
			await this.daemon.attempt(order.intent.id, tx);
			order.attempts.push({ hash: tx.hash, order: ++this.attempts });
		}
	}

	async open(order) {
		await this.daemon.settling(order.intent);
	}

	async pay(p) {
		const says = (p.kind === 'direct' || p.kind === 'from') && this.rnd.chance(0.2);
		const tx = await p.sign();

		if (p.kind === 'late')
			return this.payLate(p, tx);
		if (p.kind !== 'second')
			await Promise.all(p.orders.map((order) => (p.kind === 'canceled' ? this.cancel(order) : this.open(order))));
		await this.name(p, tx);
		if (p.kind === 'failed')
			await this.giveUp(p.orders[0]);
		if (says || p.kind === 'missing')
			await this.sayConfirming(p.orders[0], tx);
		if (p.kind === 'never' || p.kind === 'missing')
			return;
		await this.node.send(tx);
		if (p.kind === 'replaced')
			await this.replace(p);
	}

	// It is mined some blocks before anybody is told.
	async payLate(p, tx) {
		p.late = p.step + this.rnd.between(1, 6);
		await this.node.send(tx);
	}

	async openLate(p) {
		p.late = 0;
		await this.open(p.orders[0]);
		for (const tx of p.versions)
			await this.name(p, tx);
	}

	async replace(p) {
		const tx = await p.sign();

		await this.name(p, tx);
		await this.resend(tx);
	}

	// It may be in a block or the pool already, or its place be taken by another version.
	async resend(tx) {
		await this.node.send(tx).catch(() => {});
	}

	async cancel(order) {
		await this.daemon.create(order.intent);
		await this.end(order, 'canceled', 'api', 'changed_mind');
	}

	async giveUp(order) {
		await this.end(order, 'failed', 'relayer', 'gave_up');
	}

	async end(order, state, actor, code) {
		await this.daemon.move(order.intent.id, state, actor, { reason: { code, text: 'by the long run' } });
		Object.assign(order, { moved: state, code });
	}

	async sayConfirming(order, tx) {
		Object.assign(order, { moved: 'confirming', hash: tx.hash });
		await this.daemon.move(order.intent.id, 'confirming', 'relayer', { tx_hash: tx.hash });
	}

	// What goes wrong at which step.
	plan() {
		const steps = this.rnd.shuffle([...Array(blocks - 20).keys()].map((n) => n + 10));
		const plan = new Map();
		const put = (step, what) => plan.set(step, [...(plan.get(step) ?? []), what]);
		const isFree = (step) => [...Array(snapshot_blocks + 1).keys()].every((n) => !plan.has(step + n));

		for (let left = 3; left; left--) {
			const step = steps.find(isFree);

			put(step, 'snapshot');
			for (let n = 1; n < snapshot_blocks; n++)
				put(step + n, 'nothing');
			put(step + snapshot_blocks, 'revert');
		}
		for (const [what, count] of [['reorg', 20], ['rollback', 3]])
			for (const step of steps.filter((s) => !plan.has(s)).slice(0, count))
				put(step, what);
		/* Half of the kills fall on reorgs, the rest anywhere. */
		const reorgs = [...plan].filter(([, what]) => what.includes('reorg')).map(([step]) => step);

		for (const step of [...reorgs.slice(0, 5), ...steps.filter((s) => !reorgs.includes(s)).slice(0, 5 - outages)])
			put(step, 'kill');
		for (const step of steps.filter((s) => !plan.has(s)).slice(0, outages))
			put(step, 'outage');
		for (const step of [...reorgs.slice(3, 6), ...steps.filter((s) => !reorgs.includes(s)).slice(3, 10)])
			put(step, 'cut');
		return plan;
	}

	async step(n, what) {
		const kills = what.includes('kill') && this.rnd.pick(['before', 'after']);
		const delay_ms = this.rnd.below(kills === 'before' ? 150 : 450);
		const before = kills === 'before' && this.kill(delay_ms);
		const cut = what.includes('cut') && this.cut(this.rnd.below(100));
		const waits = this.rnd.chance(0.4);
		const due = this.payments.filter((p) => p.step === n);

		await Promise.all(this.payments.filter((p) => p.late === n).map((p) => this.openLate(p)));
		await Promise.all(due.filter((p) => p.kind !== 'second').map((p) => this.pay(p)));
		await Promise.all(due.filter((p) => p.kind === 'second').map((p) => this.pay(p)));
		if (what.includes('snapshot')) {
			this.snapshot = await this.node.rpc('evm_snapshot');
			this.snapshot_head = await this.node.block();
		}
		for (const disaster of ['outage', 'reorg', 'rollback', 'revert'])
			if (what.includes(disaster))
				await this[disaster]();
		await this.node.mine();
		this.finalized = Math.max(this.finalized, (await this.node.block('finalized')).number);
		await before;
		await cut;
		if (kills === 'after')
			await this.kill(delay_ms);
		if (waits)
			await this.daemon.reached(this.node);
	}

	async kill(after_ms) {
		await sleep(after_ms);
		await this.daemon.kill9();
		this.counts.kill++;
		await this.daemon.start();
	}

	// Blocks go by while the daemon is down, and the last of them are not those that it will find.
	async outage() {
		const missed = this.rnd.between(4, 24);

		await this.daemon.kill9();
		this.counts.kill++;
		await this.node.mine(missed);
		await this.node.reorg(this.rnd.between(1, Math.min(missed, 12)));
		await this.daemon.start();
	}

	async cut(after_ms) {
		await sleep(after_ms);
		this.wire.cut();
		this.counts.cut++;
	}

	// The payments in the last blocks, which must not be final.
	async atRisk(depth) {
		const head = (await this.node.block()).number;
		const found = [];

		ok(head - depth >= this.finalized, `a reorg of ${depth} at ${head} would go below finalized ${this.finalized}`);
		for (let n = head - depth + 1; n <= head; n++)
			for (const hash of (await this.node.block(n)).transactions)
				if (this.book.has(hash))
					found.push({ payment: this.book.get(hash), tx: this.book.get(hash).versions.find((v) => v.hash === hash) });
		/* The order within a block is anvil's, and not the same each time. */
		return found.sort((a, b) => (a.payment.name < b.payment.name ? -1 : 1));
	}

	async depth(most) {
		const head = (await this.node.block()).number;

		return this.rnd.between(1, Math.min(most, head - this.finalized));
	}

	/* What becomes of a transaction that lost its block, if the new branch does not have it. */
	async dropped({ payment, tx }) {
		const may = payment.mayVary ? this.rnd.next() : 1;

		if (may < 0.15)
			payment.fate = 'lost';
		else if (may < 0.4)
			await this.replace(payment);
		else
			await this.resend(tx);
	}

	async reorg() {
		const depth = await this.depth(12);
		const risked = await this.atRisk(depth);
		const kept = risked.filter(() => this.rnd.chance(0.5));

		await this.node.reorg(depth, kept.map(({ tx }) => ({ tx, at: this.rnd.below(depth) })));
		this.counts.reorg++;
		for (const lost of risked.filter((r) => !kept.includes(r)))
			await this.dropped(lost);
	}

	async rollback() {
		const depth = await this.depth(6);
		const risked = await this.atRisk(depth);

		await this.node.rollback(depth);
		this.counts.rollback++;
		for (const lost of risked)
			await this.dropped(lost);
	}

	async revert() {
		const head = (await this.node.block()).number;
		const risked = await this.atRisk(head - this.snapshot_head.number);

		await this.node.revert(this.snapshot);
		equal((await this.node.block()).hash, this.snapshot_head.hash, 'the head after evm_revert');
		this.counts.revert++;
		for (const lost of risked)
			await this.dropped(lost);
	}

	// What was sent and is not lost gets mined; then everything becomes final, and hours pass for what never came.
	async finish() {
		const sent = this.payments.filter((p) => p.fate !== 'lost' && !['never', 'missing'].includes(p.kind));
		const isMined = async (p) => (await Promise.all(p.versions.map((v) => this.node.receipt(v)))).some(Boolean);

		for (let round = 0; round < 5; round++) {
			for (const p of sent)
				if (!(await isMined(p)))
					await this.resend(p.last);
			await this.node.mine();
		}
		for (const p of sent)
			ok(await isMined(p), `${p.name} was not mined by anvil`);
		await this.node.mine(2 * slots);
		await this.daemon.reached(this.node);
		await this.node.rpc('evm_increaseTime', 3 * 3600);
		await this.node.mine(2 * slots + 2);
	}

	// Each intent against the oracle.
	async compare() {
		const oracle = new Oracle(this.node, [this.money.usdc, this.money.usdt]);
		const events = () => checkEvents(this.daemon.readEvents());
		const want = await oracle.expect(this.orders, (id) => events().get(id)?.confirmed);
		let wrong;

		await until('the intents to be what the oracle says', async () => {
			wrong = (await Promise.all(this.orders.map((o) => this.differs(o, want.get(o.intent.id))))).filter(Boolean);
			return !wrong.length;
		}, 15000).catch(() => {});
		ok(!wrong.length, `${wrong.length} intents are wrong:\n${wrong.join('\n')}`);
		return { want, oracle };
	}

	async differs(order, want) {
		const { intent: got, history } = await this.daemon.intent(order.intent.id);
		const reason = history.at(-1)?.reason?.code ?? '-';
		const same = got.state === want.state && reason === want.reason &&
			(want.tx_hashes?.includes(got.tx_hash) ?? got.tx_hash === want.tx_hash);

		return !same && `${got.id}: ${got.state} ${reason} ${got.tx_hash}, ` +
			`want ${want.state} ${want.reason} ${want.tx_hashes ?? want.tx_hash}`;
	}

	// The log agrees with the states, and each settlement with the chain.
	checkLog({ want, oracle }) {
		const events = this.daemon.readEvents();
		const told = checkEvents(events);
		const loose = (code) => events.filter((e) => e.type.startsWith('transfer.') && e.data.reason.code === code)
			.flatMap((e) => e.data.intents).sort();

		for (const [id, { state, reason }] of want) {
			equal([told.get(id)?.state, told.get(id)?.reason], [state, reason], `${id} in the events`);
			equal(told.get(id).settled, state === 'settled' ? 1 : 0, `${id}: settled`);
		}
		for (const { data } of events.filter((e) => e.type === 'intent.settled'))
			this.checkSettlement(data, oracle);
		const twice = [...want].filter(([, w]) => w.tx_hashes?.length === 2 && w.state === 'settled').map(([id]) => id);
		const failed = this.orders.filter((o) => o.moved === 'failed').map((o) => o.intent.id);

		equal(loose('after_failed'), failed.sort(), 'transfers of failed intents');
		equal(loose('paid_twice'), twice.sort(), 'transfers that pay twice');
		return events;
	}

	checkSettlement({ intent: i, evidence: e }, oracle) {
		const { block } = oracle.places.get(e.tx_hash);
		const sum = e.transfers.reduce((total, t) => total + BigInt(t.value), 0n);

		equal([e.block.number, e.block.hash], [Number(block.number), block.hash], `${i.id}: block`);
		equal(String(sum), i.amount, `${i.id}: transfers`);
		equal(e.balance.witness, 'agrees', `${i.id}: witness`);
		ok(e.finality.watermark.number >= e.block.number, `${i.id}: settled above the watermark`);
	}
}

async function longRun(seed, finality) {
	const began = Date.now();
	const run = new Run(seed, finality);

	await run.begin();
	const plan = run.plan();

	for (let n = 1; n <= blocks; n++)
		await run.step(n, plan.get(n) ?? []);
	await run.finish();
	const events = run.checkLog(await run.compare());

	equal((await run.daemon.stop()).code, 0, 'the exit code after SIGTERM');
	const check = await command('check', run.daemon.store);

	equal(check.code, 0, `tidemark check: ${check.out}${check.err}`);
	const stored = await command('events', run.daemon.store);

	ok(stored.out === fs.readFileSync(run.daemon.events, 'utf8'), 'the file of events is not what the store has');
	const count = (type) => events.filter((e) => e.type === type).length;
	const { reorg, rollback, revert, kill, cut } = run.counts;
	const { number } = await run.node.block();

	console.log(`note: seed ${seed}, ${JSON.stringify(finality)}: ${run.orders.length} payments, ${number} blocks, ` +
		`${reorg} reorgs, ${rollback} rollbacks, ${revert} reverts, ${kill} kills, ${cut} cuts; ` +
		`${events.length} events, ${count('chain.reorg')} chain.reorg, ${count('intent.settled')} settled, ` +
		`${count('intent.needs_review')} to review; ${Math.round((Date.now() - began) / 1000)} s`);
}

/* The depth is where anvil's tag is, which the oracle asks for. */
await cases({
	[`the long run by the tag, seed ${first_seed}`]: () => longRun(first_seed, { tag: 'finalized' }),
	[`the long run by depth, seed ${first_seed + 1}`]: () => longRun(first_seed + 1, { depth: 2 * slots + 1 }),
});
