// The nodes of test_loop: HTTP and WebSocket on one port, plain and with TLS, each path with its own
// behaviour.  node's own modules only.  Prints "plain=PORT tls=PORT" when it listens; ends with its stdin.
//     node servers.js [KEY CERT]
'use strict';
const http = require('http');
const https = require('https');
const crypto = require('crypto');
const fs = require('fs');

const seen = { connections: 0, closes: {} };
const wait = ms => new Promise(done => setTimeout(done, ms));

// --- HTTP

const posts = {
	'/echo': (q, a, body) => a.end(body),
	'/500': (q, a) => { a.statusCode = 500; a.end('boom'); },
	'/empty': (q, a) => a.end(),
	'/redirect': (q, a) => { a.writeHead(302, { location: '/echo' }); a.end('elsewhere'); },
	'/headers': (q, a) => a.end(JSON.stringify({ url: q.url, method: q.method, ...q.headers })),
	'/large': (q, a) => a.end(Buffer.alloc(2 << 20, 0x61)),
	'/exact': (q, a) => a.end(Buffer.alloc(1 << 20, 0x61)),
	'/over': (q, a) => { a.write(Buffer.alloc(1 << 20, 0x61)); a.end('b'); },
	'/endless': (q, a) => {
		const chunk = Buffer.alloc(30000, 0x61);
		const more = () => { while (!a.destroyed && a.write(chunk)); };
		a.on('drain', more);
		more();
	},
	'/mute': () => {},
	'/trickle': (q, a) => {
		const timer = setInterval(() => a.write('x'), 50);
		a.on('close', () => clearInterval(timer));
	},
	'/cut': (q, a) => { a.writeHead(200, { 'content-length': 100 }); a.write('half', () => a.destroy()); },
	'/hangup': q => q.socket.destroy(),
	'/last': (q, a) => { a.shouldKeepAlive = false; a.end('bye'); },
	'/idle': (q, a) => { a.end('idle'); setTimeout(() => q.socket.destroy(), 50); },
	'/late': async (q, a) => { await wait(100); a.end('late'); },
	'/connections': (q, a) => a.end(String(seen.connections)),
	'/429': (q, a) => { a.writeHead(429, { 'retry-after': '7' }); a.end(); },
	'/load': async (q, a) => a.end(JSON.stringify(await load(new URL(q.url, 'http://x').searchParams.get('port')))),
	'/closes': (q, a) => a.end(JSON.stringify(seen.closes)),
};

function onRequest(q, a) {
	const parts = [];
	q.on('data', part => parts.push(part));
	q.on('end', () => (posts[q.url.split('?')[0]] || posts['/500'])(q, a, Buffer.concat(parts)));
}

// --- a crowd that asks the loop's own server: 64 connections that are kept, 10,000 requests

const CLIENTS = 64, REQUESTS = 10000;

function askEcho(agent, port, body) {
	return new Promise(done => {
		const options = { host: '127.0.0.1', port, path: '/e?' + body, method: 'POST', agent };
		const q = http.request(options, a => {
			const parts = [];
			a.on('data', part => parts.push(part));
			a.on('end', () => done(Buffer.concat(parts).toString()));
		});
		q.on('error', e => done(e.message));
		if (body % 3 === 0)
			q.write(body);		// then it goes in chunks
		q.end(body % 3 === 0 ? '' : body);
	});
}

async function load(port) {
	const agent = new http.Agent({ keepAlive: true, maxSockets: CLIENTS });
	const result = { answered: 0, wrong: 0 };
	let next = 0;
	const client = async () => {
		while (next < REQUESTS) {
			const body = String(next++);
			if (await askEcho(agent, port, body) !== `POST /e [${body}] ${body}`)
				result.wrong++;
			result.answered++;
		}
	};
	await Promise.all(Array.from({ length: CLIENTS }, client));
	agent.destroy();
	return result;
}

// --- WebSocket

const TEXT = 1, CLOSE = 8, PING = 9, PONG = 10;

function frame(opcode, payload, final = true) {
	const n = payload.length;
	const head = Buffer.alloc(n < 126 ? 2 : n < 65536 ? 4 : 10);
	head[0] = (final ? 0x80 : 0) | opcode;
	head[1] = n < 126 ? n : n < 65536 ? 126 : 127;
	if (head[1] === 126)
		head.writeUInt16BE(n, 2);
	else if (head[1] === 127)
		head.writeBigUInt64BE(BigInt(n), 2);
	return Buffer.concat([head, payload]);
}

const text = s => frame(TEXT, Buffer.from(s));

function closing(code) {
	const payload = Buffer.alloc(2);
	payload.writeUInt16BE(code);
	return frame(CLOSE, payload);
}

// Calls on(opcode, payload) for each whole frame of a client.
function reader(socket, on) {
	let held = Buffer.alloc(0);
	socket.on('data', data => {
		held = Buffer.concat([held, data]);
		for (;;) {
			if (held.length < 2)
				return;
			let n = held[1] & 0x7f, at = 2;
			if (n === 126) { n = held.readUInt16BE(2); at = 4; }
			if (n === 127) { n = Number(held.readBigUInt64BE(2)); at = 10; }
			if (held.length < at + 4 + n)
				return;
			const mask = held.subarray(at, at + 4);
			const payload = Buffer.from(held.subarray(at + 4, at + 4 + n));
			for (let i = 0; i < n; i++)
				payload[i] ^= mask[i & 3];
			on(held[0] & 0x0f, payload);
			held = held.subarray(at + 4 + n);
		}
	});
}

function accept(socket, q, extra = '') {
	const key = q.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
	const hash = crypto.createHash('sha1').update(key).digest('base64');
	socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n' +
		     extra + 'Sec-WebSocket-Accept: ' + hash + '\r\n\r\n');
}

