#!/bin/sh
# 500 seeds of the simulator without a violation, the plans that once had one, and one seed's run byte for
# byte the same twice.
sim=$(dirname "${TIDEMARK:-build/tidemark}")/tests/sim
"$sim" --seed 1 --runs "${SIM_RUNS:-500}" || exit 1
for plan in tests/sim/plans/*.plan; do
	"$sim" --plan "$plan" || exit 1
done
[ "$("$sim" --seed 7 --digest | grep -v seeds/s)" = "$("$sim" --seed 7 --digest | grep -v seeds/s)" ] || {
	echo "seed 7 gave two runs"
	exit 1
}
