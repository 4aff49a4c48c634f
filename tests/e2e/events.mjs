// The log of events: reading it, and whether it is whole.
import fs from 'node:fs';
import path from 'node:path';
import { equal, ok, root } from './base.mjs';

// Whole lines only: the last one may just be being written.
export function readEvents(file) {
	if (!fs.existsSync(file))
		return [];
	const lines = fs.readFileSync(file, 'utf8').split('\n');

	lines.pop();
	return lines.map((line) => JSON.parse(line));
}

// The table of moves as the golden file has it: "from to actor" -> what it needs.
function readTable() {
	const rows = fs.readFileSync(path.join(root, 'fixtures/golden/transitions.golden'), 'utf8').split('\n').slice(1);
	const table = new Map();

	for (const row of rows) {
		const [from, to, by, needs] = row.split(/ +/);

		if (!needs)
			break;
		for (const actor of by.split(','))
			table.set(`${from} ${to} ${actor}`, needs.split(','));
	}
	return table;
}

// What each intent's events say of it so far.
class Told {
	number = 0;
	version = 0;
	state = null;
	reason = null;
	settled = 0;
	confirmed = false;
}

function checkMove(told, event, table) {
	const { intent, reason, evidence } = event.data;
	const move = `${told.state} ${intent.state} ${evidence.by}`;
	const needs = table.get(move);

	ok(told.state ? needs : intent.state === 'created', `${intent.id}: ${move} is not in the table`);
	equal(intent.version, told.version + 1, `${intent.id}: version`);
	if (needs?.includes('reason'))
		ok(reason?.code, `${intent.id}: ${move} without a reason`);
	if (needs?.includes('tx_hash'))
		ok(intent.tx_hash, `${intent.id}: ${move} without a transaction`);
	told.state = intent.state;
	told.version = intent.version;
	told.reason = reason?.code ?? '-';
	told.settled += intent.state === 'settled';
	told.confirmed ||= intent.state === 'confirming';
	ok(told.settled <= 1, `${intent.id}: settled twice`);
}

/*
 * The whole log, from its first line: the sequence has no gap and no repeat, ids are unique, each intent's and chain's
 * own number rises by one, only moves of the table are made, and nothing is settled twice.  Gives what it says of each
 * intent.
 */
export function checkEvents(events) {
	const table = readTable();
	const ids = new Set(), intents = new Map(), chains = new Map();

	events.forEach((event, index) => {
		const { data, type } = event;

		equal(data.sequence, index + 1, 'sequence');
		ok(!ids.has(data.id), `event ${data.id} twice`);
		ids.add(data.id);
		if (!type.startsWith('intent.')) {
			equal(data.event_number, (chains.get(data.chain_id) ?? 0) + 1, `chain ${data.chain_id}: event number`);
			chains.set(data.chain_id, data.event_number);
			return;
		}
		const told = intents.get(data.intent.id) ?? new Told();

		intents.set(data.intent.id, told);
		equal(data.event_number, told.number + 1, `${data.intent.id}: event number`);
		told.number++;
		if (type === `intent.${data.intent.state}`)
			checkMove(told, event, table);
		else
			equal(data.intent.version, told.version, `${data.intent.id}: version in ${type}`);
	});
	return intents;
}
