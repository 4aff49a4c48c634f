// Finality contradicted: latched, accepted by an operator (also under kill -9), or taken back by the nodes.  And a block
// that cannot be proven.
//     SEED=7 KILLS=12 node latch.mjs
import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import { cases, command, Daemon, equal, folder, intent, ok, Random, sleep, until } from './lib.mjs';
import { Proxy } from './proxy.mjs';
import { chain, daemon, endsWell, pay, payee, range, stands } from './rig.mjs';

const seed = Number(process.env.SEED ?? 1);
const kills = Number(process.env.KILLS ?? 15);
const paidCount = 6;

const fields = ({ money }, n) => intent({ id: `pi_${n}`, token: money.usdc, payee: payee(n), amount: String(1_000_000 + n) });

async function health(d, status) {
	await until(`health to be ${status}`, async () => (await d.ask('GET', '/healthz')).status === status);
	return (await d.ask('GET', '/healthz')).body.reasons?.join('; ') ?? '';
}

async function settleSome(world, d) {
	const txs = [];

	for (const n of range(paidCount)) {
		txs.push(await pay(world, n, payee(n), 1_000_000 + n));
		await d.settling(fields(world, n), txs[n]);
		await world.node.mine();
	}
	await world.node.mine(3);
	for (const n of range(paidCount))
		await d.state(`pi_${n}`, 'settled');
	return txs;
}

// The node's chain turns into another below what was final; two of the payments come again on it.
async function latched() {
	const world = await chain({ slots: 1, payers: 12 });
	const d = await daemon(world, [world.node]);

	await d.start();
	const txs = await settleSome(world, d);

	await world.node.reorg(paidCount + 3, txs.slice(0, 2).map((tx) => ({ tx, at: 1 })));
	await world.node.mine(2);
	await until('the latch', async () => (await d.chain()).latch);
	return { world, d };
}

const reversals = (events) => events.filter((e) => e.type === 'intent.reversed').map((e) => e.data.intent.id).sort();
const all = range(paidCount).map((n) => `pi_${n}`);

// Latched: red, told once, nothing moves though blocks and payments come.
async function holds() {
	const { world, d } = await latched();
	const said = await health(d, 503);
	const told = d.readEvents().filter((e) => e.type === 'chain.finality_violation');

	equal(told.length, 1, 'violations told');
	const text = JSON.stringify(told[0].data);

	for (const id of all)
		ok(text.includes(`"${id}"`), `${id} is not listed in the violation`);
	const events = d.readEvents().length;
	const n = paidCount;
	const tx = await pay(world, n, payee(n), 1_000_000 + n);

	await d.settling(fields(world, n), tx);
	await world.node.mine(6);
	await sleep(1500);
	equal(d.readEvents().length, events + 3, 'events while latched');
	equal((await stands(d, `pi_${n}`)).state, 'settling', 'a payment while latched');
	for (const id of all)
		equal((await stands(d, id)).state, 'settled', id);
	// A restart changes nothing of it.
	await d.kill9();
	await d.start();
	await health(d, 503);
	ok((await d.chain()).latch, 'the latch is kept over a restart');
	equal(reversals(d.readEvents()), [], 'reversals without an operator');

	const head = await world.node.block();
	const { code, err } = await command('chain', 'accept', head.hash, '--store', d.store);

	equal(code, 0, `tidemark chain accept: ${err}`);
	await until('the reversals', () => reversals(d.readEvents()).length >= paidCount);
	await d.state(`pi_${n}`, 'settled');
	await health(d, 200);
	equal(reversals(d.readEvents()), all, 'reversals');
	const returned = d.readEvents().filter((e) => e.data.reason?.code === 'returned');

	equal(returned.length, 2, 'payments that came again on the other branch');
	await endsWell(d);
	console.log(`note: latched: ${said}`);
}

// Asks, and kills so long after the request was written; shorter than a timer could tell.
async function acceptAndKill(d, hash, after_ms) {
	const body = JSON.stringify({ hash });
	const socket = net.connect(d.socket);

	socket.on('error', () => {});
	await once(socket, 'connect');
	const request = ['POST /v1/chains/31337/accept HTTP/1.1', 'Host: localhost', `Content-Length: ${body.length}`, '', body].join('\r\n');

	await new Promise((done) => socket.write(request, done));
	for (const end = performance.now() + after_ms; performance.now() < end;)
		;
	await d.kill9();
	socket.destroy();
}

async function reversedIn(store) {
	return (await command('events', store)).out.split('\n').filter((line) => line.includes('"intent.reversed"')).length;
}

// By the command line, while no daemon runs.
async function latchIn(d) {
	const { out } = await command('chain', 'status', '--store', d.store, '--config', d.config, '--json');

	return JSON.parse(out).chains[0].latch;
}

