// A name whose answer takes 3 s, and one that never answers: no timer waits for them.
//
// In a name space of its own, where the only resolver is ours; skipped where the machine gives none.
import { spawnSync } from 'node:child_process';
import dgram from 'node:dgram';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { cases, ends, intent, ok, sleep } from './lib.mjs';
import { Proxy } from './proxy.mjs';
import { chain, daemon, pay, payee } from './rig.mjs';

const self = fileURLToPath(import.meta.url);
const polls_ms = 100, run_ms = 5000, bound_ms = 50, tries = 3;

// Answers each question for an address with 127.0.0.1, after as long as the name says; "mute" never.
async function resolver() {
	const socket = dgram.createSocket('udp4');
	const told = {};

	socket.on('message', (q, from) => {
		const labels = [];
		let at = 12;

		for (; q[at]; at += q[at] + 1)
			labels.push(q.toString('latin1', at + 1, at + 1 + q[at]));
		const name = labels.join('.');
		const isA = q.readUInt16BE(at + 1) === 1;
		const head = Buffer.from(q.subarray(0, at + 5));

		told[name] = (told[name] ?? 0) + 1;
		head.writeUInt16BE(0x8180, 2);
		head.writeUInt16BE(isA ? 1 : 0, 6);
		head.writeUInt32BE(0, 8);
		const record = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 127, 0, 0, 1]);

		if (name.startsWith('mute'))
			return;
		const answer = isA ? Buffer.concat([head, record]) : head;

		setTimeout(() => socket.send(answer, from.port, from.address), name.startsWith('slow') ? 3000 : 0);
	});
	socket.bind(53, '127.0.0.1');
	await once(socket, 'listening');
	ends({ end: () => socket.close() });
	return told;
}

const named = (proxy, name) => ({ url: `http://${name}.test:${proxy.port}`, ws: `ws://${name}.test:${proxy.port}` });

const most = (list) => list.reduce((a, b) => Math.max(a, b), 0);

/*
 * A block with a payment every 100 ms.  Two delays are taken at the good endpoint: how much later than its time each
 * poll was asked, and how long after a block was mined the event of its payment says it was written.
 */
async function measure(world, n, others) {
	const good = await Proxy.to(world.node);
	const d = await daemon(world, [good, ...others],
		{ poll_ms: polls_ms, timeout_ms: 4000, finality: { tag: 'finalized', agree: 1 }, whole: { open_s: 10 } });
	const polls = [], mined = new Map();

	good.seen = (q) => q.method === 'eth_getBlockByNumber' && q.params[0] === 'latest' && polls.push(performance.now());
	await d.start();
	for (const end = Date.now() + run_ms; Date.now() < end; await sleep(polls_ms)) {
		const id = `pi_${n.next++}`, amount = 1_000_000 + n.next;
		const tx = await pay(world, n.next % world.payers.length, payee(1), amount);

		await d.settling(intent({ id, token: world.money.usdc, payee: payee(1), amount: String(amount) }), tx);
		await world.node.mine();
		mined.set(id, Date.now());
	}
	await d.reached(world.node);
	const commits = d.readEvents().filter((e) => e.type === 'intent.confirming')
		.map((e) => Date.parse(e.timestamp) - mined.get(e.data.intent.id));

	ok(commits.length > run_ms / polls_ms / 3, `only ${commits.length} payments seen`);
	const waits = polls.slice(1).map((at, i) => at - polls[i] - polls_ms);

	await d.end();
	return { timer_ms: Math.round(most(waits)), commit_ms: most(commits), polls: polls.length, commits: commits.length };
}

// A loaded machine is late by itself: only what is late each time is the name's.
async function notDelayed(world, n, without, told, name) {
	let got;

	for (let t = 0; t < tries; t++) {
		const other = await Proxy.to(world.node);

		got = await measure(world, n, [named(other, name)]);
		ok(told[`${name}.test`], `${name}.test was never asked for`);
		ok(name === 'mute' || Object.keys(other.asked).length, 'behind the slow name nobody was asked in the end');
		if (got.timer_ms <= bound_ms && got.commit_ms <= without.commit_ms + bound_ms)
			break;
	}
	console.log(`note: with ${name}.test: ${JSON.stringify(got)}`);
	ok(got.timer_ms <= bound_ms, `${name}: a timer was ${got.timer_ms} ms late`);
	ok(got.commit_ms <= without.commit_ms + bound_ms, `${name}: a commit was ${got.commit_ms} ms late`);
}

function inside() {
	return cases({
		'a name whose answer takes 3 s, and one that never answers, delay nothing': async () => {
			const told = await resolver();
			const world = await chain({ slots: 4, payers: 40 });
			const n = { next: 0 };
			const without = await measure(world, n, []);

			console.log(`note: without a slow name: ${JSON.stringify(without)}`);
			await notDelayed(world, n, without, told, 'slow');
			await notDelayed(world, n, without, told, 'mute');
		},
	});
}

function outside() {
	const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'tidemark-names-'));
	const conf = path.join(dir, 'resolv.conf');

	fs.writeFileSync(conf, 'nameserver 127.0.0.1\noptions timeout:5 attempts:2\n');
	const space = ['-rmn', 'sh', '-c', 'ip link set lo up && mount --bind "$0" /etc/resolv.conf && exec "$@"', conf];
	const able = spawnSync('unshare', [...space, 'true']);

	if (able.status !== 0) {
		const why = able.error?.message ?? able.stderr.toString().trim();

		console.log(`skipped: no name space with a resolver of its own: ${why}`);
		console.log('[  SKIPPED ] 1 test(s).');
		return;
	}
	const { status } = spawnSync('unshare', [...space, process.execPath, self],
		{ stdio: 'inherit', env: { ...process.env, NAMES_INSIDE: '1' } });

	fs.rmSync(dir, { recursive: true });
	process.exit(status ?? 1);
}

if (process.env.NAMES_INSIDE)
	inside();
else
	outside();
