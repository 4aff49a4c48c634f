# Tidemark.
#
#   make demo         install what the program needs, build it, tell a story
#   make check        install what the tests need, build, run the tests
#   make check-fast   the tests that take seconds
#   make check-long   the tests that take minutes
#   make e2e          the program against a real node, which it installs
#   make check-loop   the real loop against real servers
#   make soak         ten minutes beside a node: memory and descriptors
#   make bench        figures, one line of JSON each
#
# CC=clang builds with clang, SAN=1 with ASan and UBSan, V=1 shows the commands.

comma  := ,
Q      := $(if $(V),,@)
B      := build$(if $(filter clang%,$(CC)),-clang)$(if $(SAN),-san)
WARN   := -Wall -Wextra -Werror -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes
SANITY := $(if $(SAN),-fsanitize=address$(comma)undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
# Dwarf 4, since Debian's valgrind does not read the 5 of clang.
CFLAGS ?= -O2 -g -gdwarf-4
FLAGS   = -std=c11 -D_POSIX_C_SOURCE=200809L $(WARN) -I. -MMD -MP $(CFLAGS) $(SANITY)
LIBS   := -llmdb -ljansson

SRC    := $(wildcard common/*.c store/*.c listener/*.c)
# The real loop is linked where it is used: its libraries are its own.
LOOP   := $(patsubst %.c,$B/%.o,listener/loop.c listener/loop_socket.c listener/loop_server.c)
LIB    := $(patsubst %.c,$B/%.o,$(filter-out listener/main.c listener/loop%.c,$(SRC)))
UNIT   := $(patsubst tests/unit/%.c,$B/tests/%,$(filter-out %/test_loop.c,$(wildcard tests/unit/test_*.c)))
REPLAY := $(patsubst tests/replay/%.c,$B/tests/%,$(wildcard tests/replay/replay_*.c))
BINARY := $(if $(wildcard listener/main.c),$B/tidemark)

all: $(BINARY)

# Building.

$B/tidemark: $B/listener/main.o $(LOOP) $B/libtidemark.a
	$(Q)$(CC) $(FLAGS) -o $@ $^ $(LIBS) -lwebsockets -lcurl

$B/libtidemark.a: $(LIB)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$B/tests/test_%: $B/tests/unit/test_%.o $B/libtidemark.a
	$(Q)$(CC) $(FLAGS) -o $@ $^ $(LIBS) -lcmocka -lwolfssl

$B/tests/test_loop: $B/tests/unit/test_loop.o $(LOOP) $B/libtidemark.a
	$(Q)$(CC) $(FLAGS) -o $@ $^ $(LIBS) -lwebsockets -lcurl -lcmocka

$B/tests/replay_%: $B/tests/replay/replay_%.o $B/tests/replay/harness.o $B/libtidemark.a
	$(Q)$(CC) $(FLAGS) -o $@ $^ $(LIBS) -lcmocka

$B/tests/bench: $B/tests/bench.o $B/libtidemark.a
	$(Q)$(CC) $(FLAGS) -o $@ $^ $(LIBS)

$B/tests/sim: $(patsubst tests/sim/%.c,$B/sim/%.o,$(wildcard tests/sim/*.c)) $B/libtidemark.a
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(FLAGS) -o $@ $^ $(LIBS)

$B/sim/%.o: tests/sim/%.c
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(FLAGS) -c -o $@ $<

$B/%.o: %.c
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(FLAGS) -c -o $@ $<

clean:
	rm -rf build build-*

# What Debian 12 must have.

SUDO     := $(if $(filter 0,$(shell id -u)),,sudo)
APT      := $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get
BUILD_PKGS := $(if $(filter clang%,$(CC)),clang,gcc) libc6-dev liblmdb-dev libjansson-dev libwebsockets-dev libcurl4-openssl-dev
TEST_PKGS  := $(sort $(BUILD_PKGS) gcc clang) libcmocka-dev libwolfssl-dev valgrind

install = @dpkg -s $(1) >/dev/null 2>&1 || { $(APT) update -qq && $(APT) install -y -qq $(1); }

deps:
	$(call install,$(BUILD_PKGS))

test-deps:
	$(call install,$(TEST_PKGS))

# Testing.

check-source: check-layers check-order check-calls

# common <- store <- listener; the pure files take no store, loop, log or clock; libraries are caged.
PURE := reader codec reply verify fork finality match http url secret
SOURCES := $(wildcard common/*.[ch] store/*.[ch] listener/*.[ch])
check-layers:
	@! grep -l '<lmdb.h>' $(SOURCES) | grep -v '^store/kv.c$$'
	@! grep -lE '<(libwebsockets|curl/curl)\.h>|"listener/loop_parts\.h"' $(SOURCES) | \
		grep -vE '^listener/loop(_parts\.h|(_socket|_server)?\.c)$$'
	@! grep -l '<jansson.h>' $(SOURCES) | grep -v '^common/json\.c$$'
	@! grep -nE '^#include "(store|listener)/' $(wildcard common/*.[ch])
	@! grep -nE '^#include "listener/' $(wildcard store/*.[ch])
	@! grep -nE '^#include "(store/|common/log|listener/(loop|rpc|reads|tracker|tape|gather|apply))|[^_a-z](time|clock_gettime|log_[a-z]+)\(' \
		$(wildcard $(PURE:%=listener/%.[ch]) common/intent.[ch])
	@! grep -nE '\.limb\b|->limb\b' $(filter-out common/types.c,$(SOURCES))

check-order:
	@for f in $(filter %.c,$(SOURCES)); do \
		grep '^#include "' $$f | tail -n +2 | LC_ALL=C sort -c 2>/dev/null || { echo "$$f: includes out of order"; exit 1; }; \
	done

check-calls:
	@! grep -nwE '(sprintf|strcpy|strcat|atoi|strtok|gets|scanf|alloca|gettimeofday)\(' $(SOURCES)

# Each program prints its cases; the last line of all counts them.
FAST   := $(UNIT) $(filter-out %_kill %_tamper %_sweep,$(REPLAY))
SLOW   := $(filter %_kill %_tamper %_sweep,$(REPLAY))
RUN    := TIDEMARK=$B/tidemark sh tests/run.sh

check-fast: all $(FAST) check-source
	@$(RUN) $(FAST)

check: test-deps
	@$(MAKE) --no-print-directory check-all

check-all: all $(FAST) $(SLOW) $B/tests/sim check-source
	@$(RUN) $(FAST) $(SLOW) tests/sim.sh tests/forge_same.sh tests/cli.sh tests/intent.sh $(if $(SAN),,tests/valgrind.sh)

# The real loop against real servers on this machine: sockets, TLS, signals, slow names.
LOOP_PKGS := $(TEST_PKGS) libwebsockets-dev libcurl4-openssl-dev openssl
check-loop:
	$(call install,$(LOOP_PKGS))
	@command -v node >/dev/null || $(APT) install -y -qq nodejs
	@$(MAKE) --no-print-directory $B/tests/test_loop
	@$(RUN) $B/tests/test_loop

# The program as a process, against a real anvil: make e2e E2E=tests/e2e/long.mjs SEED=7 takes one of them.
E2E ?= $(wildcard $(patsubst %,tests/e2e/%.mjs,basic tokens long hostile two latch names))
NODE_MODULES := tests/e2e/node_modules/.package-lock.json
node:
	@command -v node >/dev/null && command -v npm >/dev/null || { $(APT) update -qq && $(APT) install -y -qq nodejs npm; }

e2e: deps node
	@$(MAKE) --no-print-directory e2e-all

e2e-all: all $(NODE_MODULES)
	@$(RUN) $(E2E)

$(NODE_MODULES): tests/e2e/package-lock.json
	@cd tests/e2e && npm ci --ignore-scripts --loglevel=error >/dev/null
	@touch $@

# Ten minutes of blocks every 50 ms and a reorg every 20: memory and descriptors stay flat.  SOAK_S=60 is shorter.
soak: deps node
	@$(MAKE) --no-print-directory all $(NODE_MODULES)
	@TIDEMARK=$B/tidemark node tests/e2e/soak.mjs

# What takes minutes: thousands of places, in process.
check-long: test-deps
	@$(MAKE) --no-print-directory check-long-all

check-long-all: all $(SLOW)
	@TIDEMARK_TAMPER_PLACES=5000 TIDEMARK_KILLS=1000 SWEEP_PUTS=0 SWEEP_SCENARIOS=0 $(RUN) $(SLOW)

# A seeded, hostile world with an oracle of its own: make sim SEED=7 RUNS=100.
SEED ?= 1
RUNS ?= 1000
sim: deps
	@$(MAKE) --no-print-directory $B/tests/sim
	@$B/tests/sim --seed $(SEED) --runs $(RUNS)

# Faults planted by hand, each of which the simulator must find.
plants: deps
	$(call install,patch)
	@sh tests/plants.sh

# Figures.  BENCH_DIR is where the stores grow, up to 2 GB; on the disk that is to be measured.
BENCH_DIR ?= $B/bench
bench: deps node
	@$(MAKE) --no-print-directory all $B/tests/bench $(NODE_MODULES)
	@mkdir -p $(BENCH_DIR)
	@$B/tests/bench $(BENCH_DIR) $(wildcard ../shared/mainnet/mainnet-*.tape); code=$$?; rm -rf $(BENCH_DIR); exit $$code
	@TIDEMARK=$B/tidemark node tests/e2e/bench.mjs

demo: deps
	@$(MAKE) --no-print-directory $B/tidemark
	@$B/tidemark replay --story fixtures/demo.tape

# The git diff is the review.
golden-update: all $(FAST)
	@TIDEMARK_GOLDEN_UPDATE=1 $(RUN) $(FAST)

fixtures: $B/tidemark
	@for s in fixtures/*.scn; do $B/tidemark forge $$s >$${s%.scn}.tape || exit 1; done

-include $(shell find $B -name '*.d' 2>/dev/null)
.PHONY: all clean deps test-deps check check-all check-fast check-long check-long-all check-loop node e2e e2e-all soak bench demo fixtures sim plants \
	golden-update check-source check-layers check-order check-calls
.SECONDARY:
