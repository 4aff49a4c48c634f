// What every end-to-end case needs: waiting, comparing, numbers by a seed, and cases that clean up.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
export const tidemark = path.resolve(process.env.TIDEMARK ?? path.join(root, 'build/tidemark'));

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// A condition that must come true; the deadline only ends a hopeless wait.
export async function until(what, condition, deadline_ms = 30000) {
	const end = Date.now() + deadline_ms;

	for (;;) {
		const found = await condition();

		if (found)
			return found;
		if (Date.now() > end)
			throw new Error(`waited ${deadline_ms} ms for: ${what}`);
		await sleep(20);
	}
}

export function equal(got, want, what) {
	const [a, b] = [got, want].map((v) => JSON.stringify(v));

	if (a !== b)
		throw new Error(`${what}: got ${a}, want ${b}`);
}

export function ok(truth, what) {
	if (!truth)
		throw new Error(what);
}

// Numbers that look random and are the same for the same seed.
export class Random {
	constructor(seed) {
		this.state = seed >>> 0;
	}

	next() {
		let x = (this.state = (this.state + 0x6d2b79f5) >>> 0);

		x = Math.imul(x ^ (x >>> 15), x | 1);
		x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
		return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32;
	}

	below(n) {
		return Math.floor(this.next() * n);
	}

	between(low, high) {
		return low + this.below(high - low + 1);
	}

	chance(p) {
		return this.next() < p;
	}

	pick(list) {
		return list[this.below(list.length)];
	}

	shuffle(list) {
		for (let i = list.length - 1; i > 0; i--) {
			const j = this.below(i + 1);

			[list[i], list[j]] = [list[j], list[i]];
		}
		return list;
	}
}

// What a case started or made; gone when it is over, whether it passed or not.
const started = new Set();

// KEEP=1 leaves it.
export function folder() {
	const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'tidemark-e2e-'));

	if (process.env.KEEP)
		console.log(`kept: ${dir}`);
	else
		started.add({ end() { this.remove(); }, remove: () => fs.rmSync(dir, { recursive: true, force: true }) });
	return dir;
}

export function ends(thing) {
	started.add(thing);
	return thing;
}

async function endAll() {
	for (const thing of [...started].reverse())
		await thing.end();
	started.clear();
}

process.on('exit', () => {
	for (const thing of started)
		thing.child?.kill('SIGKILL');
	for (const thing of started)
		thing.remove?.();
});
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'])
	process.on(signal, () => process.exit(1));

function tellLast({ name, lines }) {
	const told = (lines ?? []).filter((line) => !line.includes(' asked GET ')).slice(-30);

	if (told.length)
		console.log(`the last of what ${name} said:\n${told.join('\n')}`);
}

// The cases of a file, one after another, told in the words that tests/run.sh counts.  ONLY=TEXT takes those so named.
export async function cases(list) {
	let passed = 0;
	const failed = [];
	const only = process.env.ONLY ?? '';

	for (const [name, run] of Object.entries(list).filter(([n]) => n.includes(only))) {
		console.log(`[ RUN      ] ${name}`);
		try {
			await run();
			passed++;
			console.log(`[       OK ] ${name}`);
		} catch (error) {
			failed.push(name);
			console.log(error.stack);
			started.forEach(tellLast);
			console.log(`[  FAILED  ] ${name}`);
		}
		await endAll();
	}
	console.log(`[  PASSED  ] ${passed} test(s).`);
	if (failed.length)
		console.log(`[  FAILED  ] ${failed.length} test(s): ${failed.join(', ')}`);
	process.exit(failed.length ? 1 : 0);
}
