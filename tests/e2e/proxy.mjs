// A hostile node: HTTP and WebSocket on one port, in front of an honest one.
//
//     const proxy = await Proxy.to(node, { seed: 7 });
//     proxy.plan = [{ fault: 'receipts_empty', chance: 0.3, most: 5, only: hash }];
//     proxy.url, proxy.ws     what the daemon is told
//     proxy.struck            how often each fault struck, by name
//
// A fault strikes where it applies (an empty answer that was to be empty anyway is none), with its chance (default 1), at
// most so often (default: always), and where `only` is given only on requests that mention that text.
import { once } from 'node:events';
import http from 'node:http';
import { WebSocket, WebSocketServer } from 'ws';
import { ends, Random, sleep } from './lib.mjs';

const hex = (n) => '0x' + n.toString(16);
const copy = (v) => JSON.parse(JSON.stringify(v));
const flip = (text) => text.slice(0, -1) + (text.endsWith('0') ? '1' : '0');
const error = (code, message) => ({ error: { code, message } });

const asksNumber = (q) => q.method === 'eth_getBlockByNumber' && /^0x/.test(q.params[0]);
const asksLatest = (q) => q.method === 'eth_getBlockByNumber' && q.params[0] === 'latest';
const asksFinalized = (q) => q.method === 'eth_getBlockByNumber' && q.params[0] === 'finalized';
const asksHash = (q) => q.method === 'eth_getBlockByHash';
const asksReceipts = (q) => q.method === 'eth_getBlockReceipts';
const asksReceipt = (q) => q.method === 'eth_getTransactionReceipt';
const asksLogs = (q) => q.method === 'eth_getLogs';
const asksBalance = (q) => q.method === 'eth_call' && /^0x70a08231/.test(q.params[0].data ?? q.params[0].input);
const filled = (a) => Array.isArray(a.result) && a.result.length > 0;

// The block so far below the one that the answer is of.
async function below(a, blocks, up) {
	const here = Number(a.result?.number ?? a.result?.[0]?.blockNumber);

	return here >= blocks ? up('eth_getBlockByNumber', [hex(here - blocks), false]) : undefined;
}

function tamperLog(receipts) {
	const changed = copy(receipts);
	const log = changed.flatMap((r) => r.logs).find((l) => l.data.length === 66);
	if (!log)
		return undefined;
	log.data = flip(log.data);
	return changed;
}

const burnMore = (r) => ({ ...r, cumulativeGasUsed: hex(Number(r.cumulativeGasUsed) + 1) });

