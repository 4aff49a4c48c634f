// Figures against a real node, one line of JSON each; no pass or fail.
//     BENCH_BLOCKS=500 BENCH_OPEN=10000 BENCH_HEADS=300 node bench.mjs
//
// "catch-up": blocks of 200 transfers from block 1 to the head, and the same answers merely downloaded (download.c).
// "latency": at so many open intents, from a head's notice to the payment's event in the file, seen from outside; and the
//     daemon's own figures: from the notice read to the commit, and that without the waiting for the node's answers.
// "viem": the same work beside it, by a subscriber in a few lines of viem: logs by the head's hash, the payee's balance
//     before and after, a line appended and synced.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { WebSocket } from 'ws';
import { call, folder, intent, ok, sleep, until } from './lib.mjs';
import { chain, daemon, payee, range } from './rig.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const blocks = Number(process.env.BENCH_BLOCKS ?? 500), transfers = 200;
const open = Number(process.env.BENCH_OPEN ?? 10000);
const heads = Number(process.env.BENCH_HEADS ?? 300), warm = 50, pace_ms = 100;	// the first ones warm up

const hex = (n) => '0x' + n.toString(16);
const say = (o) => console.log(JSON.stringify(o));

function quantile(list, q) {
	const sorted = [...list].sort((a, b) => a - b);

	return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))];
}

function figures(all) {
	const list = all.slice(warm);

	return { p50: Math.round(quantile(list, 0.5)), p99: Math.round(quantile(list, 0.99)), n: list.length };
}

// --- Catching up

