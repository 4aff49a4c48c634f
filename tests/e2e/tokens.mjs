// What tokens do, against the running daemon: fees, destroyed funds, counterfeits, mints, spam, block lists, decimals.
import { call, cases, chainConfig, checkEvents, Daemon, equal, intent, Node, ok } from './lib.mjs';

const slots = 2;
const million = 1_000_000n;
const shop = '0x' + '5a'.repeat(20);
const nobody = '0x' + '00'.repeat(20);

const transfer = (to, value) => call('TestUsdc', 'transfer', [to, value]);

class World {
	static async begin() {
		const w = new World();

		w.node = await Node.start({ slots });
		w.payer = await w.node.funded('payer');
		w.payee = await w.node.funded('payee');
		w.other = await w.node.funded('somebody else');
		w.money = await w.node.money([w.payer, w.other]);
		return w;
	}

	async run(more) {
		this.daemon = new Daemon({ config: [await chainConfig(this.node, this.money, more)] });
		await this.daemon.start();
		return this.daemon;
	}

	async ask(fields, ...txs) {
		const i = intent({ token: this.money.usdc, payee: shop, amount: '5000000', ...fields });

		await this.daemon.settling(i, ...txs);
		return i.id;
	}

	// One block, and as many as make it final.
	async mine() {
		await this.node.mine();
		await this.node.mine(2 * slots);
	}

	// The last event of the intent, once it is in this state; its reason's code must be @code.
	async comesTo(id, state, code = '-') {
		const { intent: i, history } = await this.daemon.state(id, state);

		equal(history.at(-1).reason?.code ?? '-', code, `${id}: reason`);
		checkEvents(this.daemon.readEvents());
		const event = this.daemon.readEvents().findLast((e) => e.data.intent?.id === i.id);

		equal(event.type, `intent.${state}`, `${id}: the last event`);
		return event.data;
	}
}

function balance({ evidence }, before, after, witness = 'agrees') {
	equal(evidence.balance, { witness, before: String(before), after: String(after) }, 'balance');
}

async function began() {
	const w = await World.begin();

	await w.run();
	return w;
}

async function fee() {
	const w = await began();
	const { node, money } = w;

	await node.transact(node.owner, money.usdt, call('TestUsdt', 'setParams', [15n, 49n * million]));
	await node.mine();
	const tx = await node.sign(w.payer, money.usdt, transfer(shop, 100n * million));
	const id = await w.ask({ token: money.usdt, amount: '100000000', payer: w.payer.address }, tx);

	await node.send(tx);
	await w.mine();
	const data = await w.comesTo(id, 'needs_review', 'underpaid');

	equal(data.reason.text, 'paid 99850000 of 100000000', 'text');
	equal(data.evidence.transfers.map((t) => [t.value, t.to, t.ordinal]), [['99850000', shop, 1]], 'transfers');
	balance(data, 0, 99850000);
}

async function destroyed() {
	const w = await began();
	const { node, money } = w;

	await node.transact(w.other, money.usdt, transfer(shop, 40n * million));
	await node.mine();
	const tx = await node.sign(w.payer, money.usdt, transfer(shop, 60n * million), { tip: 9_000_000_000 });
	const id = await w.ask({ token: money.usdt, amount: '60000000' }, tx);

	await node.send(tx);
	await node.transact(node.owner, money.usdt, call('TestUsdt', 'addBlackList', [shop]));
	await node.transact(node.owner, money.usdt, call('TestUsdt', 'destroyBlackFunds', [shop]));
	await w.mine();
	const data = await w.comesTo(id, 'needs_review', 'balance_mismatch');

	balance(data, 40000000, 0, 'disagrees');
	equal(data.evidence.transfers.length, 1, 'transfers');
}

async function issued() {
	const w = await began();
	const { node, money } = w;
	const owner = node.owner.address;
	const tx = await node.sign(w.payer, money.usdt, transfer(owner, 60n * million));
	const id = await w.ask({ token: money.usdt, amount: '60000000', payee: owner }, tx);
	const before = 10n ** 15n / 2n;

	await node.send(tx);
	await node.transact(node.owner, money.usdt, call('TestUsdt', 'redeem', [10n * million]));
	await w.mine();
	balance(await w.comesTo(id, 'needs_review', 'balance_mismatch'), before, before + 50n * million, 'disagrees');
}

async function counterfeit() {
	const w = await began();
	const { node } = w;
	const fake = await node.deploy('Counterfeit');

	await node.mine();
	const tx = await node.sign(w.payer, fake, transfer(shop, 5n * million));
	const id = await w.ask({}, tx);

	await node.send(tx);
	await w.mine();
	balance(await w.comesTo(id, 'needs_review', 'wrong_token'), 0, 0);
}

async function twin() {
	const w = await began();
	const { node, money } = w;
	const tx = await node.sign(w.payer, money.usdt, transfer(shop, 5n * million));
	const id = await w.ask({}, tx);

	await node.send(tx);
	await w.mine();
	balance(await w.comesTo(id, 'needs_review', 'wrong_token'), 0, 0);
}

async function zeroes() {
	const w = await began();
	const { node, money } = w;
	const spam = await node.sign(w.other, money.usdc, transfer(shop, 0n));
	const named = await w.ask({}, spam);
	const route = await w.ask({ watch: 'route', payee: w.payee.address, amount: '7000000' });
	const paying = await node.sign(w.payer, money.usdc, transfer(w.payee.address, 7n * million));

	await node.send(spam);
	for (let i = 0; i < 5; i++)
		await node.transact(w.other, money.usdc, transfer(w.payee.address, 0n));
	await node.mine();
	await node.send(paying);
	await w.mine();
	balance(await w.comesTo(named, 'needs_review', 'no_transfer'), 0, 0);
	const data = await w.comesTo(route, 'settled');

	balance(data, 0, 7000000);
	equal(data.evidence.tx_hash, paying.hash, 'transaction');
	equal(w.daemon.readEvents().filter((e) => e.type.startsWith('transfer.')).length, 0, 'transfers told');
}