// What is wrong with an answer: (question, true answer, upstream) -> another one, or nothing where it does not apply.
const wrong = {
	latest_behind: async (q, a, up) => asksLatest(q) && { result: await below(a, 1, up) },
	number_behind: async (q, a, up) => asksNumber(q) && { result: await below(a, 1, up) },
	block_null: (q) => asksHash(q) && { result: null },
	block_other: async (q, a, up) => asksHash(q) && { result: await below(a, 1, up) },
	block_tampered: (q, a) => (asksHash(q) || asksNumber(q)) && a.result &&
		{ result: { ...a.result, stateRoot: flip(a.result.stateRoot) } },
	block_without_list: (q, a) => asksHash(q) && a.result && { result: { ...a.result, transactions: undefined } },
	block_unknown: (q) => asksHash(q) && error(-32001, 'block not found'),
	receipts_empty: (q, a) => asksReceipts(q) && filled(a) && { result: [] },
	receipts_null: (q) => asksReceipts(q) && { result: null },
	receipts_short: (q, a) => asksReceipts(q) && filled(a) && { result: a.result.slice(1) },
	receipts_order: (q, a) => asksReceipts(q) && filled(a) && a.result.length > 1 && { result: copy(a.result).reverse() },
	receipts_other: async (q, a, up) => {
		const block = asksReceipts(q) && filled(a) && await below(a, 1, up);
		return block && { result: await up('eth_getBlockReceipts', [block.hash]) };
	},
	receipts_stale_hash: (q, a) => asksReceipts(q) && filled(a) &&
		{ result: copy(a.result).map((r) => ({ ...r, blockHash: flip(r.blockHash) })) },
	receipts_tampered: (q, a) => {
		const changed = asksReceipts(q) && filled(a) && tamperLog(a.result);
		return changed && { result: changed };
	},
	receipts_gas: (q, a) => asksReceipts(q) && filled(a) && { result: copy(a.result).map(burnMore) },
	receipts_without_logs: (q, a) => asksReceipts(q) && filled(a) && a.result.some((r) => r.logs.length) &&
		{ result: copy(a.result).map((r) => ({ ...r, logs: [] })) },
	receipts_missing_32601: (q) => asksReceipts(q) &&
		error(-32601, 'the method eth_getBlockReceipts does not exist/is not available'),
	receipts_missing_32602: (q) => asksReceipts(q) && error(-32602, 'unknown variant `eth_getBlockReceipts`'),
	receipts_missing_32004: (q) => asksReceipts(q) && error(-32004, 'Method eth_getBlockReceipts is not supported'),
	logs_empty: (q, a) => asksLogs(q) && filled(a) && { result: [] },
	logs_other: (q, a) => asksLogs(q) && filled(a) &&
		{ result: copy(a.result).map((l) => ({ ...l, blockHash: flip(l.blockHash) })) },
	logs_removed: (q, a) => asksLogs(q) && filled(a) && { result: copy(a.result).map((l) => ({ ...l, removed: true })) },
	receipt_null: (q, a) => asksReceipt(q) && a.result && { result: null },
	receipt_gas: (q, a) => asksReceipt(q) && a.result && { result: burnMore(a.result) },
	receipt_tampered: (q, a) => {
		const changed = asksReceipt(q) && a.result && tamperLog([a.result]);
		return changed && { result: changed[0] };
	},
	balance_wrong: (q, a) => asksBalance(q) && a.result && { result: flip(a.result) },
	balance_no_code: (q) => asksBalance(q) && { result: '0x' },
	balance_gone: (q) => asksBalance(q) && error(-32000, 'missing trie node 00ab (path ) state 0x00 is not available'),
	balance_unknown: (q) => asksBalance(q) && error(-32001, 'header for hash not found'),
	finalized_back: async (q, a, up) => asksFinalized(q) && a.result && { result: await below(a, 5, up) },
	finalized_unknown: (q) => asksFinalized(q) && error(-39001, 'Unknown block'),
	finalized_null: (q) => asksFinalized(q) && { result: null },
	finalized_is_latest: async (q, a, up) => asksFinalized(q) &&
		{ result: await up('eth_getBlockByNumber', ['latest', false]) },
	other_chain: (q) => q.method === 'eth_chainId' && { result: '0x539' },
	other_genesis: async (q, a, up) => q.method === 'eth_getBlockByNumber' && q.params[0] === '0x0' &&
		{ result: await up('eth_getBlockByNumber', ['0x1', false]) },
	other_decimals: (q) => q.method === 'eth_call' && /^0x313ce567/.test(q.params[0].data ?? q.params[0].input) &&
		{ result: '0x' + '12'.padStart(64, '0') },
	limit_exceeded: () => error(-32005, 'daily request count exceeded, request rate limited'),
	internal_error: () => error(-32603, 'internal error'),
	error_null_id: () => ({ id: null, ...error(-32600, 'invalid request') }),
	id_other: (q, a) => ({ ...a, id: 987654321 }),
	id_text: (q, a) => ({ ...a, id: String(q.id) }),
	late: async (q, a) => (await sleep(400), a),
};

// What is wrong with the answer's way: (response, text) -> sent.
const ways = {
	http_429: (res) => res.writeHead(429, { 'retry-after': '1' }).end('slow down'),
	http_502: (res) => res.writeHead(502, { 'content-type': 'text/html' }).end('<html><h1>502 Bad Gateway</h1></html>'),
	http_401: (res) => res.writeHead(401).end('{"error":"unauthorized"}'),
	http_redirect: (res) => res.writeHead(302, { location: 'http://127.0.0.1:9/' }).end(),
	http_empty: (res) => res.writeHead(200).end(),
	http_no_json: (res) => res.writeHead(200).end('{"jsonrpc":"2.0","id":'),
	http_half: (res, text) => {
		res.writeHead(200, { 'content-length': text.length });
		res.write(text.slice(0, text.length / 2), () => res.destroy());
	},
	http_hangup: (res) => res.destroy(),
	http_silence: () => {},
	http_huge: (res) => {
		const part = Buffer.alloc(1 << 20, 0x20);
		res.writeHead(200);
		let left = 40;
		const more = () => {
			while (!res.destroyed && left > 0)
				if (left--, !res.write(part))
					return;
			res.end();
		};
		res.on('drain', more);
		more();
	},
};

