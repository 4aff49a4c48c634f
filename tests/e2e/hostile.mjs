// A node that does wrong in every way we know of: the same end as with an honest one, and what caught each fault.
//     SEED=7 HARDER=5 node hostile.mjs        ONLY=heads: one group
import { cases, equal, intent, ok } from './lib.mjs';
import { faults, Proxy } from './proxy.mjs';
import { chain, daemon, endsWell, pay, payee, range, stands } from './rig.mjs';
import { Traffic } from './traffic.mjs';

const seed = Number(process.env.SEED ?? 1);
const harder = Number(process.env.HARDER ?? 1);	// so many times the chance of each fault

// Faults that would change the end or that last have their own cases, here or in two.mjs.  A balance that is wrong and
// then cannot be read again brings a person in, and rightly so.
const lasting = ['finalized_is_latest', 'other_chain', 'other_genesis', 'other_decimals', 'balance_gone'];

// The chance of each in the long run; the slow ones a few times only.
function everything() {
	const rare = { http_silence: 3, http_huge: 2, ws_stalled: 1, ws_silence: 1, subscribe_silence: 1, subscribe_overtaken: 2,
		head_huge: 2, balance_wrong: 2, receipts_missing_32601: 0, receipts_missing_32602: 0, receipts_missing_32004: 0 };

	return faults.filter((f) => !lasting.includes(f)).map((fault) => ({ fault, most: rare[fault] ?? 12 * harder,
		chance: /^(head|ws|subscribe)/.test(fault) ? 0.03 * harder : 0.008 * harder }));
}

const odd = (d) => d.lines.filter((l) => l.startsWith('odd:')).length;

// One daemon has an honest node, one a hostile one, one has two of them that must agree.
async function sameEnds() {
	const world = await chain({ slots: 8, payers: 60 });
	const proxies = await Promise.all(range(3).map((n) => Proxy.to(world.node, { seed: seed * 3 + n, plan: everything() })));
	const plain = await daemon(world, [world.node]);
	const one = await daemon(world, [proxies[0]]), two = await daemon(world, proxies.slice(1));
	const all = [plain, one, two];
	const t = new Traffic(world, all, seed);

	await t.begin();
	for (const d of all)
		await d.start();
	await t.seen(20000 * harder);
	// No reorg reaches the place where following began.
	await world.node.mine(8);
	await t.seen(20000 * harder);
	for (const n of range(60)) {
		await t.add();
		await world.node.mine(t.random.pick([0, 1, 1, 2]));
		if (n % 6 !== 5)
			continue;
		await t.seen(20000 * harder);
		await t.reorg(t.random.between(1, 6));
		await world.node.mine();
	}
	await world.node.mine(20);
	for (const d of all)
		await t.compare(d, stands, 20000 * harder);
	for (const d of [one, two])
		for (const p of t.payments)
			equal(await stands(d, p.id), await stands(plain, p.id), `${p.id} (${p.kind}), hostile and plain`);
	for (const d of all)
		await endsWell(d);
	const struck = proxies.flatMap((p) => Object.values(p.struck)).reduce((x, y) => x + y, 0);
	const kinds = new Set(proxies.flatMap((p) => Object.keys(p.struck))).size;

	console.log(`note: seed ${seed}: 60 payments, ${t.reorgs} reorgs, ${struck} strikes of ${kinds} faults; ` +
		`odd lines: ${all.map(odd)} (honest, hostile, two hostile)`);
}

// The transaction moves into a block below the first that was ever followed: it is looked for there.
async function belowStart() {
	const world = await chain({ slots: 12, payers: 4 });

	await world.node.mine(12);
	const deep = [{ id: 'pi_0', depth: 6 }, { id: 'pi_1', depth: 9 }];

	for (const [n, { id, depth }] of deep.entries()) {
		const d = await daemon(world, [world.node]);

		await d.start();
		await d.reached(world.node);
		const first = (await world.node.block()).number;
		const tx = await pay(world, n, payee(n), 1_000_000);

		await d.settling(intent({ id, token: world.money.usdc, payee: payee(n), amount: '1000000' }), tx);
		await world.node.mine(4);
		await d.state(id, 'confirming');
		await world.node.reorg(depth, [{ tx, at: 0 }]);
		await world.node.mine(25);
		await d.state(id, 'settled');
		const height = Number((await world.node.receipt(tx)).blockNumber);

		ok(height < first, `it is in block ${height}, not below ${first}, where following began`);
		await endsWell(d);
	}
}

// --- One fault at a time.  What catches it: a line of the log, or a word on why nothing has to.

const words = (text) => text.trim().split(/\s+/);

const groups = {
	'answers about blocks': words(`latest_behind number_behind block_null block_other block_tampered block_without_list
		block_unknown finalized_back finalized_unknown finalized_null late`),
	'receipts': words(`receipts_empty receipts_null receipts_short receipts_order receipts_other receipts_stale_hash
		receipts_tampered receipts_gas receipts_without_logs balance_wrong balance_no_code balance_gone balance_unknown`),
	'an endpoint without eth_getBlockReceipts': words(`receipts_missing_32601 receipts_missing_32602 receipts_missing_32004
		logs_empty logs_other logs_removed receipt_null receipt_tampered receipt_gas`),
	'errors and ids': words(`limit_exceeded internal_error error_null_id id_other id_text batch_error batch_order
		batch_missing batch_extra batch_twice`),
	'the way of an answer': words(`http_429 http_502 http_401 http_redirect http_empty http_no_json http_half http_hangup
		http_silence http_huge`),
	'heads': words(`heads_only_tips head_repeated head_late head_reordered head_dropped head_without_field head_tampered
		head_no_json head_huge head_in_frames`),
	'sockets': words(`ws_cut ws_closed ws_half ws_401 ws_429 ws_redirect ws_silence ws_stalled pong_withheld
		subscribe_refused subscribe_null subscribe_silence subscribe_overtaken`),
};

