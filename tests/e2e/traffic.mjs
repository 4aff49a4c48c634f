// Payments and reorgs, the same for the same seed, and what each must come to, by what the chain holds in the end.
import { equal, intent, Random, until } from './lib.mjs';
import { pay, payee } from './rig.mjs';

const kinds = ['exact', 'exact', 'exact', 'exact', 'route', 'exact', 'under', 'over', 'fake', 'reverted', 'never',
	'dropped'];

const ends = {
	exact: ['settled', '-'],
	route: ['settled', '-'],
	under: ['needs_review', 'underpaid'],
	over: ['needs_review', 'overpaid'],
	fake: ['needs_review', 'wrong_token'],
	reverted: ['needs_review', 'reverted'],
};

export class Traffic {
	payments = [];
	reorgs = 0;

	// @world: { node, money, payers }; its daemons all watch the same intents
	constructor(world, daemons, seed) {
		this.world = world;
		this.daemons = daemons;
		this.random = new Random(seed);
	}

	async begin() {
		this.fake = await this.world.node.deploy('Counterfeit');
		// No reorg reaches it.
		await this.world.node.mine(8);
	}

	// An intent in every store, and its transaction, if it has one, with the node.
	async add(kind = kinds[this.payments.length % kinds.length]) {
		const n = this.payments.length, amount = 1_000_000 + n;
		const p = { id: `pi_${n}`, n, kind, amount, payee: payee(n) };
		const { money } = this.world;

		this.payments.push(p);
		const fields = intent({ id: p.id, token: money.usdc, payee: p.payee, amount: String(amount),
			watch: kind === 'route' ? 'route' : 'tx' });

		for (const d of this.daemons)
			await d.settling(fields);
		if (kind === 'never')
			return;
		const sent = { under: amount - 1, over: amount + 1, reverted: 10n ** 15n }[kind] ?? amount;

		p.tx = await pay(this.world, n, p.payee, sent, kind === 'fake' ? this.fake : money.usdc);
		if (kind !== 'route')
			for (const d of this.daemons)
				await d.attempt(p.id, p.tx);
	}

	// The last @depth blocks are made anew; what they held comes again, but the dropped, which never will.
	async reorg(depth) {
		const { node } = this.world;
		const tip = await node.block();
		const again = [];

		for (let h = tip.number - depth + 1; h <= tip.number; h++)
			for (const hash of (await node.block(h)).transactions) {
				const p = this.payments.find((x) => x.tx?.hash === hash);

				if (p && p.kind !== 'dropped')
					again.push({ tx: p.tx, at: this.random.below(depth) });
				else if (p)
					p.gone = true;
			}
		await node.reorg(depth, again);
		this.reorgs++;
	}

	// All daemons have applied the node's head.
	async seen(deadline_ms) {
		for (const d of this.daemons)
			await d.reached(this.world.node, deadline_ms);
	}

	async expected(p) {
		const receipt = p.tx && await this.world.node.receipt(p.tx);

		if (!receipt)
			return { state: 'settling', code: null, tx: null };
		const kind = p.kind === 'dropped' ? 'exact' : p.kind;

		return { state: ends[kind][0], code: ends[kind][1], tx: p.tx.hash };
	}

	// Waits until @d says of each payment what the chain says; then compares all.
	async compare(d, stands, deadline_ms) {
		for (const p of this.payments) {
			const want = await this.expected(p);

			const there = async () => (await stands(d, p.id)).state === want.state;

			await until(`${p.id} (${p.kind}) to be ${want.state}`, there, deadline_ms).catch(async (e) => {
				throw new Error(`${e.message}; it is ${JSON.stringify(await stands(d, p.id))}`);
			});
			const got = await stands(d, p.id);

			if (want.state === 'settling')
				continue;
			equal(got.tx, want.tx, `${p.id} (${p.kind}): transaction`);
			if (want.code !== '-')
				equal(got.code, want.code, `${p.id} (${p.kind}): reason`);
		}
	}
}
