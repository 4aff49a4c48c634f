/*
 * url - the parts of a URL, and what of it may be shown.
 *
 * Pure.  Lenient: any text has parts; those that it lacks are empty.  The slices borrow from the text.
 */
#ifndef LISTENER_URL_H
#define LISTENER_URL_H

#include "common/types.h"

#define URL_HOST_TEXT 256

struct url {
	struct slice scheme;		/* without "://" */
	struct slice user, password;	/* as they are written: percent-encoded */
	struct slice host;		/* an IPv6 address has its brackets */
	struct slice port;		/* whatever stands behind the host's colon */
	struct slice path;		/* with its first slash */
	struct slice query;		/* without "?"; a fragment is no part, for nobody is sent it */
};

struct url url_split(const char *text);

/*
 * Whether both lead to the same place: the case of scheme and host does not count, nor whether the scheme's own port
 * or a lone "/" is written.
 */
bool url_same(const char *a, const char *b);

/* Host and port, all of a URL that may be shown; "?" if they do not look like it.  Returns @out. */
const char *url_host(const char *text, char out[URL_HOST_TEXT]);

#endif
