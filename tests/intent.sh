#!/bin/sh
# The commands that ask, where no daemon runs: they open the store themselves.  Exit codes, what is printed,
# that a refusal is one line and writes nothing, and what is told of the same intent twice.
tidemark=${TIDEMARK:-build/tidemark}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
store=$work/store
usdc=0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48
shop=0x2020202020202020202020202020202020202020
tx=0x1111111111111111111111111111111111111111111111111111111111111111
code=0

complain() {
	echo "failed: $*"
	code=1
}

# expect CODE STDOUT STDERR WORDS...: the whole of both
expect() {
	want=$1 out=$2 err=$3
	shift 3
	"$tidemark" "$@" --store "$store" >"$work/out" 2>"$work/err" </dev/null
	got=$?
	[ $got -eq "$want" ] || complain "$* gave $got, want $want"
	[ "$(cat "$work/out")" = "$out" ] || complain "$* printed \"$(cat "$work/out")\", want \"$out\""
	[ "$(cat "$work/err")" = "$err" ] || complain "$* said \"$(cat "$work/err")\", want \"$err\""
}

usage() {
	err=$1
	shift
	expect 2 "" "tidemark: $err; see \"tidemark help\"" "$@"
}

# A slip in a folder's name makes no store.
expect 1 "" "tidemark: no store at $store" intent list
expect 1 "" "tidemark: no store at $store" intent move pi_1 authorized --actor api
expect 1 "" "tidemark: no store at $store" status
[ ! -e "$store" ] || complain "a store was made"

for command in intent chain "intent --json"; do
	"$tidemark" $command >/dev/null 2>&1
	[ $? -eq 2 ] || complain "$command is not wrong usage"
done
usage 'intent: no command is called "pay"' intent pay
usage 'intent create: unknown option --colour' intent create --colour red
usage 'intent create: unknown option --actor' intent create --actor api
usage 'intent create: --token is given twice' intent create --token a --token b
usage 'intent create: want --token, --payee and one of --amount and --decimal-amount' intent create --token USDC --payee $shop
usage 'intent create: want --token, --payee and one of --amount and --decimal-amount' intent create --token USDC --payee $shop \
	--amount 1 --decimal-amount 1
usage 'intent create: what is "it"? Only - is a word here' intent create it
usage 'intent move: words are missing' intent move pi_1
usage 'intent move: want --actor' intent move pi_1 authorized
usage 'intent show: one word too many: b' intent show a b
usage 'status: one word too many: now' status now
usage 'chain accept: words are missing' chain accept

# What is refused makes no store; what makes one says so.
expect 2 "" 'tidemark: intent create -: standard input is empty; see "tidemark help"' intent create -
expect 1 "" 'tidemark: payee: 4 hex digits, want 40 (E_INPUT)' intent create --chain 1 --token USDC --payee 0x2020 --amount 1
expect 1 "" 'tidemark: --token: chain 1 has 0 tokens called DAI' intent create --chain 1 --token DAI --payee $shop --amount 1
[ ! -e "$store" ] || complain "a refused intent made a store"
expect 0 "pi_0 created" "tidemark: made a new store at $store" \
	intent create --chain 1 --token USDC --payee $shop --amount 1 --id pi_0
rm -rf "$store"
expect 0 "pi_1 created" "tidemark: made a new store at $store" \
	intent create --token $usdc --payee $shop --amount 12500000 --id pi_1 --chain 1

# Created, with what a preset knows; once more is the same, with another field it is none.
expect 0 "pi_1 created" "" intent create --chain 1 --token USDC --payee $shop --decimal-amount 12.50 --id pi_1
expect 0 "pi_1 created" "" intent create --token $usdc --payee $shop --amount 12500000 --id pi_1 --chain 1
expect 1 "" "tidemark: amount: another than that of intent pi_1, which is there with this id (E_CONFLICT)" \
	intent create --chain 1 --token USDC --payee $shop --amount 1 --id pi_1
expect 1 "" "tidemark: --decimal-amount: \"1.2345678\", want digits with at most 6 behind the point" \
	intent create --chain 1 --token USDC --payee $shop --decimal-amount 1.2345678
