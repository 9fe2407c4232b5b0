/* SPDX-License-Identifier: Apache-2.0
 *
 * replay.c - main() of a fuzz target built without a fuzzing engine: feeds it
 * every file of the given folders, N mutations of each, and N inputs of noise,
 * all from a fixed seed, so that a parser's corpus is an ordinary test. When the
 * target dies, the input that killed it is written down and named.
 *
 *     fuzz_x [-n N] [-o FILE] PATH...     PATH: a file or a folder of files
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define REPLAY_INPUT_MAX (1 << 20) /* bytes of one input; longer files are an error */
#define REPLAY_NOISE_MAX 4096      /* bytes of one input of noise */
#define REPLAY_FILES_MAX 10000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
void __sanitizer_set_death_callback(void (*call)(void)) __attribute__((weak));

/* What is being fed, for the report of a death. */
static struct {
	const char *path;  /* NULL: noise */
	unsigned mutation; /* 0: the file itself */
	const uint8_t *data;
	size_t size;
	const char *out;
	unsigned long inputs;
} replay_now;

static uint64_t replay_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static size_t replay_below(uint64_t *state, size_t n)
{
	return n ? (size_t)(replay_random(state) % n) : 0;
}

static void replay_dying(void)
{
	char line[512];
	int fd, n;

	fd = open(replay_now.out, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	n = snprintf(line, sizeof(line), "\nreplay: died on %s, mutation %u, %zu bytes: see %s\n",
		     replay_now.path ? replay_now.path : "noise", replay_now.mutation,
		     replay_now.size, fd < 0 ? "nothing (it cannot be written)" : replay_now.out);
	if (fd >= 0 && write(fd, replay_now.data, replay_now.size) < 0)
		n += 0;
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		_exit(1);
}

static void replay_signal(int sig)
{
	replay_dying();
	signal(sig, SIG_DFL);
	raise(sig);
}

static void replay_feed(const uint8_t *data, size_t size)
{
	/* A copy of the exact size: reading past its end is then seen. */
	uint8_t *copy = malloc(size ? size : 1);

	if (!copy)
		exit(3);
	memcpy(copy, data, size);
	replay_now.data = copy;
	replay_now.size = size;
	replay_now.inputs++;
	LLVMFuzzerTestOneInput(copy, size);
	replay_now.data = NULL;
	replay_now.size = 0;
	free(copy);
}

static void replay_word(uint64_t *state, uint8_t *data, size_t size)
{
	static const uint64_t words[] = {0,           1,           0x7f,      0x80,
					 0xff,        0x7fff,      0xffff,    0x7fffffff,
					 0x80000000u, 0xffffffffu, INT64_MAX, UINT64_MAX};
	uint64_t word = words[replay_below(state, sizeof(words) / sizeof(words[0]))];
	size_t width = (size_t)1 << replay_below(state, 4);

	if (size >= width)
		memcpy(data + replay_below(state, size - width + 1), &word, width);
}

/* Change data (room for REPLAY_INPUT_MAX) in one way; returns the new size. */
static size_t replay_mutate(uint64_t *state, uint8_t *data, size_t size)
{
	size_t at = replay_below(state, size), len = replay_below(state, size - at) % 64 + 1;
	size_t to = replay_below(state, size);

	if (size == 0) {
		data[0] = (uint8_t)replay_random(state);
		return 1;
	}
	switch (replay_below(state, 6)) {
	case 0:
		data[at] ^= (uint8_t)(1u << replay_below(state, 8));
		return size;
	case 1:
		data[at] = (uint8_t)replay_random(state);
		return size;
	case 2:
		replay_word(state, data, size);
		return size;
	case 3:
		return at; /* cut the end off */
	case 4:            /* take a piece out */
		len = len < size - at ? len : size - at;
		memmove(data + at, data + at + len, size - at - len);
		return size - len;
	default: /* repeat a piece elsewhere */
		len = len < size - at ? len : size - at;
		if (size + len > REPLAY_INPUT_MAX)
			return size;
		memmove(data + to + len, data + to, size - to);
		memmove(data + to, data + at, len);
		return size + len;
	}
}

static void replay_file(const char *path, unsigned mutations)
{
	static uint8_t whole[REPLAY_INPUT_MAX + 1], changed[REPLAY_INPUT_MAX];
	uint64_t state = 0x6c61707365;
	FILE *file = fopen(path, "rb");
	size_t size, n;
	unsigned i, k;

	if (!file) {
		fprintf(stderr, "replay: %s: %s\n", path, strerror(errno));
		exit(2);
	}
	size = fread(whole, 1, sizeof(whole), file);
	fclose(file);
	if (size > REPLAY_INPUT_MAX) {
		fprintf(stderr, "replay: %s: more than %d bytes\n", path, REPLAY_INPUT_MAX);
		exit(2);
	}
	replay_now.path = path;
	for (i = 0; i <= mutations; i++) {
		replay_now.mutation = i;
		memcpy(changed, whole, size);
		n = size;
		for (k = i ? 1 + (unsigned)replay_below(&state, 4) : 0; k > 0; k--)
			n = replay_mutate(&state, changed, n);
		replay_feed(changed, n);
	}
}

static void replay_folder(const char *path, unsigned mutations)
{
	struct dirent **names;
	char file[4096];
	int i, n = scandir(path, &names, NULL, alphasort);

	if (n < 0 || n > REPLAY_FILES_MAX) {
		fprintf(stderr, "replay: %s: %s\n", path,
			n < 0 ? strerror(errno) : "more than 10000 files");
		exit(2);
	}
	for (i = 0; i < n; i++) {
		snprintf(file, sizeof(file), "%s/%s", path, names[i]->d_name);
		if (names[i]->d_name[0] != '.')
			replay_file(file, mutations);
		free(names[i]);
	}
	free(names);
}

static void replay_noise(unsigned inputs)
{
	uint8_t noise[REPLAY_NOISE_MAX];
	uint64_t state = 0x6e6f697365;
	size_t i, size;
	unsigned n;

	replay_now.path = NULL;
	for (n = 0; n <= inputs; n++) { /* the first is empty */
		replay_now.mutation = n;
		size = n ? replay_below(&state, sizeof(noise) + 1) : 0;
		for (i = 0; i < size; i++)
			noise[i] = (uint8_t)replay_random(&state);
		replay_feed(noise, size);
	}
}

int main(int argc, char **argv)
{
	/* A sanitizer reports all of them but SIGABRT itself. */
	static const int deadly[] = {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE};
	unsigned mutations = 200;
	struct stat st;
	size_t i;
	int c;

	replay_now.out = "crash-input";
	while ((c = getopt(argc, argv, "n:o:")) != -1) {
		if (c == 'n')
			mutations = (unsigned)strtoul(optarg, NULL, 10);
		else if (c == 'o')
			replay_now.out = optarg;
		else
			return 2;
	}
	if (__sanitizer_set_death_callback)
		__sanitizer_set_death_callback(replay_dying);
	for (i = 0; i < (__sanitizer_set_death_callback ? 1 : 5); i++)
		signal(deadly[i], replay_signal);
	replay_noise(mutations);
	for (; optind < argc; optind++) {
		if (stat(argv[optind], &st) == 0 && S_ISDIR(st.st_mode))
			replay_folder(argv[optind], mutations);
		else
			replay_file(argv[optind], mutations);
	}
	printf("%lu inputs\n", replay_now.inputs);
	return 0;
}
