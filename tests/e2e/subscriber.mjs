// The least that a payment listener does, in viem: to be timed beside ours.  Ends with its stdin; prints its times in us.
//     node subscriber.mjs HTTP WS TOKEN PAYEE FILE
import fs from 'node:fs';
import { createPublicClient, http, parseAbi, parseAbiItem, webSocket } from 'viem';

const [, , url, ws, token, payee, file] = process.argv;
const node = createPublicClient({ transport: http(url) });
const heads = createPublicClient({ transport: webSocket(ws) });
const out = fs.openSync(file, 'a');
const event = parseAbiItem('event Transfer(address indexed from, address indexed to, uint256 value)');
const abi = parseAbi(['function balanceOf(address) view returns (uint256)']);
const took = [];

function balance(blockHash) {
	return node.readContract({ address: token, abi, functionName: 'balanceOf', args: [payee], blockHash });
}

async function onHead(head) {
	const begun = performance.now();
	const logs = await node.getLogs({ address: token, event, args: { to: payee }, blockHash: head.hash });
	const [before, after] = await Promise.all([balance(head.parentHash), balance(head.hash)]);

	for (const log of logs)
		fs.writeSync(out, JSON.stringify({ block: head.hash, tx: log.transactionHash, value: String(log.args.value),
			before: String(before), after: String(after) }) + '\n');
	fs.fsyncSync(out);
	if (logs.length)
		took.push(Math.round((performance.now() - begun) * 1000));
}

const { unsubscribe } = await heads.transport.subscribe({
	params: ['newHeads'],
	onData: (data) => onHead(data.result).catch((e) => console.error(e.message)),
});

console.log('ready');
process.stdin.on('end', () => {
	unsubscribe();
	console.log(JSON.stringify(took));
	process.exit();
}).resume();