for amount in . 1. .5 1.2.3 -1 1e6 1,5; do
	expect 1 "" "tidemark: --decimal-amount: \"$amount\", want digits with at most 6 behind the point" \
		intent create --chain 1 --token USDC --payee $shop --decimal-amount "$amount"
done
expect 1 "" 'tidemark: amount: "1.5", want decimal digits in base units (E_INPUT)' \
	intent create --chain 1 --token USDC --payee $shop --amount 1.5
expect 1 "" 'tidemark: payee: 4 hex digits, want 40 (E_INPUT)' intent create --chain 1 --token USDC --payee 0x2020 --amount 1
expect 1 "" 'tidemark: --token: chain 1 has 0 tokens called DAI' intent create --chain 1 --token DAI --payee $shop --amount 1
expect 1 "" 'tidemark: --chain ID is wanted: 0 chains are known' intent create --token USDC --payee $shop --amount 1
expect 1 "" "tidemark: token: $usdc is not configured on chain 31337 (E_REFUSED)" \
	intent create --chain 31337 --token $usdc --payee $shop --amount 1

# A chain that nobody knows, with its token on the line or in a file.
expect 0 "pi_2 created" "" intent create --chain 31337 --token TEST:$usdc:2 --payee $shop --decimal-amount 0.05 --id pi_2 \
	--watch route --merchant m --key k --expires 2030-01-01T00:00:00Z
expect 1 "" "tidemark: --token: on chain 1 it has 6 decimals, not 2" \
	intent create --chain 1 --token USDC:$usdc:2 --payee $shop --decimal-amount 1
cat >"$work/config.json" <<END
{"chains":[{"chain_id":31337,"endpoints":[{"http":"http://127.0.0.1:1","ws":"ws://127.0.0.1:1"}],
 "tokens":[{"symbol":"TEST","address":"$usdc","decimals":2}],"finality":{"depth":2}}]}
END
expect 0 "pi_3 created" "" intent create --config "$work/config.json" --token TEST --payee $shop --decimal-amount 7 --id pi_3
expect 1 "" "tidemark: $work/none.json: cannot be opened: No such file or directory" intent list --config "$work/none.json"

# From elsewhere, as tapes write it; ids may hold what a path has to encode.
cat >"$work/intent.json" <<END
{"id":"a/b@c:d..","merchant_id":"m","idempotency_key":"k2","chain_id":1,"token":"$usdc","payee":"$shop","amount":"5"}
END
"$tidemark" intent create - --store "$store" <"$work/intent.json" >"$work/out" || complain "create - failed"
[ "$(cat "$work/out")" = "a/b@c:d.. created" ] || complain "create - printed $(cat "$work/out")"
expect 0 "a/b@c:d.. authorized applied" "" intent move a/b@c:d.. authorized --actor api --version 1
expect 0 "a/b@c:d.. authorized already_there" "" intent move a/b@c:d.. authorized --actor api --version 1

# Moves and attempts.
expect 0 "pi_1 authorized applied" "" intent move pi_1 authorized --actor api
expect 0 "pi_1 settling applied" "" intent move pi_1 settling --actor relayer
expect 0 "pi_1 settling" "" intent attempt pi_1 $tx --sender $shop --nonce 7
expect 0 "pi_1 settling" "" intent attempt pi_1 $tx
expect 1 "" "tidemark: tx_hash: 4 hex digits, want 64 (E_INPUT)" intent attempt pi_1 0x1111
expect 1 "" "tidemark: intent: pi_9 is not known (E_NOT_FOUND)" intent attempt pi_9 $tx
expect 1 "" "tidemark: intent: pi_1 is at version 3, not 2 (E_VERSION_CONFLICT)" \
	intent move pi_1 failed --actor relayer --reason lost --version 2
expect 1 "" "tidemark: actor: the listener's moves exist only inside the listener (E_FORBIDDEN_ACTOR)" \
	intent move pi_1 confirming --actor listener --tx $tx