// What is wrong with a whole batch of answers.
const batches = {
	batch_error: () => error(-32003, 'response too large'),
	batch_order: (list) => list.length > 1 && [...list].reverse(),
	batch_missing: (list) => list.length > 1 && list.slice(1),
	batch_extra: (list) => [{ jsonrpc: '2.0', id: 123456789, result: null }, ...list],
	batch_twice: (list) => [...list, list[0]],
};

// What is wrong with a head's notice: (proxy, client, text) -> sent otherwise.
const notices = {
	heads_only_tips: (p, c, text) => p.holdTip(c, text),
	head_repeated: (p, c, text) => { c.tell(text); c.tell(text); },
	head_late: (p, c, text) => setTimeout(() => c.tell(text), 300),
	head_reordered: (p, c, text) => {
		if (c.held === undefined) {
			c.held = text;
			return;
		}
		c.tell(text);
		c.tell(c.held);
		c.held = undefined;
	},
	head_dropped: () => {},
	head_without_field: (p, c, text) => c.tell(text.replace(/"requestsHash":"0x[0-9a-f]*",?/, '')),
	head_tampered: (p, c, text) => c.tell(text.replace(/("stateRoot":"0x)../, '$1ee')),
	head_no_json: (p, c, text) => c.tell(text.slice(0, text.length / 2)),
	head_huge: (p, c) => c.tell('{"pad":"' + 'a'.repeat(20 << 20) + '"}'),
	head_in_frames: (p, c, text) => {
		for (let at = 0; at < text.length; at += 100)
			c.socket.send(text.slice(at, at + 100), { fin: at + 100 >= text.length });
	},
	ws_cut: (p, c) => c.socket.terminate(),
	ws_closed: (p, c) => c.socket.close(1013, 'try again later'),
	ws_half: (p, c, text) => c.cutHalf(text),
};

// What is wrong with the opening of a socket.
const upgrades = {
	ws_401: (socket) => socket.end('HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n'),
	ws_429: (socket) => socket.end('HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n'),
	ws_redirect: (socket) => socket.end('HTTP/1.1 302 Found\r\nLocation: ws://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n'),
	ws_silence: () => {},
};

// What is wrong with the answer to eth_subscribe, and with a socket that was good.
const others = ['subscribe_refused', 'subscribe_null', 'subscribe_silence', 'subscribe_overtaken', 'ws_stalled',
	'pong_withheld'];

export const faults = [...new Set([wrong, ways, batches, notices, upgrades].flatMap(Object.keys).concat(others))];

// One WebSocket of the daemon's and its twin to the honest node.
class Client {
	constructor(proxy, socket) {
		this.proxy = proxy;
		this.socket = socket;
		this.waiting = [];
		this.twin = new WebSocket(proxy.upstream.replace(/^http/, 'ws'), { perMessageDeflate: false, maxPayload: 0 });
		this.twin.on('open', () => this.waiting.splice(0).forEach((t) => this.twin.send(t)));
		this.twin.on('message', (data) => this.fromNode(String(data)));
		this.twin.on('close', () => socket.close());
		this.twin.on('error', () => socket.terminate());
		socket.on('message', (data) => this.fromDaemon(String(data)));
		socket.on('close', () => this.twin.terminate());
		socket.on('error', () => this.twin.terminate());
		socket.on('ping', (data) => this.stalled || proxy.strikes('pong_withheld', '') || socket.pong(data));
		this.stalled = proxy.strikes('ws_stalled', '');
	}

	tell(text) {
		if (this.socket.readyState === WebSocket.OPEN && !this.stalled)
			this.socket.send(text);
	}

	toNode(text) {
		if (this.twin.readyState === WebSocket.OPEN)
			this.twin.send(text);
		else
			this.waiting.push(text);
	}

	// Half a frame, then the end.
	cutHalf(text) {
		const raw = this.socket._socket;
		const head = Buffer.from([0x81, 126, text.length >> 8, text.length & 255]);
		raw.write(Buffer.concat([head, Buffer.from(text.slice(0, text.length / 2))]), () => raw.destroy());
	}

	fromDaemon(text) {
		const q = JSON.parse(text);
		if (q.method !== 'eth_subscribe') {
			this.toNode(text);
			return;
		}
		this.subscribing = q.id;
		if (this.proxy.strikes('subscribe_refused', text))
			this.tell(JSON.stringify({ jsonrpc: '2.0', id: q.id, ...error(-32601, 'notifications not supported') }));
		else if (this.proxy.strikes('subscribe_null', text))
			this.tell(JSON.stringify({ jsonrpc: '2.0', id: q.id, result: null }));
		else if (!this.proxy.strikes('subscribe_silence', text))
			this.toNode(text);
	}

	fromNode(text) {
		const is = text.includes('"eth_subscription"');
		if (!is && this.proxy.strikes('subscribe_overtaken', text)) {
			this.reply = text;
			setTimeout(() => this.releaseReply(), 1500);
			return;
		}
		if (!is) {
			this.tell(text);
			return;
		}
		this.proxy.heads++;
		this.tellHead(text);
		this.releaseReply();
	}

	releaseReply() {
		if (this.reply)
			this.tell(this.reply);
		this.reply = undefined;
	}

	tellHead(text) {
		for (const [name, send] of Object.entries(notices)) {
			if (this.proxy.strikes(name, text)) {
				send(this.proxy, this, text);
				return;
			}
		}
		this.tell(text);
	}
}

export class Proxy {
	name = 'the proxy';
	struck = {};
	asked = {};			// how often each method
	heads = 0;
	batches = 0;
	twist = undefined;		// (question, answer, upstream) => another answer: a fault of the case's own
	seen = () => {};		// told of each question
	clients = new Set();
	connections = new Set();

	// @options: seed, plan, port
	static async to(node, options = {}) {
		const proxy = new Proxy();

		proxy.upstream = node.url;
		proxy.random = new Random(options.seed ?? 1);
		proxy.plan = options.plan ?? [];
		proxy.agent = new http.Agent({ keepAlive: true, maxSockets: 32 });
		proxy.sockets = new WebSocketServer({ noServer: true, autoPong: false, perMessageDeflate: false });
		await proxy.listen(options.port ?? 0);
		return ends(proxy);
	}

	async listen(port) {
		this.server = http.createServer((req, res) => this.onPost(req, res));
		this.server.keepAliveTimeout = 60000;
		this.server.on('upgrade', (req, socket, head) => this.onUpgrade(req, socket, head));
		this.server.on('clientError', (e, socket) => socket.destroy());
		this.server.on('connection', (s) => {
			this.connections.add(s);
			s.on('close', () => this.connections.delete(s));
		});
		this.server.listen(port, '127.0.0.1');
		await once(this.server, 'listening');
		this.port = this.server.address().port;
		this.url = `http://127.0.0.1:${this.port}`;
		this.ws = `ws://127.0.0.1:${this.port}`;
	}

	// Dead, as far as anyone can tell.
	die() {
		const closed = new Promise((done) => this.server.close(done));

		for (const s of this.connections)
			s.destroy();
		return closed;
	}

	live() {
		return this.listen(this.port);
	}

	async end() {
		await this.die();
		this.agent.destroy();
	}

	// Another node answers from now on, under the same name.
	turnTo(node) {
		this.upstream = node.url;
		this.cut();
	}

	cut() {
		for (const c of this.clients)
			c.socket.terminate();
	}

	// Whether the fault strikes now; if so it is counted.
	strikes(name, text) {
		const entry = this.plan.find((e) => e.fault === name && !(e.only && !text.includes(e.only)));
		if (!entry || (entry.most ?? Infinity) <= (entry.done ?? 0))
			return false;
		if (!this.random.chance(entry.chance ?? 1))
			return false;
		entry.done = (entry.done ?? 0) + 1;
		this.struck[name] = (this.struck[name] ?? 0) + 1;
		return true;
	}

	unstrike(name) {
		const entry = this.plan.find((e) => e.fault === name && e.done);
		if (entry)
			entry.done--;
		this.struck[name]--;
	}

	// Only the last head of those that come close together is told, as geth does it.
	holdTip(client, text) {
		client.tip = text;
		if (client.tipTimer)
			return;
		this.struck.heads_only_tips--;		// what is told in the end is no strike
		client.tipTimer = setTimeout(() => {
			client.tipTimer = undefined;
			client.tell(client.tip);
		}, 25);
	}

	post(text) {
		return new Promise((done, failed) => {
			const req = http.request(this.upstream, { method: 'POST', agent: this.agent, headers: {
				'content-type': 'application/json', 'content-length': Buffer.byteLength(text) } }, (res) => {
				const parts = [];
				res.on('data', (p) => parts.push(p));
				res.on('end', () => done(Buffer.concat(parts).toString()));
				res.on('error', failed);
			});
			req.on('error', failed);
			req.end(text);
		});
	}

	async up(method, params) {
		return JSON.parse(await this.post(JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }))).result;
	}

	async answerOne(q, a) {
		const text = JSON.stringify(q);
		this.asked[q.method] = (this.asked[q.method] ?? 0) + 1;
		this.seen(q, a);
		const own = await this.twist?.(q, a, (m, p) => this.up(m, p));
		if (own)
			return { jsonrpc: '2.0', id: q.id, ...own };
		for (const entry of this.plan) {
			if (!wrong[entry.fault] || !this.strikes(entry.fault, text))
				continue;
			const changed = await wrong[entry.fault](q, a, (m, p) => this.up(m, p));
			if (changed && ('error' in changed || changed.result !== undefined))
				return { jsonrpc: '2.0', id: q.id, ...changed };
			this.unstrike(entry.fault);
		}
		return a;
	}

	answerBatch(list) {
		for (const [name, change] of Object.entries(batches)) {
			if (!this.strikes(name, ''))
				continue;
			const changed = change(list);
			if (changed)
				return changed;
			this.unstrike(name);
		}
		return list;
	}

	async answer(text) {
		const q = JSON.parse(text);
		const a = JSON.parse(await this.post(text));
		if (!Array.isArray(q))
			return this.answerOne(q, a);
		this.batches++;
		if (!Array.isArray(a))
			return a;
		const byId = new Map(a.map((x) => [x.id, x]));
		return this.answerBatch(await Promise.all(q.map((x) => this.answerOne(x, byId.get(x.id)))));
	}

	async onPost(req, res) {
		const parts = [];
		for await (const part of req)
			parts.push(part);
		const question = Buffer.concat(parts).toString();
		let text;
		try {
			text = this.plan.length || this.twist ? JSON.stringify(await this.answer(question)) : await this.passOn(question);
		} catch {
			res.destroy();
			return;
		}
		for (const [name, send] of Object.entries(ways)) {
			if (this.strikes(name, question)) {
				send(res, text);
				return;
			}
		}
		res.writeHead(200, { 'content-type': 'application/json' }).end(text);
	}

	async passOn(question) {
		const q = JSON.parse(question);
		this.batches += Array.isArray(q);
		for (const x of Array.isArray(q) ? q : [q]) {
			this.asked[x.method] = (this.asked[x.method] ?? 0) + 1;
			this.seen(x);
		}
		return this.post(question);
	}

	onUpgrade(req, socket, head) {
		socket.on('error', () => {});
		for (const [name, refuse] of Object.entries(upgrades)) {
			if (this.strikes(name, req.url)) {
				refuse(socket);
				return;
			}
		}
		this.sockets.handleUpgrade(req, socket, head, (s) => {
			const client = new Client(this, s);
			this.clients.add(client);
			s.on('close', () => this.clients.delete(client));
		});
	}
}
