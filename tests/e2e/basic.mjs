// The daemon as an operator meets it: signals, a second one, its event log over kills, health, a node away, commands.
import crypto from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import {
	call, cases, chainConfig, checkEvents, command, Daemon, ends, equal, folder, intent, Node, ok, sleep, until, Wire,
} from './lib.mjs';

const slots = 2;
const payee = '0x' + '5a'.repeat(20);
const transfer = (to, value) => call('TestUsdc', 'transfer', [to, BigInt(value)]);

async function begin(more = {}) {
	const node = await Node.start({ slots });
	const payer = await node.funded('payer');
	const money = await node.money([payer]);
	const wire = await Wire.to(node.port);
	const chain = await chainConfig(node, money, { endpoints: [{ http: wire.url, ws: wire.ws }], ...more });
	const daemon = new Daemon({ config: [chain] });
	const ask = (fields) => intent({ token: money.usdc, payee, amount: '5000000', ...fields });

	await daemon.start();
	return { node, payer, money, wire, chain, daemon, ask };
}

// A payment of the intent, sent and mined; not final yet.
async function pay({ node, payer, money, daemon }, i) {
	const tx = await node.sign(payer, money.usdc, transfer(i.payee, i.amount));

	await daemon.settling(i, tx);
	await node.send(tx);
	await node.mine();
	return tx;
}

// The file of events is whole, and the same as what the store has.
async function sameEvents(daemon) {
	const stored = await command('events', daemon.store);
	const file = fs.readFileSync(daemon.events, 'utf8');

	equal(stored.code, 0, 'tidemark events');
	ok(stored.out === file, 'the file of events is not what the store has');
	return checkEvents(file.trim().split('\n').map((line) => JSON.parse(line)));
}

// What was answered is there, however soon the end comes.
async function sigterm() {
	const { daemon, ask } = await begin();
	const made = [];
	const wishes = [...Array(400).keys()].map(async (n) => {
		const i = ask({ id: `pi_term_${n}` });
		const answer = await daemon.ask('POST', '/v1/intents', i).catch(() => null);

		if (answer?.status === 201)
			made.push(i.id);
	});

	await until('some intents', () => made.length > 20);
	const { code, signal, ms } = await daemon.stop();

	await Promise.all(wishes);
	equal([code, signal], [0, null], 'exit');
	ok(!fs.existsSync(daemon.socket), 'the socket is still there');
	equal((await command('check', daemon.store)).code, 0, 'tidemark check');
	const told = await sameEvents(daemon);

	for (const id of made)
		ok(told.has(id), `${id} was answered and is not there`);
	console.log(`note: SIGTERM among ${made.length} new intents ended the daemon within ${Math.ceil(ms)} ms`);
	ok(ms < 5000, 'it took longer than 5 s');
}

async function sigint() {
	const { daemon } = await begin();

	daemon.child.kill('SIGINT');
	equal((await daemon.gone).code, 0, 'exit code');
}

async function second() {
	const { daemon } = await begin();
	const other = new Daemon({ dir: daemon.dir });

	other.spawn();
	equal((await other.gone).code, 1, 'exit code of the second');
	equal(other.complaints.length, 1, `complaints; ${other.said.join(' | ')}`);
	ok(other.complaints[0].includes(String(daemon.child.pid)), `"${other.complaints[0]}" does not name the first one's pid`);
	equal((await daemon.ask('GET', '/healthz')).status, 200, 'the first');
}

async function resumed() {
	const w = await begin();
	const { node, daemon, ask } = w;
	const ids = [];

	for (let n = 0; n < 8; n++) {
		const i = ask({ payee: '0x' + String(n).padStart(40, 'a') });
		const paying = pay(w, i);

		ids.push(i.id);
		await sleep(n * 7);
		await daemon.kill9();
		/* A kill of the machine, rather than of the process, may leave part of a line, or less than the store has. */
		if (n % 2 && fs.existsSync(daemon.events))
			fs.truncateSync(daemon.events, Math.max(0, fs.statSync(daemon.events).size - n * 101));
		await daemon.start();
		await paying;
	}
	await node.mine(2 * slots);
	for (const id of ids)
		await daemon.state(id, 'settled');
	equal((await daemon.stop()).code, 0, 'exit code');
	const told = await sameEvents(daemon);

	for (const id of ids)
		equal(told.get(id).settled, 1, `${id}: settled`);
}

