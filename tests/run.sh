#!/bin/sh
# Runs each test program and counts: "N passed, N failed" is the last line.
#     run.sh PROGRAM...
# A program that counts its cases as cmocka does is believed; any other is one case by its exit code.
passed=0
failed=0
skipped=0
out=$(mktemp)
trap 'rm -f "$out"' EXIT

count() {
	sed -n "s/^\[  $1 *\] \([0-9]*\) test.*/\1/p" "$out" | awk '{ n += $1 } END { print n + 0 }'
}

for program in "$@"; do
	start=$(date +%s)
	case $program in
	*.sh) sh "$program" >"$out" 2>&1 ;;
	*.mjs) node "$program" >"$out" 2>&1 ;;
	*) "$program" >"$out" 2>&1 ;;
	esac
	code=$?
	p=$(count PASSED) f=$(count FAILED) s=$(count SKIPPED)
	if [ $((p + f + s)) -eq 0 ]; then
		if [ $code -eq 0 ]; then p=1; else f=1; fi
	elif [ $code -ne 0 ] && [ "$f" -eq 0 ]; then
		f=1
	fi
	if [ "$f" -ne 0 ]; then
		grep -v '^\[ *\(RUN\|OK\)' "$out"
	else
		grep -E '^(note|skipped):' "$out"
	fi
	echo "$program: $p passed, $f failed, $s skipped, $(($(date +%s) - start)) s"
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