// Full blocks: many transactions of one transfer each, which the node takes unsigned.
async function fill({ node, money, payers }) {
	await node.rpc('anvil_autoImpersonateAccount', true);
	for (const b of range(blocks)) {
		const body = range(transfers).map((t) => ({ jsonrpc: '2.0', id: t, method: 'eth_sendTransaction', params: [{
			from: payers[t % payers.length].address, nonce: hex(Math.floor((b * transfers + t) / payers.length)),
			to: money.usdc, gas: '0x186a0', gasPrice: '0x77359400',
			data: call('TestUsdc', 'transfer', [payee(1 + (b * transfers + t) % 5000), 1n]) }] }));

		await fetch(node.url, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
		await node.mine();
	}
}

async function catchUp() {
	const world = await chain({ slots: 8, payers: 40, args: ['--order', 'fifo', '--gas-limit', '1000000000'] });

	await fill(world);
	const head = await world.node.block();
	const exe = path.join(folder(), 'download');

	execFileSync(process.env.CC ?? 'cc',
		['-std=c11', '-D_POSIX_C_SOURCE=200809L', '-O2', '-o', exe, path.join(here, 'download.c'), '-lcurl']);
	const plain = JSON.parse(execFileSync(exe, [world.node.url, '1', String(head.number)]));
	const d = await daemon(world, [world.node], { start_height: 1 });
	const begun = performance.now();

	d.spawn();
	await until('the daemon to catch up', async () => {
		ok(!d.status, `the daemon ended: ${d.said.slice(-3).join(' | ')}`);
		return (await d.chain().catch(() => null))?.tip?.hash === head.hash;
	}, 600000);
	const s = (performance.now() - begun) / 1000;

	say({ bench: 'catch-up', blocks: head.number, transfers_per_block: transfers, MB: Math.round(plain.bytes / 1e6),
		s: Number(s.toFixed(2)), blocks_per_s: Math.round(head.number / s), download_s: plain.s,
		times_download: Number((s / plain.s).toFixed(2)) });
	await d.end();
	await world.node.end();
}

// --- Latency

// Many requests at once over the daemon's socket: it commits those of a turn together.
async function createOpen(d, money) {
	const agent = new http.Agent({ keepAlive: true, maxSockets: 64 });
	const ask = (target, body) => new Promise((done, failed) => {
		http.request({ socketPath: d.socket, method: 'POST', path: target, agent }, (a) => {
			a.resume().on('end', () => (a.statusCode < 300 ? done() : failed(new Error(`${target}: ${a.statusCode}`))));
		}).on('error', failed).end(JSON.stringify(body));
	});
	let next = 0;
	const work = async () => {
		while (next < open) {
			const n = next++;

			await ask('/v1/intents', intent({ id: `open_${n}`, token: money.usdc, payee: payee(100000 + n), amount: '5000000' }));
			await ask(`/v1/intents/open_${n}/moves`, { to: 'authorized', actor: 'api' });
			await ask(`/v1/intents/open_${n}/moves`, { to: 'settling', actor: 'relayer' });
			await ask(`/v1/intents/open_${n}/attempts`, { tx_hash: '0x' + n.toString(16).padStart(64, '0') });
		}
	};

	await Promise.all(range(64).map(work));
	agent.destroy();
}

async function subscriber(world) {
	const args = [world.node.url, world.node.ws, world.money.usdc, payee(1), path.join(folder(), 'log')];
	const child = spawn(process.execPath, [path.join(here, 'subscriber.mjs'), ...args], { stdio: ['pipe', 'pipe', 'inherit'] });
	let out = '';

	child.stdout.setEncoding('utf8').on('data', (text) => (out += text));
	await until('the subscriber', () => out.includes('\n'));
	return {
		async end() {
			child.stdin.end();
			await once(child, 'close');
			return JSON.parse(out.trim().split('\n').at(-1));
		},
	};
}

// When each head was told to a subscriber that does nothing else.
async function watchHeads(node) {
	const socket = new WebSocket(node.ws);
	const told = new Map();

	socket.on('message', (text) => {
		const at = performance.now(), hash = String(text).match(/"hash":"(0x[0-9a-f]{64})"/)?.[1];

		if (hash)
			told.set(hash, at);
	});
	await once(socket, 'open');
	socket.send('{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}');
	return { told, end: () => socket.terminate() };
}

// When each line came into the file: { at, event }.
function watchEvents(file) {
	const fd = fs.openSync(file, 'r'), part = Buffer.alloc(1 << 20), lines = [];
	let rest = '', from = fs.fstatSync(fd).size;

	const look = () => {
		const at = performance.now();

		for (let n; (n = fs.readSync(fd, part, 0, part.length, from)) > 0;) {
			from += n;
			const whole = (rest + part.toString('utf8', 0, n)).split('\n');

			rest = whole.pop();
			lines.push(...whole.map((text) => ({ at, text })));
		}
	};
	const watcher = fs.watch(file, look);

	return { lines, end: () => { look(); watcher.close(); fs.closeSync(fd); } };
}

// A block has 20 transfers; one of them pays an intent.
async function block(world, d, n) {
	const { node, money, payers } = world;
	const amount = 1_000_000 + n;
	const transfer = (from, to, value) => node.sign(payers[from], money.usdc, call('TestUsdc', 'transfer', [to, BigInt(value)]));
	const tx = await transfer(0, payee(1), amount);

	await d.settling(intent({ id: `pi_${n}`, token: money.usdc, payee: payee(1), amount: String(amount) }), tx);
	const others = await Promise.all(range(19).map((k) => transfer(1 + k, payee(1000 + k), 1)));

	await Promise.all([tx, ...others].map((t) => node.send(t)));
	await sleep(20);
	await node.mine();
}

function fromOutside(told, lines) {
	return lines.filter((l) => l.text.includes('"intent.confirming"')).map(({ at, text }) => {
		const { evidence } = JSON.parse(text).data;

		return 1000 * (at - told.get(evidence.block.hash));
	});
}

function fromInside(d) {
	const said = d.lines.map((l) => l.match(/applied .*head_us=(\d+) own_us=(\d+)/)?.map(Number)).filter((m) => m?.[1]).slice(-heads);

	return { head_to_commit_us: figures(said.map((m) => m[1])), own_us: figures(said.map((m) => m[2])) };
}

async function latency(beside) {
	const world = await chain({ slots: 8, payers: 20 });
	const d = await daemon(world, [world.node]);

	await d.start();
	await createOpen(d, world.money);
	const viem = beside && (await subscriber(world));
	const seen = await watchHeads(world.node), written = watchEvents(d.events);

	for (const n of range(heads)) {
		const next = performance.now() + pace_ms;

		await block(world, d, n);
		await sleep(Math.max(0, next - performance.now()));
	}
	await d.reached(world.node);
	written.end();
	seen.end();
	say({ bench: 'latency', open_intents: open, beside, load: os.loadavg()[0],
		head_to_event_us: figures(fromOutside(seen.told, written.lines)), ...fromInside(d) });
	if (viem)
		say({ bench: 'viem', head_to_synced_us: figures(await viem.end()) });
	await d.end();
	await world.node.end();
}

await catchUp();
await latency(null);
await latency('viem');
process.exit();
