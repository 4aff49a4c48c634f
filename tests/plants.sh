#!/bin/sh
# Each patch in tests/plants plants one fault by hand.  The simulator must find it within RUNS seeds: a
# violation, or a crash of the program.  With arguments, only the patches whose names begin so.
#
#   tests/plants.sh [NN...]
set -u
PLANTS=${PLANTS:-$(dirname "$0")/plants}
RUNS=${RUNS:-2000}
SECONDS_MAX=${SECONDS_MAX:-240}
here=$(cd "$(dirname "$0")/.." && pwd)
temp=$(mktemp -d "${TMPDIR:-/tmp}/tidemark-plants-XXXXXX")
trap 'rm -rf "$temp"' EXIT

build() {
	make -C "$1" --no-print-directory B=build CFLAGS=-O1 build/tests/sim >"$temp/log" 2>&1
}

mkdir "$temp/base"
(cd "$here" && tar cf - Makefile common store listener tests/sim) | tar xf - -C "$temp/base"
build "$temp/base" || { cat "$temp/log"; exit 1; }

# Without a fault it finds none.
"$temp/base/build/tests/sim" --first --seed 1 --runs 300 >"$temp/out" 2>&1 || { cat "$temp/out"; exit 1; }

found=0
all=0
printf '%-28s %-22s %s\n' plant 'found at seed' seconds
for patch in "$PLANTS"/*.patch; do
	name=$(basename "$patch" .patch)
	wanted=${1:+no}
	for arg; do
		case $name in "$arg"*) wanted=yes ;; esac
	done
	[ "$wanted" = no ] && continue
	all=$((all + 1))
	rm -rf "$temp/tree"
	cp -a "$temp/base" "$temp/tree"
	if ! patch -s -p1 -d "$temp/tree" <"$patch" >/dev/null || ! build "$temp/tree"; then
		printf '%-28s %s\n' "$name" 'cannot be planted'
		continue
	fi
	from=$(date +%s)
	TMPDIR=$temp timeout "$SECONDS_MAX" "$temp/tree/build/tests/sim" --first --seed 1 --runs "$RUNS" >"$temp/out" 2>&1
	code=$?
	took=$(($(date +%s) - from))
	at=$(sed -n 's/^seed \([0-9]*\): \([a-z]*\):.*/\1 (\2)/p' "$temp/out" | head -1)
	[ -z "$at" ] && [ $code -gt 128 ] && at="crashed ($code)"
	[ -n "$at" ] && found=$((found + 1))
	printf '%-28s %-22s %s\n' "$name" "${at:-not found}" "$took"
done
echo "$found of $all found"
[ "$found" -eq "$all" ]
