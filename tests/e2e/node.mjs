// The other side: a real anvil, contracts on it, and a wire to it that can be cut.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import net from 'node:net';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { encodeDeployData, encodeFunctionData, getContractAddress, keccak256 } from 'viem';
import { mnemonicToAccount, privateKeyToAccount } from 'viem/accounts';
import { ends, ok, root, until } from './base.mjs';

const require = createRequire(import.meta.url);

export async function freePort() {
	const server = net.createServer().listen(0, '127.0.0.1');

	await once(server, 'listening');
	const { port } = server.address();

	server.close();
	await once(server, 'close');
	return port;
}

// Contracts.

let compiled;

export function contracts() {
	if (compiled)
		return compiled;
	const dir = path.join(root, 'fixtures/tokens');
	const names = fs.readdirSync(dir).filter((name) => name.endsWith('.sol'));
	const source = (name) => [name, { content: fs.readFileSync(path.join(dir, name), 'utf8') }];
	const input = {
		language: 'Solidity',
		sources: Object.fromEntries(names.map(source)),
		settings: { optimizer: { enabled: true }, outputSelection: { '*': { '*': ['abi', 'evm.bytecode.object'] } } },
	};
	const output = JSON.parse(require('solc').compile(JSON.stringify(input)));

	ok(!output.errors?.length, `the contracts do not compile: ${output.errors?.[0]?.formattedMessage}`);
	compiled = {};
	for (const file of Object.values(output.contracts))
		for (const [name, c] of Object.entries(file))
			compiled[name] = { abi: c.abi, bytecode: '0x' + c.evm.bytecode.object };
	return compiled;
}

export function call(contract, functionName, args = []) {
	return encodeFunctionData({ abi: contracts()[contract].abi, functionName, args });
}

// A node.  It mines when it is told to; --slots-in-an-epoch N puts finalized 2N blocks below the head.

const words = 'test test test test test test test test test test test junk';
const machine = `${process.platform}-${process.arch === 'x64' ? 'amd64' : process.arch}`;
const anvil = path.join(path.dirname(fileURLToPath(import.meta.url)), `node_modules/@foundry-rs/anvil-${machine}/bin/anvil`);

export class Node {
	name = 'anvil';
	chain_id = 31337;
	nonces = new Map();
	children = [];

	// @options: slots, port, args
	static async start(options = {}) {
		const node = new Node();

		node.options = options;
		node.port = options.port ?? (await freePort());
		node.url = `http://127.0.0.1:${node.port}`;
		node.ws = `ws://127.0.0.1:${node.port}`;
		ends(node);
		await node.run();
		node.owner = node.account(0);
		return node;
	}

	async run() {
		const { slots = 8, args = [] } = this.options;

		this.child = spawn(anvil, ['--port', this.port, '--no-mining', '--silent', '--slots-in-an-epoch', slots, ...args],
			{ stdio: 'ignore' });
		this.gone = once(this.child, 'exit');
		await until('anvil to answer', () => this.rpc('eth_chainId').catch(() => false));
	}

	async end() {
		this.child.kill('SIGKILL');
		await this.gone;
	}

	async rpc(method, ...params) {
		const answer = await fetch(this.url, {
			method: 'POST',
			headers: { 'content-type': 'application/json' },
			body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
		});
		const { result, error } = await answer.json();

		if (error)
			throw new Error(`${method}: ${error.message}`);
		return result;
	}

	// One of the accounts that anvil gives coins to, 0 to 9.
	account(n) {
		return mnemonicToAccount(words, { addressIndex: n });
	}

	// An account of our own, the same for the same text; coins from nowhere.
	async funded(text) {
		const account = privateKeyToAccount(keccak256(Buffer.from(text)));

		await this.rpc('anvil_setBalance', account.address, '0x56bc75e2d63100000');
		return account;
	}

	// The raw bytes of a transaction and their hash; @more: nonce, tip (wei), gas.
	async sign(account, to, data, more = {}) {
		const known = this.nonces.get(account.address) ?? 0;
		const nonce = more.nonce ?? known;
		const tip = BigInt(more.tip ?? 1_000_000_000);
		const raw = await account.signTransaction({
			type: 'eip1559', chainId: this.chain_id, nonce, to, data, gas: BigInt(more.gas ?? 200_000),
			maxFeePerGas: 20_000_000_000n + tip, maxPriorityFeePerGas: tip,
		});

		if (more.nonce === undefined)
			this.nonces.set(account.address, nonce + 1);
		return { raw, hash: keccak256(raw), from: account.address.toLowerCase(), nonce };
	}

	send(tx) {
		return this.rpc('eth_sendRawTransaction', tx.raw);
	}

	async transact(account, to, data, more) {
		const tx = await this.sign(account, to, data, more);

		await this.send(tx);
		return tx;
	}

	async deploy(contract, args = [], account = this.owner) {
		const { abi, bytecode } = contracts()[contract];
		const tx = await this.transact(account, undefined, encodeDeployData({ abi, bytecode, args }), { gas: 3_000_000 });

		return getContractAddress({ from: account.address, nonce: BigInt(tx.nonce) }).toLowerCase();
	}

	async mine(blocks = 1) {
		await this.rpc('anvil_mine', '0x' + blocks.toString(16));
	}

	async block(which = 'latest', full = false) {
		const tag = typeof which === 'number' ? '0x' + which.toString(16) : which;
		const b = await this.rpc('eth_getBlockByNumber', tag, full);

		return { number: Number(b.number), hash: b.hash, time: Number(b.timestamp), transactions: b.transactions };
	}

	// The blocks from here on differ from all before: an empty one, mined again in the same second, may else be the same.
	async otherBranch() {
		this.branches = (this.branches ?? 0) + 1;
		await this.rpc('anvil_setCoinbase', '0x' + this.branches.toString(16).padStart(40, '0'));
	}

	// @transactions: [{ tx, at }], at: offset from the first new block
	async reorg(depth, transactions = []) {
		await this.otherBranch();
		await this.rpc('anvil_reorg', depth, transactions.map(({ tx, at }) => [tx.raw, at]));
	}

	// The head falls, and nobody is told.
	async rollback(depth) {
		await this.otherBranch();
		await this.rpc('anvil_rollback', depth);
	}

	// The same by a snapshot.
	async revert(snapshot) {
		await this.otherBranch();
		ok(await this.rpc('evm_revert', snapshot), 'evm_revert is refused');
	}

	async receipt(tx) {
		return this.rpc('eth_getTransactionReceipt', tx.hash ?? tx);
	}

	/*
	 * USDC and USDT, with what @payers have of each, and a Batch that holds some, mined.  Blocks are stamped
	 * an hour ahead of our clock, so that no block is older than an intent that was made before it.
	 */
	async money(payers = []) {
		const usdc = await this.deploy('TestUsdc', [6]), usdt = await this.deploy('TestUsdt', [6]);
		const batch = await this.deploy('Batch');
		const much = 10n ** 15n, each = 10n ** 11n;

		await this.transact(this.owner, usdc, call('TestUsdc', 'mint', [batch, much]));
		await this.transact(this.owner, usdt, call('TestUsdt', 'issue', [much]));
		await this.transact(this.owner, usdt, call('TestUsdt', 'transfer', [batch, much / 2n]));
		for (let i = 0; i < payers.length; i += 20) {
			const to = payers.slice(i, i + 20).map((p) => p.address);

			for (const token of [usdc, usdt])
				await this.transact(this.owner, batch, call('Batch', 'pay', [token, to, to.map(() => each)]), { gas: 2_000_000 });
		}
		await this.rpc('evm_increaseTime', 3600);
		await this.mine(2);
		return { usdc, usdt, batch };
	}
}

// A wire between daemon and node that can be cut.
export class Wire {
	sockets = new Set();
	cuts = 0;

	static async to(port) {
		const wire = ends(new Wire());

		wire.far_port = port;
		await wire.up();
		wire.url = `http://127.0.0.1:${wire.port}`;
		wire.ws = `ws://127.0.0.1:${wire.port}`;
		return wire;
	}

	// On the port that it had, if it was up before.
	async up() {
		this.server = net.createServer((near) => this.join(near, net.connect(this.far_port, '127.0.0.1')));
		this.server.listen(this.port ?? 0, '127.0.0.1');
		await once(this.server, 'listening');
		this.port = this.server.address().port;
	}

	// Nobody listens, and what was open is cut.
	async down() {
		this.server.close();
		this.cut();
		await once(this.server, 'close');
	}

	join(near, far) {
		for (const [socket, other] of [[near, far], [far, near]]) {
			this.sockets.add(socket);
			socket.on('error', () => {});
			socket.on('close', () => {
				this.sockets.delete(socket);
				other.destroy();
			});
			if (!this.hushed)
				socket.pipe(other);
		}
	}

	// From here on nothing comes through, and nobody is told.
	hush() {
		this.hushed = true;
		for (const socket of this.sockets)
			socket.unpipe().resume();
	}

	cut() {
		this.cuts++;
		for (const socket of this.sockets)
			socket.destroy();
	}

	async end() {
		this.cut();
		this.server.close();
	}
}
