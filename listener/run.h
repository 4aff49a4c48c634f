/*
 * run - the daemon: follows the configured chains beside their nodes, for days.
 *
 * One loop, one thread.  What happens is committed, then written to the sink and answered:
 *     a head, an answer, a timer -> tracker -> commit -> sink
 *     a request on the socket -> api, gathered; the turn's end -> one commit -> sink, answers
 *
 * If it is killed: before a commit nothing happened; after it the sink goes on from where its file ends.
 */
#ifndef LISTENER_RUN_H
#define LISTENER_RUN_H

#include "listener/settings.h"

#define SOCKET_NAME "tidemark.sock"

/*
 * Follow until a signal asks to stop; OK then.  Else one line in @why: what cannot be opened, a second daemon on the
 * store (with the pid of the first), a chain of which every endpoint is another one, a failed disk.
 */
MUST_CHECK enum err run_daemon(struct settings *settings, struct complaint *why);

/* Words after "run"; the exit code. */
int cli_run(int argc, char **argv);
extern const char cli_run_help[];

#endif