// From one latched store, over and over: accept, and kill at some moment; in the end all is reversed once.
async function killed() {
	const { world, d } = await latched();
	const random = new Random(seed);
	const head = await world.node.block();
	const moments = { 'before the word was kept': 0, 'between it and the rollback': 0, 'after the rollback': 0 };

	await d.kill9();
	for (const k of range(kills)) {
		const copy = new Daemon({ dir: folder() });

		fs.cpSync(d.dir, copy.dir, { recursive: true, filter: (name) => !name.endsWith('.sock') });
		copy.configure(JSON.parse(fs.readFileSync(d.config, 'utf8').replaceAll(d.dir, copy.dir)));
		await copy.start();
		await until('the latch to be heard again', () => copy.lines.some((l) => l.includes('-> live')));
		await acceptAndKill(copy, head.hash, random.next() * [0.5, 4, 40][k % 3]);
		const told = await reversedIn(copy.store);

		ok(told === 0 || told === paidCount, `${told} of ${paidCount} reversals after a kill`);
		// Some are killed again while they begin.
		if (k % 4 === 3) {
			copy.spawn();
			await sleep(random.between(0, 80));
			await copy.kill9();
		}
		const latch = await latchIn(copy);
		const lost = latch && !latch.accepted;

		moments[told ? 'after the rollback' : lost ? 'before the word was kept' : 'between it and the rollback']++;
		await copy.start();
		if (lost)
			await copy.want(200, 'POST', '/v1/chains/31337/accept', { hash: head.hash });
		await until('the reversals', () => reversals(copy.readEvents()).length >= paidCount, 15000);
		await copy.reached(world.node);
		await health(copy, 200);
		await endsWell(copy);
		equal(reversals(copy.readEvents()), all, `reversals after kill ${k}`);
		await copy.end();
	}
	console.log(`note: seed ${seed}: ${kills} kills while accepting: ${JSON.stringify(moments)}; each reversal once`);
}

// Blocks can be made again as they were: the same transactions at the same time and base fee.
async function recordBlocks(node, from) {
	const blocks = [];

	for (let h = from; h <= (await node.block()).number; h++) {
		const b = await node.rpc('eth_getBlockByNumber', '0x' + h.toString(16), false);

		b.raws = await Promise.all(b.transactions.map((t) => node.rpc('eth_getRawTransactionByHash', t)));
		blocks.push(b);
	}
	return blocks;
}

async function playBlocks(node, blocks) {
	for (const b of blocks) {
		for (const raw of b.raws)
			await node.rpc('eth_sendRawTransaction', raw);
		await node.rpc('anvil_setNextBlockBaseFeePerGas', b.baseFeePerGas);
		await node.rpc('evm_setNextBlockTimestamp', Number(b.timestamp));
		await node.mine();
		equal((await node.block()).hash, b.hash, 'a block made again');
	}
}

async function falls() {
	const world = await chain({ slots: 1, payers: 12 });
	const { node } = world;
	const d = await daemon(world, [node]);
	const from = (await node.block()).number + 1;
	let snapshot = await node.rpc('evm_snapshot');

	await d.start();
	await settleSome(world, d);
	const blocks = await recordBlocks(node, from);
	const events = d.readEvents().length;

	await node.rpc('evm_revert', snapshot);
	snapshot = await node.rpc('evm_snapshot');
	await node.rpc('evm_increaseTime', 7);
	await node.mine(blocks.length + 2);
	await until('the latch', async () => (await d.chain()).latch);
	await health(d, 503);
	await node.rpc('evm_revert', snapshot);
	await playBlocks(node, blocks);
	await until('the latch to fall', async () => !(await d.chain()).latch);
	await health(d, 200);
	const n = paidCount;
	const tx = await pay(world, n, payee(n), 1_000_000 + n);

	await d.settling(fields(world, n), tx);
	await node.mine(4);
	await d.state(`pi_${n}`, 'settled');
	equal(reversals(d.readEvents()), [], 'reversals');
	const told = d.readEvents().slice(events).map((e) => e.type).filter((type) => type.startsWith('chain.'));

	equal(told, ['chain.finality_violation'], 'told of the chain');
	await endsWell(d);
}

// One block's receipts are wrong for good.
async function unproven() {
	const world = await chain({ slots: 1, payers: 12 });
	const proxy = await Proxy.to(world.node, { seed });
	const d = await daemon(world, [proxy], { unproven_s: 10 });

	await d.start();
	const tx = await pay(world, 0, payee(0), 1_000_000);

	await d.settling(fields(world, 0), tx);
	const hash = await minedWrong(world, proxy);
	const said = await health(d, 503);
	const { unproven: told } = await d.chain();

	equal(told.hash, hash, 'the block that cannot be proven');
	const later = await pay(world, 1, payee(1), 1_000_001);

	await d.settling(fields(world, 1), later);
	await world.node.mine(4);
	await sleep(600);
	equal((await stands(d, 'pi_1')).state, 'settling', 'above a block that is not proven');
	const { code, err } = await command('chain', 'accept-unproven', hash, '--store', d.store);

	equal(code, 0, `tidemark chain accept-unproven: ${err}`);
	await d.state('pi_0', 'needs_review');
	equal((await stands(d, 'pi_0')).code, 'unproven', 'reason');
	await d.state('pi_1', 'settled');
	await health(d, 200);
	await endsWell(d);
	console.log(`note: unproven: ${said}`);
}

// The receipts of the next block, which nobody saw yet, do not hold from the first answer on; of the payment they say
// what is true.
async function minedWrong(world, proxy) {
	proxy.plan = [{ fault: 'receipts_gas' }, { fault: 'receipt_gas' }];
	await world.node.mine();
	const { hash, transactions } = await world.node.block();

	proxy.plan[0].only = hash;
	proxy.plan[1].only = transactions[0];
	return hash;
}

cases({
	'latched: red, told, and nothing moves until an operator accepts': holds,
	'kill -9 while an operator accepts': killed,
	'the latch falls when the nodes have our blocks again': falls,
	'a block that nobody can prove': unproven,
});
