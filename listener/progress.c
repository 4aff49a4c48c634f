#include "listener/progress.h"

#define BAR_MS 200
#define LINE_MS 60000
#define FAR_BLOCKS 8			/* less is the common pace of following */
#define BAR_CELLS 16			/* the whole fits 80 columns */
#define ERASE "\r\033[K"

struct progress progress_start(FILE *out, bool terminal, uint64_t chain_id)
{
	return (struct progress){ .out = out, .terminal = terminal, .chain_id = chain_id };
}

static double speed(const struct progress *p, int64_t now_ms, uint64_t tip_height)
{
	return (double)(tip_height - p->begun_height) * 1000 / (double)(now_ms - p->begun_ms);
}

static void put_speed(FILE *out, double blocks_per_s)
{
	fprintf(out, blocks_per_s < 10 ? "%.1f" : "%.0f", blocks_per_s);
}

/* Rounded up; 0: no telling. */
static unsigned long long left_s(double blocks_per_s, uint64_t blocks)
{
	double s = blocks_per_s > 0 ? (double)blocks / blocks_per_s : 0;

	return s < 1e9 ? (unsigned long long)(s + 0.999) : 0;
}

static void put_left(FILE *out, unsigned long long s)
{
	if (s >= 3600)
		fprintf(out, " %lluh%02llum left", s / 3600, s / 60 % 60);
	else if (s >= 60)
		fprintf(out, " %llum%02llus left", s / 60, s % 60);
	else if (s)
		fprintf(out, " %llus left", s);
}

/* The cursor is left at the line's start: another line goes over the bar, not behind it. */
static void put_bar(struct progress *p, double blocks_per_s, uint64_t tip, uint64_t head)
{
	unsigned full = (unsigned)((tip - p->begun_height) * BAR_CELLS / (head - p->begun_height));

	fprintf(p->out, ERASE "chain %llu [", (unsigned long long)p->chain_id);
	for (unsigned i = 0; i < BAR_CELLS; i++)
		fputc(i < full ? '#' : '.', p->out);
	fprintf(p->out, "] %llu/%llu ", (unsigned long long)tip, (unsigned long long)head);
	put_speed(p->out, blocks_per_s);
	fputs(" blocks/s", p->out);
	put_left(p->out, left_s(blocks_per_s, head - tip));
	fputc('\r', p->out);
	fflush(p->out);
	p->shown = true;
}

static void put_line(struct progress *p, double blocks_per_s, uint64_t tip, uint64_t head)
{
	unsigned long long left = left_s(blocks_per_s, head - tip);

	fprintf(p->out, "catching up chain=%llu at=%llu head=%llu blocks_per_s=", (unsigned long long)p->chain_id,
		(unsigned long long)tip, (unsigned long long)head);
	put_speed(p->out, blocks_per_s);
	if (left)
		fprintf(p->out, " left_s=%llu", left);
	fputc('\n', p->out);
	fflush(p->out);
}

void progress_step(struct progress *p, int64_t now_ms, uint64_t tip_height, uint64_t head_height)
{
	if (tip_height >= head_height) {
		progress_done(p);
		return;
	}
	if (!p->begun && head_height - tip_height < FAR_BLOCKS)
		return;
	/* A rollback, or a clock set back, begins anew. */
	if (!p->begun || tip_height < p->begun_height || now_ms < p->told_ms) {
		p->begun = true;
		p->begun_ms = p->told_ms = now_ms;
		p->begun_height = tip_height;
	}
	if (now_ms - p->told_ms < (p->terminal ? BAR_MS : LINE_MS))
		return;
	p->told_ms = now_ms;
	(p->terminal ? put_bar : put_line)(p, speed(p, now_ms, tip_height), tip_height, head_height);
}

void progress_done(struct progress *p)
{
	if (p->shown) {
		fputs(ERASE, p->out);
		fflush(p->out);
	}
	p->begun = p->shown = false;
}
