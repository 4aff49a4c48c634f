// The program: as a daemon, over its socket, and as a command.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { ends, folder, ok, tidemark, until } from './base.mjs';
import { readEvents } from './events.mjs';

// The chain of @node as the daemon's configuration has it, in a pace for tests; @more overrides.
export async function chainConfig(node, money, more = {}) {
	return {
		chain_id: node.chain_id,
		genesis: (await node.block(0)).hash,
		endpoints: [{ http: node.url, ws: node.ws }],
		tokens: [
			{ symbol: 'USDC', address: money.usdc, decimals: 6 },
			{ symbol: 'USDT', address: money.usdt, decimals: 6 },
		],
		finality: { tag: 'finalized' },
		poll_ms: 250, retry_ms: 100, head_age_s: 86400, tag_settle_ms: 0, tag_depth_blocks: 1,
		...more,
	};
}

export class Daemon {
	name = 'the daemon';
	lines = [];
	starts = 0;
	kills = 0;

	// @options: config (an object, written to a file), args
	constructor(options = {}) {
		this.dir = options.dir ?? folder();
		this.store = path.join(this.dir, 'store');
		this.events = path.join(this.dir, 'events.ndjson');
		this.socket = path.join(this.store, 'tidemark.sock');
		this.config = path.join(this.dir, 'config.json');
		this.args = options.args ?? ['--config', this.config];
		if (options.config)
			this.configure(options.config);
		ends(this);
	}

	// @config: the chains, or the whole
	configure(config) {
		const whole = Array.isArray(config) ? { chains: config } : config;

		fs.writeFileSync(this.config, JSON.stringify({ store: this.store, events: this.events, ...whole }, null, 2));
	}

	spawn() {
		const child = spawn(tidemark, ['run', ...this.args], { stdio: ['ignore', 'pipe', 'pipe'], cwd: this.dir });
		const lines = (stream, take) => {
			let rest = '';

			stream.setEncoding('utf8').on('data', (text) => {
				const parts = (rest + text).split('\n');

				rest = parts.pop();
				parts.forEach(take);
			});
		};

		this.child = child;
		this.said = [];
		this.out = [];
		this.status = null;
		lines(child.stderr, (line) => {
			this.lines.push(line);
			this.said.push(line);
		});
		lines(child.stdout, (line) => this.out.push(line));
		this.gone = new Promise((done) => child.on('close', (code, signal) => done((this.status = { code, signal }))));
		this.starts++;
	}

	// Until it serves its socket; throws if it ends before.
	async start() {
		this.spawn();
		await until('the daemon to serve', () => {
			ok(!this.status, `the daemon ended with ${JSON.stringify(this.status)}: ${this.said.slice(-3).join(' | ')}`);
			return this.said.some((line) => line.startsWith('tidemark: serving '));
		});
	}

	// What it complained of, as the command line does: one line for why it does not run.
	get complaints() {
		return this.said.filter((line) => line.startsWith('tidemark: ') && !line.startsWith('tidemark: serving '));
	}

	async kill9() {
		this.child.kill('SIGKILL');
		this.kills++;
		await this.gone;
	}

	// By SIGTERM; how it ended, and after how many ms.
	async stop() {
		const from = performance.now();

		this.child.kill('SIGTERM');
		return { ...(await this.gone), ms: performance.now() - from };
	}

	async end() {
		if (this.child && !this.status) {
			this.child.kill('SIGKILL');
			await this.gone;
		}
	}

	// One request: { status, body }.
	ask(method, target, body) {
		return new Promise((done, failed) => {
			const request = http.request({ socketPath: this.socket, method, path: target, agent: false, timeout: 20000,
				headers: body ? { 'content-type': 'application/json' } : {} }, (answer) => {
				let text = '';

				answer.setEncoding('utf8').on('data', (part) => (text += part)).on('error', failed);
				answer.on('end', () => {
					try {
						done({ status: answer.statusCode, body: JSON.parse(text) });
					} catch {
						failed(new Error(`${method} ${target}: ${answer.statusCode}, no JSON: ${text.slice(0, 200)}`));
					}
				});
			});

			request.on('timeout', () => request.destroy(new Error(`${method} ${target}: no answer`)));
			request.on('error', failed);
			request.end(body ? JSON.stringify(body) : undefined);
		});
	}

	// Asked again while nobody serves: for requests that may be said twice.
	async sure(method, target, body) {
		const lost = ['ECONNREFUSED', 'ECONNRESET', 'ENOENT', 'EPIPE'];

		return until(`an answer to ${method} ${target}`, () => this.ask(method, target, body).catch((error) => {
			if (!lost.includes(error.code))
				throw error;
		}));
	}

	async want(status, method, target, body) {
		const answer = await this.sure(method, target, body);

		ok([status].flat().includes(answer.status), `${method} ${target}: ${answer.status} ${JSON.stringify(answer.body)}`);
		return answer.body;
	}

	create(intent) {
		return this.want([200, 201], 'POST', '/v1/intents', intent);
	}

	move(id, to, actor, more = {}) {
		return this.want(200, 'POST', `/v1/intents/${encodeURIComponent(id)}/moves`, { to, actor, ...more });
	}

	attempt(id, tx) {
		return this.want(200, 'POST', `/v1/intents/${encodeURIComponent(id)}/attempts`,
			{ tx_hash: tx.hash, sender: tx.from, nonce: String(tx.nonce) });
	}

	// Made, authorized, and with the relayer, who names its transactions.
	async settling(intent, ...txs) {
		await this.create(intent);
		await this.move(intent.id, 'authorized', 'api');
		await this.move(intent.id, 'settling', 'relayer');
		for (const tx of txs)
			await this.attempt(intent.id, tx);
	}

	intent(id) {
		return this.want(200, 'GET', `/v1/intents/${encodeURIComponent(id)}`);
	}

	async chain(id = 31337) {
		return (await this.want(200, 'GET', `/v1/chains/${id}`)).chain;
	}

	async reached(node, deadline_ms) {
		await until('the daemon to reach the head', async () => {
			const head = await node.block();
			const { tip } = await this.chain(node.chain_id);

			return tip?.hash === head.hash;
		}, deadline_ms);
	}

	async state(id, state, deadline_ms) {
		return until(`${id} to be ${state}`, async () => {
			const { intent, ...rest } = await this.intent(id);

			return intent.state === state && { intent, ...rest };
		}, deadline_ms);
	}

	readEvents() {
		return readEvents(this.events);
	}
}

let made = 0;

export function intent(fields) {
	const id = fields.id ?? `pi_${++made}`;

	return { id, merchant_id: 'm_1', idempotency_key: `k_${id}`, chain_id: 31337, payer: null, watch: 'tx', ...fields };
}

// A command of the same program: { code, out, err }.
export async function command(...args) {
	const child = spawn(tidemark, args, { stdio: ['ignore', 'pipe', 'pipe'] });
	let out = '', err = '';

	child.stdout.setEncoding('utf8').on('data', (text) => (out += text));
	child.stderr.setEncoding('utf8').on('data', (text) => (err += text));
	const [code] = await once(child, 'close');

	return { code, out, err };
}