async function minted() {
	const w = await began();
	const { node, money } = w;
	const tx = await node.sign(node.owner, money.usdc, call('TestUsdc', 'mint', [shop, 5n * million]));
	const [any, from] = [await w.ask({}, tx), await w.ask({ payer: w.payer.address }, tx)];

	await node.send(tx);
	await w.mine();
	const data = await w.comesTo(any, 'settled');

	equal(data.evidence.transfers.map((t) => [t.from, t.value]), [[nobody, '5000000']], 'transfers');
	balance(data, 0, 5000000);
	balance(await w.comesTo(from, 'needs_review', 'wrong_payer'), 0, 5000000);
}

async function burned() {
	const w = await began();
	const { node, money } = w;
	const tx = await node.sign(w.payer, money.usdc, transfer(w.payee.address, 5n * million), { tip: 9_000_000_000 });
	const id = await w.ask({ payee: w.payee.address }, tx);

	await node.send(tx);
	await node.transact(w.payee, money.usdc, call('TestUsdc', 'burn', [3n * million]));
	await w.mine();
	balance(await w.comesTo(id, 'settled'), 0, 2000000);
}

async function blocked() {
	const w = await began();
	const { node, money } = w;

	await node.transact(node.owner, money.usdc, call('TestUsdc', 'blacklist', [w.payer.address, true]));
	await node.transact(node.owner, money.usdt, call('TestUsdt', 'addBlackList', [w.payer.address]));
	await node.mine();
	const listed = await node.sign(w.payer, money.usdc, transfer(shop, 5n * million));
	const other = await node.sign(w.payer, money.usdt, transfer(shop, 5n * million));
	const ids = [await w.ask({}, listed), await w.ask({ token: money.usdt }, other)];

	await node.send(listed);
	await node.send(other);
	await w.mine();
	for (const id of ids)
		balance(await w.comesTo(id, 'needs_review', 'reverted'), 0, 0);
	await node.transact(node.owner, money.usdc, call('TestUsdc', 'pause', [true]));
	await node.mine();
	const paused = await node.sign(w.other, money.usdc, transfer(shop, 5n * million));
	const id = await w.ask({}, paused);

	await node.send(paused);
	await w.mine();
	balance(await w.comesTo(id, 'needs_review', 'reverted'), 0, 0);
}

// Eighteen decimals and amounts beyond 64 bits.
async function eighteen() {
	const w = await World.begin();
	const { node, money } = w;
	const peg = await node.deploy('TestUsdc', [18]);
	const amount = 12_345_678_901n * 10n ** 18n + 1n;

	await node.transact(node.owner, peg, call('TestUsdc', 'mint', [w.payer.address, 2n * amount]));
	await node.mine();
	await w.run({ tokens: [{ symbol: 'USDC', address: peg, decimals: 18 }] });
	const tx = await node.sign(w.payer, peg, transfer(shop, amount));
	/* What is left of the amount where somebody keeps 64 bits. */
	const low = await node.sign(w.payer, peg, transfer(w.payee.address, amount));
	const [id, cut] = [
		await w.ask({ token: peg, amount: String(amount) }, tx),
		await w.ask({ token: peg, payee: w.payee.address, amount: String(amount % 2n ** 64n) }, low),
	];

	await node.send(tx);
	await node.send(low);
	await w.mine();
	balance(await w.comesTo(id, 'settled'), 0, amount);
	balance(await w.comesTo(cut, 'needs_review', 'overpaid'), 0, amount);
}

// It ends with 1, and one line says why.
async function refuses(w, tokens, ...words) {
	const daemon = new Daemon({ config: [await chainConfig(w.node, w.money, { tokens })] });

	daemon.spawn();
	const { code } = await daemon.gone;

	equal(code, 1, `exit code; ${daemon.said.join(' | ')}`);
	equal(daemon.complaints.length, 1, `complaints; ${daemon.said.join(' | ')}`);
	for (const word of words)
		ok(daemon.complaints[0].toLowerCase().includes(word), `"${daemon.complaints[0]}" does not say ${word}`);
}

async function codeless() {
	const w = await World.begin();
	const empty = '0x' + 'c0'.repeat(20);

	await refuses(w, [
		{ symbol: 'USDC', address: w.money.usdc, decimals: 6 }, { symbol: 'FAKE', address: empty, decimals: 6 },
	], empty);
}

async function otherDecimals() {
	const w = await World.begin();

	await refuses(w, [{ symbol: 'USDC', address: w.money.usdc, decimals: 18 }], w.money.usdc, '6', '18');
}

await cases({
	'a fee on USDT: underpaid by the fee': fee,
	'funds destroyed in the block of the payment: balance_mismatch': destroyed,
	'USDT redeemed in the block of the payment: balance_mismatch': issued,
	'a counterfeit: wrong_token': counterfeit,
	'the other token of the list: wrong_token': twin,
	'transfers of zero are no payments': zeroes,
	'a mint pays': minted,
	'a payee that burns in the same block is paid': burned,
	'a blocked payer, a paused token: reverted': blocked,
	'eighteen decimals': eighteen,
	'a token without code is refused at start': codeless,
	'other decimals than configured are refused at start': otherDecimals,
});
