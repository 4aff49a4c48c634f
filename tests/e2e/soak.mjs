// A long time at a quick pace: memory and descriptors must stay where they are.
//     SOAK_S=600 SEED=1 node soak.mjs
import fs from 'node:fs';
import { cases, intent, ok, Random, sleep } from './lib.mjs';
import { chain, daemon, endsWell, pay, payee } from './rig.mjs';

const soak_s = Number(process.env.SOAK_S ?? 600);
const seed = Number(process.env.SEED ?? 1);
const block_ms = 50, every = 20;
const grow_kB = 8192;		// more memory of its own than this after warm-up is a leak
const grow_fds = 8;		// connections to the node come and go

// VmRSS has pages of the store's map in it, which come and go with the system's mood; RssAnon is what the program took.
function sample(pid) {
	const status = fs.readFileSync(`/proc/${pid}/status`, 'utf8');
	const kB = (name) => Number(status.match(new RegExp(`^${name}:\\s+(\\d+)`, 'm'))[1]);

	return { rss_kB: kB('VmRSS'), own_kB: kB('RssAnon'), fds: fs.readdirSync(`/proc/${pid}/fd`).length };
}

const median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1];

async function soak() {
	const random = new Random(seed);
	const world = await chain({ slots: 8, payers: 60, args: ['--transaction-block-keeper', '500'] });
	const d = await daemon(world, [world.node]);
	const samples = [];
	const begun = Date.now();
	let blocks = 0, reorgs = 0, payments = 0;

	await d.start();
	for (let next = begun; Date.now() - begun < soak_s * 1000; next += block_ms) {
		if (random.chance(0.3)) {
			const n = payments++;
			const tx = await pay(world, n % world.payers.length, payee(n % 500), 1_000 + n);

			await d.settling(intent({ id: `pi_${n}`, token: world.money.usdc, payee: payee(n % 500),
				amount: String(1_000 + n) }), tx);
		}
		await world.node.mine();
		if (++blocks % every === 0) {
			await world.node.reorg(random.between(1, 6));
			// What was dropped is gone: the payers begin again where the chain says.
			world.node.nonces.clear();
			for (const p of world.payers)
				world.node.nonces.set(p.address, Number(await world.node.rpc('eth_getTransactionCount', p.address, 'latest')));
			reorgs++;
		}
		if (blocks % 20 === 0)
			samples.push({ at: (Date.now() - begun) / 1000, ...sample(d.child.pid) });
		await sleep(Math.max(0, next + block_ms - Date.now()));
	}
	await world.node.mine(20);
	await d.reached(world.node);
	// The first fifth warms up; then the first tenth against the last.
	const warm = samples.filter((s) => s.at > soak_s / 5);
	const tenth = Math.max(1, Math.floor(warm.length / 10));
	const [first, last] = [warm.slice(0, tenth), warm.slice(-tenth)].map((part) =>
		Object.fromEntries(['rss_kB', 'own_kB', 'fds'].map((k) => [k, median(part.map((s) => s[k]))])));

	await endsWell(d);
	const figures = { soak_s: Math.round((Date.now() - begun) / 1000), blocks, reorgs, payments,
		events: d.readEvents().length, start: samples[0], warm: first, end: last };

	console.log(`note: ${JSON.stringify(figures)}`);
	ok(last.own_kB - first.own_kB <= grow_kB,
		`memory grew from ${first.own_kB} to ${last.own_kB} kB; allowed are ${grow_kB} kB more`);
	ok(last.fds - first.fds <= grow_fds, `descriptors grew from ${first.fds} to ${last.fds}`);
}

cases({ [`${soak_s} s of blocks, reorgs and payments`]: soak });
