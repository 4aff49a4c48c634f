/*
 * secret - keys in URLs, and texts of endpoints that may repeat them.
 *
 * Pure.
 */
#ifndef LISTENER_SECRET_H
#define LISTENER_SECRET_H

/*
 * Cut out of @text, in place, whatever of @url could be a key: user, password, each segment of the path and each value of the
 * query, of 6 bytes or more.  A "***" stands for each.  They are found in either case, percent-encoded or not, and also by
 * their first 6 bytes or more, since who repeats a text may cut it; then to the end of the word.  @text does not get longer.
 */
void secret_cut(const char *url, char *text);

#endif
