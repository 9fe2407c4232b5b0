/* SPDX-License-Identifier: Apache-2.0
 *
 * notes.c - what was not as it should be, counted by kind, with the first place.
 */
#include "trace/reading.h"

#include <stdarg.h>
#include <stdio.h>

const struct trace_note_row trace_note_rows[] = {
	[NOTES_TRUNCATED] = {"truncated", "The text ends before its closing bracket.",
			     "All complete events are kept, what followed them is lost."},
	[NOTES_COMPRESSION] = {"compression", "The compressed data ends early or is damaged.",
			       "What could be decompressed before it is read."},
	[NOTES_EVENT_LOST] = {"event-lost", "An event is no JSON and too little of it is clear.",
			      "The event is left out; reading goes on at the next one."},
	[NOTES_EVENT_MENDED] = {"event-mended", "An event is no JSON, but its parts are clear.",
				"The event is kept, of what could be told apart."},
	[NOTES_UNESCAPED_QUOTE] = {"unescaped-quote", "A text holds a quote without backslash.",
				   "The quote is taken as part of the text."},
	[NOTES_MISSING_QUOTE] = {"missing-quote", "A text does not end in a quote.",
				 "The text ends where the next key or line begins."},
	[NOTES_BARE_WORD] = {"bare-word", "A value is a word without quotes, such as N/A.",
			     "The value is taken as missing."},
	[NOTES_NON_FINITE] = {"non-finite", "A number is NaN or infinite where one is needed.",
			      "The value is taken as missing, or kept where it may be."},
	[NOTES_BAD_NUMBER] = {"bad-number", "A value that must be a number is none.",
			      "The value is taken as missing."},
	[NOTES_NUMBER_RANGE] = {"number-range", "A number does not fit 64 bits.",
				"The nearest number that fits is taken."},
	[NOTES_DUPLICATE_KEY] = {"duplicate-key", "An event has the same key twice.",
				 "The last value counts."},
	[NOTES_CONTROL] = {"control-character", "A text holds raw control characters.",
			   "They are kept in the text; counted once a text."},
	[NOTES_NOT_UTF8] = {"not-utf8", "A text holds bytes that are not UTF-8.",
			    "They are kept in the text; counted once a text."},
	[NOTES_BAD_ESCAPE] = {"bad-escape", "A backslash in a text is followed by no escape.",
			      "The backslash is kept."},
	[NOTES_COMMA] = {"comma", "A comma too many or too few.", "It is passed over."},
	[NOTES_BETWEEN] = {"between-events", "Something between events is no event.",
			   "It is passed over up to the next event."},
	[NOTES_BOM] = {"byte-order-mark", "The text begins with a byte order mark.",
		       "It is passed over."},
	[NOTES_TEXT_CUT] = {"text-cut", "A text is longer than 16 MiB.", "Its beginning is kept."},
	[NOTES_NO_TIME] = {"no-time", "A complete event has no ts that is a number.",
			   "The event is set aside: kept as broken, left out of all analyses."},
	[NOTES_ZERO_EVENT] = {"zero-event", "Events of ts 0 and dur 0 beside real times.",
			      "They are set aside: kept as broken, left out of all analyses."},
	[NOTES_FAR_TIME] = {"far-time",
			    "Events a day or more away from the rest, or longer than two days.",
			    "They are set aside: kept as broken, left out of all analyses."},
	[NOTES_NEGATIVE_DUR] = {"negative-dur", "Events that last less than nothing.",
				"They are kept as they are, and marked."},
	[NOTES_UNPAIRED] = {"unpaired", "A B event without E, or an E without B.",
			    "It is left out."},
	[NOTES_TRACKS_FULL] = {"tracks-full", "More than 65535 pairs of pid and tid.",
			       "Events of further ones are all in the last track."},
	[NOTES_MEMORY_FULL] = {"memory-full", "Texts and arguments need more than the budget.",
			       "Further new argument texts are left out; times are complete."},
	[NOTES_ROWS_FULL] = {"rows-full", "More than 2^32 complete events.",
			     "Further ones are left out."},
	[NOTES_META] = {"metadata", "A value of the top object cannot be read.",
			"The value is taken as missing."},
	[NOTES_KINDS] = {NULL, NULL, NULL},
};

void notes_add(struct trace *t, enum notes_kind kind, uint64_t offset, const char *fmt, ...)
{
	struct trace_note *n = &t->notes[kind];
	va_list ap;

	/* These are counted once a text, whose id stays known when its event is read again. */
	if (kind != NOTES_CONTROL && kind != NOTES_NOT_UTF8)
		t->noted[t->n_noted++ % NOTES_LOG] = (uint8_t)kind;
	if (n->count++)
		return;
	n->kind = kind;
	n->offset = offset;
	va_start(ap, fmt);
	vsnprintf(n->text, sizeof(n->text), fmt, ap);
	va_end(ap);
}

void notes_undo(struct trace *t, uint64_t since)
{
	for (unsigned i = 0; i < NOTES_LOG && t->n_noted > since; i++)
		t->notes[t->noted[--t->n_noted % NOTES_LOG]].count--;
}

void notes_close(struct trace *t)
{
	for (unsigned i = 0; i < NOTES_KINDS; i++)
		if (t->notes[i].count)
			t->notes[t->n_notes++] = t->notes[i];
}

const char *notes_show(const unsigned char *p, const unsigned char *end, char out[64])
{
	size_t n = 0;

	if (p >= end)
		return "the end of the text";
	out[n++] = '\'';
	for (; p < end && n < 41; p++)
		out[n++] = *p >= ' ' && *p < 127 ? (char)*p : '.';
	out[n++] = '\'';
	out[n] = '\0';
	return out;
}