expect 0 "pi_1 needs_review applied" "" intent move pi_1 needs_review --actor relayer --reason "odd: who knows: nobody"

# Looked at.
"$tidemark" intent show pi_1 --store "$store" | sed 's/....-..-..T[0-9:.]*Z/TIME/g' >"$work/out"
cat >"$work/want" <<END
id               pi_1
state            needs_review
version          4
chain_id         1
token            $usdc
amount           12500000
payee            $shop
watch            tx
merchant_id      default
idempotency_key  pi_1
created_at       TIME
entered_at       TIME

attempts
  TIME  $tx  sender $shop nonce 7

history
  TIME    1  created       api
  TIME    2  authorized    api
  TIME    3  settling      relayer
  TIME    4  needs_review  relayer  odd: who knows: nobody
END
cmp -s "$work/out" "$work/want" || { complain "intent show"; diff "$work/want" "$work/out"; }
expect 0 "ID    STATE         AMOUNT    TOKEN             PAYEE             TX
pi_1  needs_review  12500000  0xa0b86991..eb48  0x20202020..2020  -" "" intent list --state needs_review
expect 0 "ID    STATE         AMOUNT    TOKEN             PAYEE             TX
pi_1  needs_review  12500000  0xa0b86991..eb48  0x20202020..2020  -
pi_2  created       5         0xa0b86991..eb48  0x20202020..2020  -" "tidemark: there are more: --after 2" intent list --limit 2
expect 0 "ID         STATE       AMOUNT  TOKEN             PAYEE             TX
pi_3       created     700     0xa0b86991..eb48  0x20202020..2020  -
a/b@c:d..  authorized  5       0xa0b86991..eb48  0x20202020..2020  -" "" intent list --after 2
expect 0 "" "" intent list --state settled
expect 1 "" 'tidemark: state: "paid" is no state (E_INPUT)' intent list --state paid
expect 0 '{"intents":[],"next":null}' "" intent list --state settled --json
expect 0 "store $store, no daemon
  created            2
  authorized         1
  settling           0
  confirming         0
  needs_review       1
  settled            0
  failed             0
  canceled           0
  total              4
no chain is configured or stored" "" status
expect 0 "chain 31337: not followed
  depth 2            - -" "" chain status --config "$work/config.json"
expect 1 "" "tidemark: chain: 31337 is not latched and no tier of it suspended: there is nothing to accept (E_REFUSED)" \
	chain accept $tx --config "$work/config.json"
expect 1 "" "tidemark: chain: no daemon follows chain 31337 (E_REFUSED)" chain accept-unproven $tx --chain 31337 \
	--config "$work/config.json"
expect 1 "" "tidemark: chain: 5 is not configured (E_NOT_FOUND)" chain status --chain 5

[ "$("$tidemark" events "$store" | wc -l)" -eq 8 ] || complain "the store has $("$tidemark" events "$store" | wc -l) events, want 8"
"$tidemark" check "$store" >"$work/out" || complain "check: $(cat "$work/out")"

# What was settled and taken back.
"$tidemark" replay --store "$work/reversed" fixtures/review_suspended_floor.tape >/dev/null 2>&1
"$tidemark" intent list --store "$work/reversed" | awk 'NR > 1 { print $1, $2, $3 }' >"$work/out"
[ "$(cat "$work/out")" = "pi_small settled, reversed
pi_large settled 7000000000" ] || complain "a reversed intent is listed as $(cat "$work/out")"

# A word that may hold a key is not said.
usage "run: bad option, or no value, at a URL" run http://user:secret@node/key
usage "run: bad option, or no value, at a URL" run secret@node
expect 2 "" 'tidemark: --listen: "a URL", want HOST:PORT' run --listen http://node/secret
expect 2 "" 'tidemark: --listen: "a URL", want HOST:PORT' run --listen secret@node
expect 2 "" 'tidemark: --listen: "node", want HOST:PORT' run --listen node

for command in intent chain status; do
	"$tidemark" help $command | grep -q -- --store || complain "help $command says nothing of --store"
done
exit $code
