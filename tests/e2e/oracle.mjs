/*
 * What each intent must have come to, read from the node's canonical chain and from what was asked of the daemon; it
 * knows nothing of how the daemon works.  The chain is read when it stands still and all of it is final that matters.
 *
 * An order is { intent, attempts: [{ hash, order of recording }], sent: [{ hash }], moved: how far the relayer went }:
 * moved is "created", "authorized", "canceled", "settling", "confirming" (with `hash`) or "failed".
 */
import { createPublicClient, http, parseAbi, parseEventLogs } from 'viem';

const abi = parseAbi([
	'event Transfer(address indexed from, address indexed to, uint256 value)',
	'function balanceOf(address) view returns (uint256)',
]);
const native = '0xfffffffffffffffffffffffffffffffffffffffe';
const low = (address) => address.toLowerCase();

export class Oracle {
	// @tokens: the addresses that are listed; @witness: false where balances are not to be looked at
	constructor(node, tokens, { witness = true, tx_missing = true } = {}) {
		this.client = createPublicClient({ transport: http(node.url), cacheTime: 0 });
		this.tokens = tokens.map(low);
		this.witness = witness;
		this.tx_missing = tx_missing;
	}

	// Blocks from 1 up to finalized: { number, hash, time, txs: [{ hash, reverted, transfers, index }] }
	async read() {
		const last = (await this.client.getBlock({ blockTag: 'finalized' })).number;

		this.blocks = [];
		this.places = new Map();
		for (let n = 1n; n <= last; n++) {
			const b = await this.client.getBlock({ blockNumber: n });
			const txs = await Promise.all(b.transactions.map((hash) => this.readTransaction(hash)));
			const block = { number: n, hash: b.hash, time: Number(b.timestamp), txs };

			this.blocks.push(block);
			for (const tx of txs)
				this.places.set(tx.hash, { block, tx });
		}
	}

	async readTransaction(hash) {
		const receipt = await this.client.getTransactionReceipt({ hash });
		const transfers = parseEventLogs({ abi, logs: receipt.logs })
			.map((log) => ({
				token: low(log.address), from: low(log.args.from), to: low(log.args.to), value: log.args.value,
				id: `${hash} ${receipt.logs.findIndex((l) => l.logIndex === log.logIndex)}`,
			}))
			.filter((t) => t.value > 0n && t.from !== t.to && t.token !== native);

		return { hash, transfers, reverted: receipt.status === 'reverted' };
	}

	// Whether the payee's balance did in the block what the token's logs say.
	async balanceAgrees(block, token, payee) {
		const at = (blockNumber) =>
			this.client.readContract({ abi, address: token, functionName: 'balanceOf', args: [payee], blockNumber });
		let logged = 0n;

		for (const t of block.txs.flatMap((tx) => tx.transfers)) {
			if (t.token !== token)
				continue;
			logged += t.to === payee ? t.value : 0n;
			logged -= t.from === payee ? t.value : 0n;
		}
		return (await at(block.number)) - (await at(block.number - 1n)) === logged;
	}

	// The verdict of the transaction for the intent; what pays is claimed.
	async judge(order, { block, tx }) {
		const { token, payee, payer, amount } = order.wanted;
		const mine = tx.transfers.filter((t) => t.token === token && t.to === payee);
		const paid = mine.filter((t) => !payer || t.from === payer);
		const free = paid.filter((t) => !this.claimed.has(t.id));
		const sum = (list) => list.reduce((total, t) => total + t.value, 0n);
		const choose = (list) => {
			const one = list.find((t) => t.value === amount);

			return one ? [one] : list.length && sum(list) === amount ? list : null;
		};
		const chosen = choose(free);

		if (tx.reverted)
			return 'reverted';
		if (chosen) {
			if (this.witness && !(await this.balanceAgrees(block, token, payee)))
				return 'balance_mismatch';
			chosen.forEach((t) => this.claimed.add(t.id));
			return 'paid';
		}
		if (choose(paid))
			return 'already_claimed';
		if (paid.length)
			return sum(free.length ? free : paid) < amount ? 'underpaid' : 'overpaid';
		if (mine.length)
			return 'wrong_payer';
		return tx.transfers.some((t) => t.to === payee && t.token !== token) ? 'wrong_token' : 'no_transfer';
	}

