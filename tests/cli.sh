#!/bin/sh
# The program as a shell sees it: exit codes, closed and full outputs, damaged
# stores, and the scenarios that README.md and "tidemark help forge" show.
tidemark=${TIDEMARK:-build/tidemark}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
code=0

complain() {
	echo "failed: $*"
	code=1
}

# expect CODE COMMAND...: in a shell, so that redirections belong to it
expect() {
	want=$1
	shift
	sh -c "$*" >"$work/out" 2>"$work/err"
	got=$?
	[ $got -eq "$want" ] || complain "$* gave $got, want $want"
}

# ends STATES FILE: what a scenario comes to, state and reason of each intent
ends() {
	got=$("$tidemark" forge "$2" | "$tidemark" replay --summary - 2>/dev/null | awk '{ printf "%s %s;", $2, $3 }')
	[ "$got" = "$1" ] || complain "$2 ends \"$got\", want \"$1\""
}

expect 0 "$tidemark help"
expect 2 "$tidemark"
expect 2 "$tidemark nothing"
expect 2 "$tidemark replay"
expect 2 "$tidemark replay fixtures/paid.tape --summary"
expect 2 "$tidemark replay --store"
expect 2 "$tidemark help nothing"
expect 1 "$tidemark replay /nowhere"
for command in help "help forge" "replay fixtures/paid.tape" "replay --story fixtures/paid.tape" \
	"forge fixtures/paid.scn" "fork fixtures/paid.tape"; do
	expect 1 "$tidemark $command >/dev/full"
done 2>/dev/null
expect 1 "TMPDIR=/nowhere $tidemark replay fixtures/paid.tape"
[ "$(wc -l <"$work/err")" -eq 1 ] || complain "a bad TMPDIR is not one line"

# A closed stdout must not become the store's first file.
sh -c "$tidemark replay --store $work/closed fixtures/paid.tape >&-" 2>/dev/null
grep -q intent "$work/closed/tidemark.lock" && complain "events stand in the lock file"

# A damaged store is said to be damaged, whatever byte it is.
"$tidemark" replay --store "$work/store" fixtures/demo.tape >/dev/null
"$tidemark" check "$work/store" >/dev/null || complain "a sound store has faults"
"$tidemark" events "$work/store" >"$work/events"
for at in 24586 24588; do
	cp -r "$work/store" "$work/bad"
	printf '\377' | dd of="$work/bad/tidemark.mdb" bs=1 seek=$at conv=notrunc 2>/dev/null
	"$tidemark" events "$work/bad" >"$work/out" 2>/dev/null && ! cmp -s "$work/out" "$work/events" &&
		complain "events of a store damaged at $at are incomplete with exit 0"
	"$tidemark" check "$work/bad" >/dev/null 2>&1
	[ $? -le 1 ] || complain "check of a store damaged at $at died"
	rm -rf "$work/bad"
done

# Interrupted, a replay leaves no store behind.
TMPDIR=$work sh -c "$tidemark replay fixtures/demo.tape | head -c 1" >/dev/null
[ -z "$(find "$work" -maxdepth 1 -name 'tidemark-*')" ] || complain "a temporary store is left"

# What the documents show.
awk -v dir="$work" '/^```/ { inside = !inside; n += inside; next }
	inside { print >(dir "/readme" n ".scn") }' README.md
n=0
for scenario in $(grep -lE '^(block|head) ' "$work"/readme*.scn | sort -V); do
	n=$((n + 1))
	case $n in
	1) ends "settling reorg;settled -;" "$scenario" ;;
	2) ends "needs_review balance_mismatch;" "$scenario" ;;
	3) ends "settled -;" "$scenario" ;;
	esac
done
[ $n -eq 3 ] || complain "README.md shows $n scenarios, want 3"

"$tidemark" help forge | awk -v dir="$work" '/^  A |^  Small / { n++ } /^    / && n { sub("^    ", ""); print >(dir "/help" n ".scn") }'
ends "settled -;" "$work/help1.scn"
ends "needs_review balance_mismatch;" "$work/help2.scn"
ends "settled -;" "$work/help3.scn"
exit $code
