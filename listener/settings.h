/*
 * settings - what `tidemark run` is told: chains with their endpoints, and where things go.
 *
 * From a configuration file, which is JSON; options of the command line go over it.
 */
#ifndef LISTENER_SETTINGS_H
#define LISTENER_SETTINGS_H

#include "listener/config.h"
#include "listener/loop_real.h"

#define CHAINS_MAX 8

struct chain_settings {
	struct chain_config config;	/* chain_id 0: the endpoint is asked, and its preset taken */
	struct endpoint_urls endpoints[PROVIDERS_MAX];
	unsigned endpoint_count;
};

struct settings {
	const char *store;		/* folder */
	const char *events;		/* file, "-" for stdout, or NULL */
	char *listen_host;		/* owned; an IPv6 address without brackets; NULL: only the unix socket */
	int listen_port;		/* 0: any free one */
	struct loop_real_options loop;
	size_t map_bytes, map_max_bytes;	/* 0: the store's default */
	struct chain_settings chains[CHAINS_MAX];
	unsigned chain_count;
	struct json_doc *doc;		/* owns what the strings borrow; NULL: no file */
};

/* The store's folder, and else nothing.  Freed with settings_free(). */
struct settings settings_default(void);

/*
 * Read the file over *@s; its chains take the place of those that are there.  A chain in it starts from its preset, if
 * there is one; its tokens and its finality take the place of the preset's.  E_IO or E_INPUT with one line in
 * @why that names file and place ("config.json: chains[0].tokens[1].address: 39 hex digits, want 40"), never more of a
 * URL than its host; *@s is then as it was.  Once for a struct settings.
 */
MUST_CHECK enum err settings_read(const char *path, struct settings *s, struct complaint *why);
/* Take "HOST:PORT" or "[ADDRESS]:PORT"; false, and nothing is changed, if it is none. */
MUST_CHECK bool settings_parse_listen(const char *text, struct settings *s);
/*
 * Whether the whole may run: each chain has endpoints of the right kind, none twice, and, where its id is known, tokens
 * and finality; no chain is there twice.  E_INPUT with @why, which may be shown.
 */
MUST_CHECK enum err settings_check(const struct settings *s, struct complaint *why);
void settings_free(struct settings *s);

#endif