// How often: while it connects, and then in the traffic.  Without a word here: 2 and 4.
const times = {
	heads_only_tips: [0, Infinity],
	head_dropped: [0, Infinity],
	balance_wrong: [0, 1],
	finalized_back: [0, 4],
	ws_stalled: [1, 0],
	ws_silence: [1, 0],
	pong_withheld: [2, Infinity],
	subscribe_silence: [1, 0],
	subscribe_overtaken: [1, 1],
	http_silence: [1, 1],
	http_huge: [1, 1],
	receipts_missing_32601: [Infinity, 0],
	receipts_missing_32602: [Infinity, 0],
	receipts_missing_32004: [Infinity, 0],
};

// What else it takes for a fault to find anything to spoil.
function needOf(fault) {
	if (fault === 'number_behind')
		return { also: ['heads_only_tips'], far_blocks: 2 };
	if (fault?.startsWith('block_'))
		return { also: ['heads_only_tips'] };
	if (/^(logs|receipt)_/.test(fault))
		return { also: ['receipts_missing_32601'] };
	return { also: [] };
}

// Why nothing has to catch it.
const harmless = {
	number_behind: 'the number is compared; asked again',
	block_without_list: 'a header alone is no block; asked again',
	latest_behind: 'a lower head is lag, no reorg',
	finalized_unknown: 'no news is no news',
	finalized_null: 'no news is no news',
	late: 'it waits, or asks once more',
	balance_wrong: 'a contradiction is read twice',
	balance_no_code: 'no word of 32 bytes is no balance; asked again',
	balance_gone: 'no state, no witness; the policy allows it',
	balance_unknown: 'asked again',
	logs_empty: 'the bloom says otherwise; asked again',
	id_text: 'an id is the same as text',
	batch_order: 'answers are found by their ids',
	batch_extra: 'answers are found by their ids',
	batch_twice: 'the first counts',
	heads_only_tips: 'parents are fetched by hash',
	head_repeated: 'a head is but a hint',
	head_late: 'polls tell it before',
	head_reordered: 'linked by hash, not by order',
	head_in_frames: 'messages come whole',
	pong_withheld: 'heads are signs of life too',
	subscribe_silence: 'polls tell the heads',
	subscribe_overtaken: 'a notice needs no reply before it',
};

const shape = (line) => line.replace(/0x[0-9a-f]+|\d+/g, '#');
const shorten = (line) => line.replace(/^\w+: /, '').replace(/0x[0-9a-f]{10,}/g, (h) => h.slice(0, 8) + '..').slice(0, 110);

// The line that tells of the fault: the first that a daemon with an honest node did not say.
function caughtBy({ fault, d }, known) {
	const also = needOf(fault).also.includes('receipts_missing_32601') && /has no eth_|does not exist/;
	const line = d.lines.find((l) => /^(odd|info): (?!asked|trouble|signal)/.test(l) && !(also && also.test(l)) &&
		!(l.includes('went back') && fault !== 'finalized_back') && !known.has(shape(l)));

	return line ? shorten(line) : harmless[fault] && `- ${harmless[fault]}`;
}

async function startRun(world, fault) {
	const { also, far_blocks } = needOf(fault);
	const plan = fault ? [{ fault, most: times[fault]?.[0] ?? 2 }, ...also.map((f) => ({ fault: f }))] : [];
	const proxy = await Proxy.to(world.node, { seed, plan });
	const d = await daemon(world, [proxy], { far_blocks,
		whole: { message_max_bytes: 4 << 20, answer_max_bytes: 8 << 20 } });

	await d.start();
	return { fault, proxy, d };
}

// All daemons hear of the same traffic, each by a node with a fault of its own, and end alike.
async function oneEach(names) {
	const world = await chain({ slots: 8, payers: 12 });
	const runs = await Promise.all([null, ...names].map((fault) => startRun(world, fault)));
	const t = new Traffic(world, runs.map((r) => r.d), seed);

	await t.begin();
	await t.seen(20000);
	for (const { proxy: { plan } } of runs.slice(1))
		plan[0].most += times[plan[0].fault]?.[1] ?? 4;
	for (const kinds of [['exact', 'exact'], ['under', 'route'], ['exact'], ['fake', 'exact'], ['dropped', 'exact']]) {
		for (const kind of kinds)
			await t.add(kind);
		await world.node.mine(3);
	}
	await t.seen(20000);
	await t.reorg(5);
	await world.node.mine(3);
	await t.seen(20000);
	await world.node.mine(16);
	const known = new Set(runs[0].d.lines.map(shape)), failed = [];

	for (const run of runs) {
		try {
			await t.compare(run.d, stands, 20000);
			await endsWell(run.d);
			ok(!run.fault || run.proxy.struck[run.fault], 'it never struck');
			ok(!run.fault || caughtBy(run, known), 'nothing in the log tells of it');
		} catch (e) {
			failed.push(`${run.fault ?? 'honest'}: ${e.message}`);
		}
	}
	for (const run of runs.slice(1)) {
		const struck = String(run.proxy.struck[run.fault] ?? 0).padStart(3);

		console.log(`note: ${run.fault.padEnd(23)}|${struck} | ${caughtBy(run, known) ?? '?'}`);
	}
	ok(!failed.length, failed.join('\n'));
}

cases({
	'the same traffic from an honest node and from a hostile one ends alike': sameEnds,
	'a payment moves below the place where following began': belowStart,
	...Object.fromEntries(Object.entries(groups).map(([name, list]) => [`each fault alone: ${name}`, () => oneEach(list)])),
});