async function toStdout() {
	const w = await begin();
	const { node, daemon, chain, ask } = w;

	await daemon.stop();
	daemon.configure({ chains: [chain], events: '-' });
	await daemon.start();
	const i = ask();

	await pay(w, i);
	await node.mine(2 * slots);
	await daemon.state(i.id, 'settled');
	await daemon.stop();
	const stored = await command('events', daemon.store);

	equal(daemon.out.join('\n') + '\n', stored.out, 'events on stdout');
	ok(checkEvents(daemon.out.map((line) => JSON.parse(line))).get(i.id).settled === 1, 'settled');
}

// Who read the events went away: the daemon ends, and tells the rest to the next reader.
async function brokenPipe() {
	const { daemon, chain, ask } = await begin();

	await daemon.stop();
	daemon.configure({ chains: [chain], events: '-' });
	await daemon.start();
	await daemon.create(ask({ id: 'pi_first' }));
	await until('the first event', () => daemon.out.length === 1);
	daemon.child.stdout.destroy();
	await daemon.create(ask({ id: 'pi_second' }));
	equal((await daemon.gone).code, 1, 'exit code');
	equal(daemon.complaints.length, 1, `complaints; ${daemon.said.join(' | ')}`);
	const [first] = daemon.out;

	await daemon.start();
	await until('the second event', () => daemon.out.some((line) => line.includes('pi_second')));
	await daemon.stop();
	/* The first may be told again, with the same bytes, since the cursor moves in the next commit. */
	checkEvents([first, ...daemon.out.filter((line) => line !== first)].map((line) => JSON.parse(line)));
}

// The same by options alone, on another store.
async function options() {
	const { node, money, daemon, ask } = await begin();
	const other = new Daemon({});

	await daemon.stop();
	other.args = ['--store', other.store, '--http', node.url, '--ws', node.ws, '--events', other.events,
		'--token', `USDC:${money.usdc}:6`, '--token', `USDT:${money.usdt}:6`, '--listen', '127.0.0.1:0'];
	await other.start();
	await other.create(ask());
	await other.reached(node);
	await other.stop();
	await sameEvents(other);
}

async function health() {
	const { node, wire, daemon } = await begin({ stale_s: 5 });
	const healthy = () => daemon.ask('GET', '/healthz');

	await daemon.reached(node);
	await until('to be ready', async () => (await daemon.ask('GET', '/readyz')).status === 200);
	equal(await healthy(), { status: 200, body: { status: 'ok' } }, '/healthz');
	await wire.down();
	const bad = await until('the loss of the node to be told', async () => {
		const answer = await healthy();

		return answer.status === 503 && answer.body;
	});

	equal(bad.status, 'trouble', '/healthz');
	ok(bad.reasons[0].startsWith('chain 31337: '), `the reason does not name the chain: ${bad.reasons[0]}`);
	await wire.up();
	await until('health to come back', async () => (await healthy()).status === 200);
}

// While the node is away the daemon starts, serves and takes wishes; when it is back, all is made up for.
async function away() {
	const w = await begin();
	const { node, wire, daemon, ask, payer, money } = w;
	const before = ask(), during = ask({ payee: '0x' + '6b'.repeat(20) });
	const tx = await pay(w, before);

	await daemon.state(before.id, 'confirming');
	await daemon.stop();
	await wire.down();
	const later = await node.sign(payer, money.usdc, transfer(during.payee, during.amount));

	await node.send(later);
	await node.mine(30);
	await daemon.start();
	await daemon.settling(during, later);
	await sleep(500);
	equal((await daemon.intent(before.id)).intent.state, 'confirming', 'while the node is away');
	equal((await daemon.ask('GET', '/readyz')).status, 503, '/readyz while the node is away');
	await wire.up();
	equal((await daemon.state(before.id, 'settled')).intent.tx_hash, tx.hash, 'transaction');
	equal((await daemon.state(during.id, 'settled')).intent.tx_hash, later.hash, 'transaction');
	await daemon.stop();
	await sameEvents(daemon);
}

// Another branch of which the WebSocket, dead without a word, says nothing: it is found by asking.
async function silent() {
	const w = await begin();
	const { node, daemon, chain, ask } = w;
	const quiet = await Wire.to(node.port);
	const i = ask();

	await daemon.stop();
	daemon.configure([{ ...chain, endpoints: [{ http: node.url, ws: quiet.ws }] }]);
	await daemon.start();
	const tx = await pay(w, i);

	await daemon.state(i.id, 'confirming');
	quiet.hush();
	await node.rollback(1);
	await node.mine();
	await daemon.state(i.id, 'settling');
	await node.send(tx);
	await node.mine();
	await daemon.state(i.id, 'confirming');
	await node.mine(2 * slots);
	await daemon.state(i.id, 'settled');
	await daemon.stop();
	await sameEvents(daemon);
}

