#!/bin/sh
# The tapes in fixtures/ are what the forge makes of the scenarios beside them.
forge=$(dirname "${TIDEMARK:-build/tidemark}")/tests/forge
code=0
for scenario in fixtures/*.scn; do
	"$forge" "$scenario" | cmp - "${scenario%.scn}.tape" || code=1
done
exit $code
