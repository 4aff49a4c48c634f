/*
 * download - the least that catching up can take: the same answers, thrown away.
 *
 *     download URL FIRST LAST    eth_getBlockByNumber, then eth_getBlockReceipts by its hash, 8 blocks in flight
 *
 * Prints one line of JSON.
 */
#include <curl/curl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FLIGHTS 8

struct flight {
	CURL *easy;
	char body[256];
	unsigned long height;
	bool receipts;		/* the second of its two questions */
	char *answer;
	size_t len, cap;
};

static unsigned long next_height, last_height, bytes;

static void die(const char *what)
{
	fprintf(stderr, "download: %s\n", what);
	exit(EXIT_FAILURE);
}

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static size_t take(char *data, size_t size, size_t count, void *ctx)
{
	struct flight *f = ctx;
	size_t n = size * count;

	if (f->len + n + 1 > f->cap) {
		f->cap = (f->len + n + 1) * 2;
		f->answer = realloc(f->answer, f->cap);
		if (!f->answer)
			die("no memory");
	}
	memcpy(f->answer + f->len, data, n);
	f->len += n;
	f->answer[f->len] = '\0';
	bytes += n;
	return n;
}

static void ask(CURLM *multi, struct flight *f)
{
	f->len = 0;
	curl_easy_setopt(f->easy, CURLOPT_POSTFIELDS, f->body);
	if (curl_multi_add_handle(multi, f->easy))
		die("a request cannot be made");
}

static void ask_block(CURLM *multi, struct flight *f)
{
	if (next_height > last_height)
		return;
	f->height = next_height++;
	f->receipts = false;
	snprintf(f->body, sizeof(f->body),
		 "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_getBlockByNumber\",\"params\":[\"0x%lx\",false]}", f->height);
	ask(multi, f);
}

static void ask_receipts(CURLM *multi, struct flight *f)
{
	static const char key[] = "\"hash\":\"";
	const char *hash = f->answer ? strstr(f->answer, key) : NULL;

	if (!hash)
		die("a block without a hash");
	f->receipts = true;
	snprintf(f->body, sizeof(f->body),
		 "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_getBlockReceipts\",\"params\":[\"%.66s\"]}", hash + strlen(key));
	ask(multi, f);
}

static void answered(CURLM *multi, CURLMsg *m)
{
	struct flight *f;

	if (m->data.result)
		die(curl_easy_strerror(m->data.result));
	curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&f);
	curl_multi_remove_handle(multi, f->easy);
	if (f->receipts)
		ask_block(multi, f);
	else
		ask_receipts(multi, f);
}

static void start(struct flight *f, const char *url, struct curl_slist *headers)
{
	f->easy = curl_easy_init();
	if (!f->easy)
		die("no memory");
	curl_easy_setopt(f->easy, CURLOPT_URL, url);
	curl_easy_setopt(f->easy, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(f->easy, CURLOPT_WRITEFUNCTION, take);
	curl_easy_setopt(f->easy, CURLOPT_WRITEDATA, f);
	curl_easy_setopt(f->easy, CURLOPT_PRIVATE, f);
	curl_easy_setopt(f->easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(f->easy, CURLOPT_PROXY, "");
}

int main(int argc, char **argv)
{
	static struct flight flights[FLIGHTS];
	struct curl_slist *headers = curl_slist_append(NULL, "content-type: application/json");
	CURLM *multi = curl_multi_init();
	unsigned long first;
	int running = 1, left;
	double begun;
	CURLMsg *m;

	if (argc != 4 || !multi)
		die("usage: download URL FIRST LAST");
	first = next_height = strtoul(argv[2], NULL, 10);
	last_height = strtoul(argv[3], NULL, 10);
	begun = now_s();
	for (int i = 0; i < FLIGHTS; i++) {
		start(&flights[i], argv[1], headers);
		ask_block(multi, &flights[i]);
	}
	while (running) {
		curl_multi_perform(multi, &running);
		while ((m = curl_multi_info_read(multi, &left))) {
			if (m->msg == CURLMSG_DONE) {
				answered(multi, m);
				running = 1;
			}
		}
		if (running)
			curl_multi_poll(multi, NULL, 0, 100, NULL);
	}
	printf("{\"blocks\":%lu,\"bytes\":%lu,\"s\":%.3f}\n", last_height - first + 1, bytes, now_s() - begun);
	for (int i = 0; i < FLIGHTS; i++) {
		curl_easy_cleanup(flights[i].easy);
		free(flights[i].answer);
	}
	curl_multi_cleanup(multi);
	curl_slist_free_all(headers);
	return EXIT_SUCCESS;
}