// The commands, asking the daemon or, without one, the store.
async function commands(serving) {
	const { node, payer, money, daemon } = await begin();
	const where = ['--store', daemon.store, '--config', daemon.config];
	const run = async (...words) => {
		const { code, out, err } = await command(...words, ...where);

		equal([code, err], [0, ''], `tidemark ${words.join(' ')}`);
		return out;
	};
	const json = async (...words) => JSON.parse(await run(...words, '--json'));

	await daemon.reached(node);
	/* Its socket stays behind, and nobody listens on it. */
	if (!serving)
		await daemon.kill9();
	await run('intent', 'create', '--chain', '31337', '--token', 'USDC', '--payee', payee, '--amount', '5000000',
		'--id', 'pi_cli');
	await run('intent', 'move', 'pi_cli', 'authorized', '--actor', 'api');
	await run('intent', 'move', 'pi_cli', 'settling', '--actor', 'relayer');
	const tx = await node.sign(payer, money.usdc, transfer(payee, 5000000));

	await run('intent', 'attempt', 'pi_cli', tx.hash, '--sender', tx.from, '--nonce', String(tx.nonce));
	const shown = await json('intent', 'show', 'pi_cli');

	equal([shown.intent.state, shown.intent.version, shown.attempts[0].tx_hash], ['settling', 3, tx.hash], 'intent show');
	ok((await run('intent', 'show', 'pi_cli')).includes(tx.hash), 'intent show does not name the attempt');
	ok((await run('intent', 'list')).includes('pi_cli'), 'intent list');
	equal((await json('intent', 'list', '--state', 'settling')).intents.map((i) => i.id), ['pi_cli'], 'intent list --state');
	equal((await json('status')).intents.settling, 1, 'status');
	ok((await run('status')).includes('settling'), 'status');
	const { chains } = await json('chain', 'status');

	equal([chains[0].chain_id, chains[0].tip.hash], [31337, (await node.block()).hash], 'chain status');
	await run('chain', 'status');
	const settle = ['intent', 'move', 'pi_cli', 'settled', '--tx', tx.hash, ...where];
	const refused = await command(...settle, '--actor', 'operator');

	equal([refused.code, refused.out, refused.err.trim().split('\n').length], [1, '', 1], 'an illegal move');
	ok((await command(...settle, '--actor', 'listener')).code > 0, 'a move by the listener');
	equal((await command('intent', 'show', 'pi_other', ...where)).code, 1, 'an unknown intent');
	equal((await command('intent', 'dance')).code, 2, 'an unknown command');
	if (!serving)
		await daemon.start();
	await node.send(tx);
	await node.mine(2 * slots + 1);
	await daemon.state('pi_cli', 'settled');
	await daemon.stop();
	await sameEvents(daemon);
}

async function badConfig() {
	const { daemon, chain } = await begin();
	const refuses = async (config, ...words) => {
		const bad = new Daemon({ dir: folder(), config });

		bad.spawn();
		equal((await bad.gone).code, 1, 'exit code');
		equal(bad.complaints.length, 1, `complaints; ${bad.said.join(' | ')}`);
		ok(!bad.said.some((line) => line.includes('secret')), `a key is shown: ${bad.said.join(' | ')}`);
		for (const word of words)
			ok(bad.complaints[0].includes(word), `"${bad.complaints[0]}" does not say ${word}`);
	};

	await daemon.stop();
	const genesis = '0x' + '11'.repeat(32);

	await refuses([{ ...chain, tokens: [{ ...chain.tokens[0], address: '0xa0' }] }], 'chains[0].tokens[0].address');
	await refuses([{ ...chain, colour: 'red' }], 'chains[0]', 'colour');
	const odd = { http: 'ftp://user:secret@host/key', ws: chain.endpoints[0].ws };

	await refuses([{ ...chain, endpoints: [odd] }], 'endpoints[0].http');
	await refuses([{ ...chain, genesis }], chain.genesis.slice(2, 10));
	await refuses([{ ...chain, chain_id: 5 }], '31337');
	await refuses({ chains: [chain], events: '/nowhere/events' }, '/nowhere/events');
	for (const half of [['--http', chain.endpoints[0].http], ['--ws', chain.endpoints[0].ws]]) {
		const bad = new Daemon({ args: half });

		bad.spawn();
		equal((await bad.gone).code, 2, `exit code with ${half[0]} alone`);
		equal(bad.complaints.length, 1, `complaints; ${bad.said.join(' | ')}`);
	}
}

