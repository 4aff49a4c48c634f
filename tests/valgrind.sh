#!/bin/sh
# One replay with a reorg under valgrind: no error, nothing lost.
valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=all \
	"${TIDEMARK:-build/tidemark}" replay fixtures/reorg_moved.tape >/dev/null
