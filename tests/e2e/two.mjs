// Two endpoints of one chain: what they do not both vouch for is not settled.
import { cases, equal, intent, Node, ok, sleep, until } from './lib.mjs';
import { Proxy } from './proxy.mjs';
import { chain, daemon, endsWell, pay, payee, twin } from './rig.mjs';

// Made, told to the node, and mined.
async function paid(world, d, n) {
	const id = `pi_${n}`;
	const tx = await pay(world, n, payee(n), 1_000_000 + n);

	await d.settling(intent({ id, token: world.money.usdc, payee: payee(n), amount: String(1_000_000 + n) }), tx);
	await world.node.mine();
	return id;
}

// For a while nothing settles, though polls go on; then the intent is still where it was.
async function staysConfirming(d, id, node, polls = 6) {
	await d.state(id, 'confirming');
	await node.mine(4);
	await d.reached(node);
	await sleep(polls * 200);
	equal((await d.intent(id)).intent.state, 'confirming', `${id}, while endpoints do not agree`);
}

async function reasons(d) {
	const { status, body } = await d.ask('GET', '/healthz');

	return `${status} ${(body.reasons ?? []).join('; ')}`;
}

const asksFinalized = (q) => q.method === 'eth_getBlockByNumber' && q.params[0] === 'finalized';

// One says an older block is final: the lower of the two counts.
async function lower() {
	const world = await chain({ slots: 1 });
	const one = await Proxy.to(world.node), two = await Proxy.to(world.node);
	const d = await daemon(world, [one, two]);
	const old = await world.node.rpc('eth_getBlockByNumber', 'finalized', false);

	two.twist = (q) => asksFinalized(q) && { result: old };
	await d.start();
	const id = await paid(world, d, 0);

	await staysConfirming(d, id, world.node);
	two.twist = undefined;
	await d.state(id, 'settled');
	await endsWell(d);
}

// One says a block of another branch is final.
async function otherBranch() {
	const world = await chain({ slots: 1 });
	const other = await twin(world.node);
	const one = await Proxy.to(world.node), two = await Proxy.to(world.node);
	const d = await daemon(world, [one, two]);

	await other.rpc('evm_increaseTime', 5);
	await other.mine(5);
	const theirs = await other.rpc('eth_getBlockByNumber', 'latest', false);

	two.twist = (q) => asksFinalized(q) && { result: theirs };
	await d.start();
	const id = await paid(world, d, 0);

	await staysConfirming(d, id, world.node);
	two.twist = undefined;
	await d.state(id, 'settled');
	await endsWell(d);
}

// Two nodes on two branches, whichever of them leads: what is on one only does not settle; when they meet it does.
async function branches() {
	const world = await chain({ slots: 1 });
	const other = await twin(world.node);
	const one = await Proxy.to(world.node), two = await Proxy.to(other);
	const d = await daemon(world, [one, two]);

	await d.start();
	await other.mine(3);
	const id = await paid(world, d, 0);

	await world.node.mine(6);
	await other.mine(4);
	await sleep(1500);
	ok(['settling', 'confirming'].includes((await d.intent(id)).intent.state), 'settled on one branch of two');
	two.turnTo(world.node);
	await d.state(id, 'settled');
	await endsWell(d);
}

async function oneDies() {
	const world = await chain({ slots: 1 });
	const one = await Proxy.to(world.node), two = await Proxy.to(world.node);
	const d = await daemon(world, [one, two]);

	await d.start();
	const before = await paid(world, d, 0);

	await world.node.mine(3);
	await d.state(before, 'settled');
	await one.die();
	const id = await paid(world, d, 1);

	await staysConfirming(d, id, world.node);
	await until('health to say why', async () => /^503 .*(fewer|agree|endpoint)/.test(await reasons(d)));
	const said = await reasons(d);

	await one.live();
	await d.state(id, 'settled');
	await until('health to be well again', async () => (await reasons(d)).startsWith('200'));
	await endsWell(d);
	console.log(`note: while one of two was dead: ${said}`);
}

async function otherChain() {
	const world = await chain({ slots: 1 });
	const stranger = await Node.start({ slots: 1, args: ['--chain-id', '1337'] });
	const one = await Proxy.to(world.node), two = await Proxy.to(world.node), three = await Proxy.to(stranger);
	const d = await daemon(world, [one, two, three]);

	await d.start();
	const id = await paid(world, d, 0);

	await world.node.mine(3);
	await d.state(id, 'settled');
	const ends = (await d.chain()).endpoints;

	equal(ends.map((e) => e.health), ['live', 'live', 'wrong chain'], 'health');
	ok(d.lines.some((l) => /^(odd|broken): .*(chain)/.test(l)), 'nobody was alarmed');
	const asked = { ...three.asked };

	await sleep(1000);
	for (const m of ['eth_getBlockReceipts', 'eth_getBlockByHash', 'eth_call'])
		equal(three.asked[m] ?? 0, asked[m] ?? 0, `${m} asked of a stranger`);
	await endsWell(d);
	console.log(`note: the stranger: ${JSON.stringify(ends[2])}`);
}

// Good at first; after a reconnect behind the same name another chain answers.
async function otherChainLater() {
	const world = await chain({ slots: 1 });
	const stranger = await Node.start({ slots: 1, args: ['--chain-id', '1337'] });
	const one = await Proxy.to(world.node);
	const d = await daemon(world, [one]);

	await d.start();
	const before = await paid(world, d, 0);

	await world.node.mine(3);
	await d.state(before, 'settled');
	one.turnTo(stranger);
	await stranger.mine(30);
	const id = await paid(world, d, 1);

	await world.node.mine(3);
	await until('the stranger to be known', async () => (await d.chain()).endpoints[0].health === 'wrong chain');
	equal((await d.intent(id)).intent.state, 'settling', 'told by a stranger');
	one.turnTo(world.node);
	await d.state(id, 'settled', 60000);
	await endsWell(d);
}

cases({
	'one of two says that an older block is final': lower,
	'one of two says that a block of another branch is final': otherBranch,
	'two nodes on two branches': branches,
	'one of two dies and comes back': oneDies,
	'one of three serves another chain': otherChain,
	'another chain behind the same name after a reconnect': otherChainLater,
});