// An endpoint that says the path again: as no JSON, as an error, as the node's answers but for one method; on its
// WebSocket as the refusal of a subscription.
async function echo(node) {
	const error = (id, path) => ({ jsonrpc: '2.0', id, error: { code: -32001, message: `project ${path} is over quota` } });
	const answer = async (path, body) => {
		const calls = [JSON.parse(body)].flat();

		if (path.startsWith('/text'))
			return `404 not found: ${path}`;
		if (path.startsWith('/error') || calls.some(({ method }) => method === 'eth_getBlockReceipts'))
			return JSON.stringify(calls.map(({ id }) => error(id, path)));
		return (await fetch(node.url, { method: 'POST', body, headers: { 'content-type': 'application/json' } })).text();
	};
	const server = http.createServer(async (request, response) => {
		let body = '';

		for await (const part of request)
			body += part;
		const text = await answer(request.url, body || '{}').catch((problem) => String(problem));

		response.writeHead(request.url.startsWith('/text') ? 404 : 200).end(body.startsWith('{') ? text.replace(/^\[|\]$/g, '') : text);
	});

	server.on('upgrade', (request, socket) => {
		const key = request.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
		const text = Buffer.from(JSON.stringify(error(1, request.url)));

		socket.on('error', () => {});
		if (request.url.startsWith('/text')) {
			socket.end(`HTTP/1.1 401 no ${request.url}\r\nContent-Length: ${request.url.length}\r\n\r\n${request.url}`);
			return;
		}
		socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n' +
			`Sec-WebSocket-Accept: ${crypto.createHash('sha1').update(key).digest('base64')}\r\n\r\n`);
		socket.write(Buffer.concat([Buffer.from([0x81, 126, text.length >> 8, text.length & 255]), text]));
	});
	ends({ end: () => (server.closeAllConnections(), server.close()) });
	await new Promise((done) => server.listen(0, '127.0.0.1', done));
	return server.address().port;
}

// A key in a URL is nowhere to be read, whoever says it again.
async function keys() {
	const { node, daemon, chain, ask } = await begin();
	const port = await echo(node);
	const at = (scheme, kind) => `${scheme}://127.0.0.1:${port}/${kind}/SECRETkey`;
	const shows = async (endpoint, more, saying) => {
		daemon.configure([{ ...chain, endpoints: [endpoint] }]);
		daemon.args = ['--config', daemon.config, '--verbose'];
		await daemon.start();
		await more();
		await until(`"${saying}"`, () => daemon.said.some((line) => line.includes(saying)));
		const where = ['--store', daemon.store];
		const texts = [...daemon.said, ...daemon.out, ...(await Promise.all(['/v1/status', '/v1/chains', '/healthz', '/readyz']
			.map((path) => daemon.ask('GET', path)))).map(JSON.stringify)];

		for (const words of [['status'], ['status', '--json'], ['chain', 'status']])
			texts.push(...Object.values(await command(...words, ...where)).map(String));
		await daemon.stop();
		for (const text of [...texts, ...daemon.said])
			ok(!/secret/i.test(text), `the key is shown: ${text}`);
	};

	await daemon.stop();
	await shows({ http: at('http', 'text'), ws: node.ws }, () => {}, "begin with '404 not found: /text/***'");
	await shows({ http: at('http', 'error'), ws: node.ws }, () => {}, 'checking -> backing off');
	await shows({ http: node.url, ws: at('ws', 'text') }, () => {}, 'socket failed host=127.0.0.1:' + port);
	await shows({ http: at('http', 'most'), ws: at('ws', 'most') }, async () => {
		await daemon.create(ask());
		await node.mine(2);
	}, 'why="project /most/*** is over quota"');
}

await cases({
	'SIGTERM ends at once, and what was answered is there': sigterm,
	'SIGINT ends too': sigint,
	'a second run on the store is refused': second,
	'the events go on over kill -9 without gap or repeat': resumed,
	'--events -': toStdout,
	'--events - into a pipe that is gone': brokenPipe,
	'options instead of a file': options,
	'/healthz and /readyz': health,
	'a restart while the node is away': away,
	'a WebSocket dead without a word, and a rewind': silent,
	'the commands ask the daemon': () => commands(true),
	'the commands ask the store': () => commands(false),
	'a bad configuration is one line': badConfig,
	'a key in a URL is not shown': keys,
});
