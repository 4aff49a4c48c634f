/*
 * provider - one endpoint: its socket, its requests, what it says of head,
 * tags and our last final block, and its health.
 *
 * Its health is a table with every cell filled, so that no peer can abort us.
 * An endpoint that cannot be reached, lags, lies or contradicts is set aside and
 * counted; what it taught stays, since everything is proven by hash.
 */
#ifndef LISTENER_PROVIDER_H
#define LISTENER_PROVIDER_H

#include "listener/config.h"
#include "listener/rpc.h"

enum health {
	HEALTH_CONNECTING,
	HEALTH_CHECKING,	/* asked whether it is the chain that we are told to follow */
	HEALTH_LIVE,
	HEALTH_BEHIND,		/* its head is old beside another's */
	HEALTH_BACKOFF,		/* closed, silent or set aside: tried again later */
	HEALTH_WRONG,		/* another chain, or other tokens: quarantined, and alarmed */
};
#define HEALTHS 6

enum health_event {
	HEV_OPENED,		/* the socket is open, and a subscription asked for */
	HEV_CHECKED,		/* it is the chain that we are told to follow */
	HEV_WRONG,		/* it is not */
	HEV_CLOSED,
	HEV_SILENT,		/* several requests in a row had no usable answer */
	HEV_LIED,		/* several answers in a row did not hold, or it denies what is final */
	HEV_DEAF,		/* several new heads in a row were polled, and none announced */
	HEV_LAGS,
	HEV_CAUGHT_UP,
	HEV_RETRY,		/* the time to wait is over */
};
#define HEALTH_EVENTS 10

const char *health_name(enum health h);
/* The table as text, one line a cell, for the golden file. */
void health_print_table(struct buf *out);

/* A head as announced; what is more than its hash is known once its header verified. */
struct head {
	bool known;
	struct hash32 hash;
	bool verified;
	uint64_t height;
	int64_t time_s;
	struct loop_times heard;	/* when it was first announced */
};

/* What it says of a tag.  Believed by the rules in reads_votes.c. */
struct tag_reading {
	bool wanted;
	bool known;
	struct hash32 hash;	/* the believed one */
	uint64_t height;
	bool doubted;		/* a newer one waits to be believed */
	struct hash32 newer;
	uint64_t newer_height;
	int64_t newer_ms;	/* first heard then; steady */
	struct fetch fetch;
};

/* What it says stands at the height of our lowest watermark. */
struct floor_reading {
	uint64_t height;
	uint64_t round;
	bool known;
	struct hash32 hash;
	unsigned unanswered;	/* rounds in a row */
	int64_t since_ms;	/* the first of them began; steady */
	struct fetch fetch;
};

/* The genesis block that all endpoints must have; the first that is checked tells it where nobody knows. */
struct genesis {
	bool known;
	struct hash32 hash;
};

/* The questions after a connect; judged when the last is answered. */
struct provider_check {
	unsigned round;
	unsigned left;
	bool failed;			/* one had no usable answer */
	struct complaint why;		/* what is wrong; empty: nothing */
	struct complaint token_why;	/* with a token: wrong unless it is syncing */
	bool has_genesis;
	struct hash32 genesis;
};

struct provider;

/* Who owns it: told what happens, from the loop's turn. */
struct provider_owner {
	void (*on_head)(void *ctx, struct provider *p, struct slice header);
	void (*changed)(void *ctx);
	void *ctx;
};

struct provider {
	struct endpoint_urls at;		/* borrowed */
	unsigned index;
	struct provider_owner owner;
	const struct chain_config *config;
	struct genesis *genesis;	/* shared with the others */
	struct rpc rpc;
	struct loop_socket socket;
	struct loop_timer retry;
	enum health health;
	struct complaint why;	/* why it is so */
	struct provider_check check;
	bool subscribed;
	bool syncing;			/* as it said at the connect */
	bool lacks_block_receipts;	/* it has no such method */
	unsigned closings;		/* one after another: the wait doubles */
	unsigned lies;			/* in a row */
	unsigned unannounced;		/* new heads in a row that only the poll told */
	bool was_deaf;			/* and not one was announced since it was left for that */
	uint64_t polled_height;		/* of the last head, polled or announced */
	uint64_t set_aside;		/* how often it was, since the start */
	uint64_t answers_refused;	/* what did not hold */
	uint64_t tags_lower;		/* a tag went back */
	struct head head;
	bool unfounded;			/* nobody had what its head stands on; until one of its heads links to ours */
	struct fetch head_fetch;
	struct tag_reading tags[TAGS];
	struct floor_reading floor;
};

/* Connect.  @p stays where it is until provider_stop(). */
void provider_start(struct provider *p, struct loop *loop, const struct endpoint_urls *at, unsigned index,
		    const struct chain_config *config, struct genesis *genesis, const struct provider_owner *owner);
/* All its calls must have ended. */
void provider_stop(struct provider *p);

/* A request of it ended: perhaps one more without a usable answer. */
void provider_heard(struct provider *p);
/* A result of it was proven, or did not hold. */
void provider_judged(struct provider *p, bool held);
void provider_event(struct provider *p, enum health_event ev);
bool provider_is_live(const struct provider *p);
/* It asked to be left alone for a while. */
bool provider_is_throttled(const struct provider *p);

/* Ask whether it is the chain that we are told to follow; an event of its health tells. */
void provider_check(struct provider *p);

/* Ask for its latest block; on_head tells. */
void provider_ask_head(struct provider *p);

#endif
