// What the cases about hostile nodes add to lib.mjs.
import { call, chainConfig, checkEvents, command, Daemon, equal, Node } from './lib.mjs';

// A chain with money on it: { node, money, payers }.
export async function chain(options = {}) {
	const node = await Node.start(options);
	const payers = [];

	for (let n = 0; n < (options.payers ?? 40); n++)
		payers.push(await node.funded(`payer ${n}`));
	return { node, payers, money: await node.money(payers) };
}

// The same chain on a node of its own, which may go its own way from here.
export async function twin(node, options = {}) {
	const other = await Node.start({ ...node.options, port: undefined, ...options });

	await other.rpc('anvil_loadState', await node.rpc('anvil_dumpState', true));
	return other;
}

export const payee = (n) => '0x' + (0xbeef0000 + n).toString(16).padStart(40, '0');

// Told to the node, not yet mined.
export function pay({ node, money, payers }, from, to, amount, token = money.usdc) {
	return node.transact(payers[from], token, call('TestUsdc', 'transfer', [to, BigInt(amount)]));
}

export async function daemon({ node, money }, endpoints, more = {}) {
	const { whole, ...own } = more;
	const chains = [await chainConfig(node, money, {
		endpoints: endpoints.map((e) => ({ http: e.url, ws: e.ws })),
		poll_ms: 200, retry_ms: 50, timeout_ms: 1000, stale_s: 30, tag_depth_blocks: 0, ...own,
	})];
	const d = new Daemon();


	d.configure({ open_s: 3, ping_s: 1, hangup_s: 2, chains, ...whole });
	d.args = ['--config', d.config, '--verbose'];
	return d;
}

// How an intent stands: state, the code of its last move, its transaction.
export async function stands(d, id) {
	const { intent, history } = await d.intent(id);

	return { state: intent.state, code: history.at(-1).reason?.code ?? '-', tx: intent.tx_hash };
}

export const range = (n) => Array.from({ length: n }, (_, i) => i);

// Its events are in order, and it never said that something broke.
export function wellTold(d) {
	checkEvents(d.readEvents());
	equal(d.lines.filter((line) => /^broken: |Sanitizer|runtime error/.test(line)), [], 'what broke');
}

// Ends by SIGTERM with nothing left open, and leaves a store without fault.
export async function endsWell(d) {
	const { code, signal } = await d.stop();

	equal([code, signal], [0, null], `how it ended: ${d.said.slice(-3).join(' | ')}`);
	const { code: fault, out, err } = await command('check', d.store);

	equal(fault, 0, `tidemark check: ${out} ${err}`);
	wellTold(d);
}
