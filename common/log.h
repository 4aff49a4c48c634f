/*
 * log - one line per decision on stderr, as key=value after a short verb:
 *     odd: receipts refused block=0x12.. why="receipts root differs"
 *
 * debug is for a developer, info for an operator, odd for what a peer did
 * wrong, broken for what we did wrong: a broken line fails any test.
 * The pure files and the store's operations do not log.
 */
#ifndef COMMON_LOG_H
#define COMMON_LOG_H

#include "common/types.h"

enum log_level {
	LOG_DEBUG,
	LOG_INFO,
	LOG_ODD,
	LOG_BROKEN,
};

/* Lines below @level are dropped.  The level at start is LOG_ODD. */
void log_set_level(enum log_level level);
void log_line(enum log_level level, const char *fmt, ...) PRINTF_LIKE(2, 3);

#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)
#define log_info(...) log_line(LOG_INFO, __VA_ARGS__)
#define log_odd(...) log_line(LOG_ODD, __VA_ARGS__)
#define log_broken(...) log_line(LOG_BROKEN, __VA_ARGS__)

#endif
