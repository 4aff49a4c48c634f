#!/bin/sh
# The tapes in fixtures/ are what the forge makes of the scenarios beside them.
code=0
for scenario in fixtures/*.scn; do
	"${TIDEMARK:-build/tidemark}" forge "$scenario" | cmp - "${scenario%.scn}.tape" || code=1
done
exit $code