// A text of n bytes, digits that tell their place.
function digits(n) {
	const b = Buffer.alloc(n);
	for (let i = 0; i < n; i++)
		b[i] = 48 + (i * 7 + (i >> 8)) % 10;
	return b;
}

// Frames with every bit of the header at odds with the rest, the same for the same seed.
function garbage(seed) {
	const parts = [];
	const next = n => (seed = (Math.imul(seed, 1103515245) + 12345) >>> 0, (seed >>> 8) % n);
	for (let i = 0; i < 40; i++) {
		const honest = next(3) > 0;
		const head = Buffer.from([honest ? [0x81, 0x01, 0x80, 0x80, 0x89, 0x8a, 0x88][next(7)] : next(256), 0]);
		const n = [0, 1, 125, 200, 65536, 70000][next(6)];
		const length = frame(TEXT, Buffer.alloc(n)).subarray(1, n < 126 ? 2 : n < 65536 ? 4 : 10);
		if (next(9) === 0)
			length[0] |= 0x80;		// masked, which a server must not
		if (next(15) === 0)
			length.fill(0xff, 1);		// longer than anything
		parts.push(head.subarray(0, 1), length, Buffer.alloc(n, next(256)));
	}
	return Buffer.concat(parts);
}

async function sendPieces(socket, bytes) {
	for (let at = 0; at < bytes.length;) {
		const n = at < 300 || at > bytes.length - 300 ? 1 : 1 + (at * 31) % 9000;
		if (!socket.write(bytes.subarray(at, at + n)))
			await new Promise(done => socket.once('drain', done));
		at += n;
		if (n === 1)
			await new Promise(setImmediate);
	}
}

const talks = {
	'/echo': () => {},
	'/whoami': (s, q) => s.write(text(JSON.stringify({ url: q.url, ...q.headers }))),
	'/pieces': s => sendPieces(s, frame(TEXT, digits(300000))),
	'/continued': s => {
		const all = digits(300000);
		s.write(frame(TEXT, all.subarray(0, 60000), false));
		s.write(frame(PING, Buffer.from('between')));
		for (let i = 1; i < 5; i++)
			s.write(frame(0, all.subarray(i * 60000, (i + 1) * 60000), i === 4));
	},
	'/two': s => s.write(Buffer.concat([text('one'), text('two'), text('')])),
	'/huge': s => s.write(frame(TEXT, Buffer.alloc(20 << 20, 0x61))),
	'/hugeparts': s => {
		s.write(frame(TEXT, Buffer.alloc(1 << 20, 0x61), false));
		for (let i = 0; i < 19; i++)
			s.write(frame(0, Buffer.alloc(1 << 20, 0x61), i === 18));
	},
	'/1000': s => s.write(closing(1000)),
	'/1001': s => s.write(closing(1001)),
	'/1012': s => s.write(closing(1012)),
	'/fin': s => s.end(),
	'/reset': s => setTimeout(() => s.resetAndDestroy(), 20),
	'/half': s => { s.write(frame(TEXT, digits(1000)).subarray(0, 500)); setTimeout(() => s.end(), 20); },
	'/deaf': s => { s.removeAllListeners('data'); s.pause(); },
	'/garbage': (s, q) => s.write(garbage(Number(q.url.split('?')[1]))),
	'/burst': s => { for (let i = 0; i < 12000; i++) s.write(text('{"head":' + i + '}')); },
	// Data but no pong: alive all the same.
	'/nopong': s => {
		s.removeAllListeners('data');
		s.resume();
		const timer = setInterval(() => s.write(text('head')), 300);
		s.on('close', () => clearInterval(timer));
	},
};

const refusals = {
	'/401': s => s.end('HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n'),
	'/429': s => s.end('HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nslow'),
	'/302': s => s.end('HTTP/1.1 302 Found\r\nLocation: /echo\r\nContent-Length: 0\r\n\r\n'),
	'/200': s => s.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'),
	'/liar': s => s.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n' +
			      'Sec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n\r\n'),
	'/silence': () => {},
	'/nothing': s => s.destroy(),
};

function onUpgrade(q, socket) {
	const path = q.url.split('?')[0];
	socket.on('error', () => {});
	socket.setNoDelay(true);
	if (refusals[path]) {
		refusals[path](socket);
		return;
	}
	reader(socket, (opcode, payload) => {
		if (opcode === CLOSE) {
			seen.closes[path] = payload.length >= 2 ? payload.readUInt16BE(0) : 0;
			socket.end(frame(CLOSE, payload));
		} else if (opcode === PING && !path.startsWith('/dumb')) {
			socket.write(frame(PONG, payload));
		} else if (opcode === PONG) {
			socket.write(text('pong ' + payload));
		} else if (opcode === TEXT) {
			socket.write(frame(TEXT, payload));
		}
	});
	accept(socket, q, path === '/wordy' ? 'X-Words: ' + 'w'.repeat(9000) + '\r\n' : '');
	(talks[path] || (() => {}))(socket, q);
}

function listen(server) {
	server.keepAliveTimeout = 60000;
	server.on('upgrade', onUpgrade);
	server.on('connection', () => seen.connections++);
	server.on('clientError', (e, s) => s.destroy());
	return new Promise(done => server.listen(0, '127.0.0.1', () => done(server.address().port)));
}

async function main(key, cert) {
	const plain = await listen(http.createServer(onRequest));
	let tls = 0;
	if (key)
		tls = await listen(https.createServer({ key: fs.readFileSync(key), cert: fs.readFileSync(cert) }, onRequest));
	console.log(`plain=${plain} tls=${tls}`);
	process.stdin.on('end', () => process.exit()).resume();
}

main(process.argv[2], process.argv[3]);