	// The route intents over what the attempts of the block left.
	async route(routes, block) {
		for (const tx of block.txs) {
			for (const t of tx.transfers.filter((x) => this.tokens.includes(x.token) && !this.claimed.has(x.id))) {
				const open = routes.filter((o) => !o.seen.length && o.wanted.payee === t.to);
				const fits = open.filter((o) => this.fits(o, t, block));

				if (fits.length === 1) {
					fits[0].seen.push({ hash: tx.hash, verdict: await this.judge(fits[0], { block, tx }) });
				} else if (fits.length === 0 && open.length === 1 && open[0].wanted.token === t.token) {
					open[0].misfit ??= { hash: tx.hash, verdict: this.misses(open[0], t) };
				}
			}
		}
	}

	fits({ wanted, expires }, t, block) {
		return wanted.token === t.token && wanted.amount === t.value && (!wanted.payer || wanted.payer === t.from) &&
			!(expires && block.time * 1000 > expires);
	}

	misses({ wanted }, t) {
		if (wanted.payer && wanted.payer !== t.from)
			return 'wrong_payer';
		return t.value === wanted.amount ? 'late' : t.value < wanted.amount ? 'underpaid' : 'overpaid';
	}

	/*
	 * { state, reason, tx_hash } of each order by its intent's id; tx_hashes, where it may be any of several: of two
	 * attempts that are both mined the one decides that was seen first, and only the daemon knows which that was.
	 * @confirmed(id) says whether the daemon ever told it as confirming: a transaction that a reorg took for good may
	 * have come and gone while nobody looked.
	 */
	async expect(orders, confirmed) {
		this.claimed = new Set();
		await this.read();
		const all = orders.map((order) => ({
			...order,
			expires: order.intent.expires_at ? Date.parse(order.intent.expires_at) : null,
			wanted: {
				token: low(order.intent.token), payee: low(order.intent.payee), amount: BigInt(order.intent.amount),
				payer: order.intent.payer ? low(order.intent.payer) : null,
			},
			seen: [],
		}));
		const waiting = all.filter((o) => o.moved === 'settling' || o.moved === 'confirming');

		for (const block of this.blocks) {
			const here = waiting.flatMap((o) => o.attempts.filter((a) => this.places.get(a.hash)?.block === block)
				.map((a) => ({ o, a })));

			for (const { o, a } of here.sort((x, y) => x.a.order - y.a.order))
				o.seen.push({ hash: a.hash, verdict: await this.judge(o, this.places.get(a.hash)) });
			await this.route(waiting.filter((o) => o.intent.watch === 'route'), block);
		}
		return new Map(all.map((o) => [o.intent.id, this.outcome(o, confirmed(o.intent.id))]));
	}

	outcome(order, confirmed) {
		const [found] = order.seen.length ? order.seen : [order.misfit];

		if (order.moved === 'canceled' || order.moved === 'failed')
			return { state: order.moved, reason: order.code, tx_hash: null };
		if (order.moved === 'created' || order.moved === 'authorized')
			return { state: order.moved, reason: '-', tx_hash: null };
		const paying = order.seen.filter((s) => s.verdict === 'paid').map((s) => s.hash);

		if (found?.verdict === 'paid')
			return { state: 'settled', reason: '-', tx_hashes: paying };
		if (found)
			return { state: 'needs_review', reason: found.verdict, tx_hash: found.hash };
		if (order.moved === 'confirming' && this.tx_missing)
			return { state: 'needs_review', reason: 'tx_missing', tx_hash: order.hash };
		if (!confirmed)
			return { state: 'settling', reason: '-', tx_hash: null };
		return { state: 'settling', reason: 'reorg', tx_hashes: [...order.attempts, ...order.sent].map((a) => a.hash) };
	}
}
