/* SPDX-License-Identifier: Apache-2.0
 *
 * charlm.c - trains a small character-level language model and records how it
 * goes with lapse. Every call into lapse is in this file; remove them and the
 * program prints the same.
 *
 * Reading order: main(), train(), train_step().
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lapse/lapse.h>

#include "adamw.h"
#include "checkpoint.h"
#include "gradcheck.h"
#include "meter.h"
#include "model.h"
#include "options.h"
#include "pool.h"
#include "random.h"
#include "result.h"
#include "text.h"

/* Held-out batches of one evaluation: always the same ones, spread evenly. */
#define TRAIN_EVAL_BATCHES 8

/* What is recorded. The handles are inert while lapse is not open. */
struct train_metrics {
	struct lapse_metric loss, val_loss, grad_norm, rate, tokens;
};

struct train {
	const struct options *opt;
	struct text text;
	struct model model;
	struct adamw adamw;
	struct pool pool;
	struct meter meter;
	struct random_state random;
	struct train_metrics metrics;
	uint8_t *in, *target; /* the batch: batch x context characters each */
	double shard_loss[MODEL_SHARDS];
	/* The latest of each, and where the run stands. */
	double loss, val_loss, best_val_loss, grad_norm, rate;
	int64_t step, started, line_step, line_time;
	int failed; /* a file could not be written */
};

/* ---- one step ---------------------------------------------------------- */

/* The first sequence of shard k in a batch; that of shard k + 1 ends it. */
static size_t train_first(const struct train *t, size_t k)
{
	return (size_t)t->opt->batch * k / MODEL_SHARDS;
}

static size_t train_tokens(const struct train *t)
{
	return (size_t)t->opt->batch * (size_t)t->opt->context;
}

static void train_forward_shard(void *arg, size_t k)
{
	struct train *t = arg;
	size_t first = train_first(t, k), at = first * (size_t)t->opt->context;

	t->shard_loss[k] = model_forward(&t->model, k, t->in + at, t->target + at,
					 train_first(t, k + 1) - first);
}

static void train_backward_shard(void *arg, size_t k)
{
	struct train *t = arg;
	size_t first = train_first(t, k), at = first * (size_t)t->opt->context;

	model_backward(&t->model, k, t->in + at, t->target + at, train_first(t, k + 1) - first,
		       1 / (real)train_tokens(t));
}

/* Mean loss of the batch, nat per character. */
static double train_batch_loss(struct train *t)
{
	double sum = 0;

	pool_run(&t->pool, train_forward_shard, t, MODEL_SHARDS);
	for (size_t k = 0; k < MODEL_SHARDS; k++)
		sum += t->shard_loss[k];
	return sum / (double)train_tokens(t);
}

static void train_data(struct train *t)
{
	LAPSE_SCOPE("data");
	int64_t start = meter_now();

	text_random_batch(&t->text.train, &t->random, t->in, t->target, (size_t)t->opt->batch,
			  (size_t)t->opt->context);
	meter_add(&t->meter, METER_DATA, start);
}

static void train_forward(struct train *t)
{
	LAPSE_SCOPE("forward");
	int64_t start = meter_now();

	t->loss = train_batch_loss(t);
	meter_add(&t->meter, METER_FORWARD, start);
}

static void train_backward(struct train *t)
{
	LAPSE_SCOPE("backward");
	int64_t start = meter_now();

	pool_run(&t->pool, train_backward_shard, t, MODEL_SHARDS);
	meter_add(&t->meter, METER_BACKWARD, start);
}

static double train_seconds(const struct train *t)
{
	return (double)(meter_now() - t->started) / 1e9;
}

/* How far the run is, 0 to 1: the limit that is nearer counts. */
static double train_progress(const struct train *t)
{
	double steps = (double)(t->step - 1) / (double)t->opt->steps;

	return t->opt->seconds > 0 ? fmax(steps, train_seconds(t) / t->opt->seconds) : steps;
}

static void train_optimize(struct train *t)
{
	LAPSE_SCOPE("optimizer");
	int64_t start = meter_now();

	t->rate = adamw_rate(t->opt->rate, t->step - 1, train_progress(t));
	t->grad_norm = adamw_gather(&t->adamw, &t->model, t->opt->clip);
	adamw_update(&t->adamw, &t->model, t->rate, t->opt->decay);
	meter_add(&t->meter, METER_OPTIMIZER, start);
}

static void train_step(struct train *t)
{
	int64_t start = meter_now();

	lapse_step_begin(t->step);
	train_data(t);
	train_forward(t);
	train_backward(t);
	train_optimize(t);

	/* Everything about this step in one record. */
	const struct lapse_value values[] = {
		{t->loss, t->metrics.loss},
		{t->grad_norm, t->metrics.grad_norm},
		{t->rate, t->metrics.rate},
		{(double)train_tokens(t), t->metrics.tokens},
	};
	lapse_log(values, sizeof(values) / sizeof(values[0]));
	lapse_step_end((double)t->opt->batch, (double)train_tokens(t));
	meter_add(&t->meter, METER_STEP, start);
}

/* ---- between steps ------------------------------------------------------ */

static void train_checkpoint(struct train *t)
{
	const char *path = t->opt->checkpoint;
	int error = checkpoint_write(path, &t->model, &t->text);

	if (error) {
		fprintf(stderr, "charlm: checkpoint %s: %s; training goes on\n", path,
			strerror(-error));
		lapse_event(LAPSE_ERROR, "checkpoint", "the checkpoint could not be written", NULL);
		t->failed = 1;
	} else {
		lapse_event(LAPSE_INFO, "checkpoint", path, NULL);
	}
}

/* Mean loss over the held-out batches; tells lapse when it is the best so far. */
static void train_evaluate(struct train *t)
{
	LAPSE_SCOPE("eval");
	int64_t start = meter_now();
	size_t batch = (size_t)t->opt->batch;
	double sum = 0;

	for (size_t i = 0; i < TRAIN_EVAL_BATCHES; i++) {
		text_even_batch(&t->text.held, i * batch, TRAIN_EVAL_BATCHES * batch, t->in,
				t->target, batch, (size_t)t->opt->context);
		sum += train_batch_loss(t);
	}
	t->val_loss = sum / TRAIN_EVAL_BATCHES;
	lapse_set(t->metrics.val_loss, t->val_loss);
	meter_add(&t->meter, METER_EVAL, start);
}

static void train_note_best(struct train *t)
{
	char text[64], attrs[64];

	if (!(t->val_loss < t->best_val_loss) && !isnan(t->best_val_loss))
		return;
	t->best_val_loss = t->val_loss;
	if (!isfinite(t->val_loss))
		return;
	snprintf(text, sizeof(text), "best validation loss so far: %.4f", t->val_loss);
	snprintf(attrs, sizeof(attrs), "{\"val_loss\": %.9g}", t->val_loss);
	lapse_event(LAPSE_INFO, "eval", text, attrs);
	if (t->opt->checkpoint)
		train_checkpoint(t);
}

static void train_print(struct train *t, int evaluated)
{
	int64_t now = meter_now();
	double samples = (double)((t->step - t->line_step) * t->opt->batch);
	double rate = samples / ((double)(now - t->line_time) / 1e9);
	char val[16] = "-";

	if (evaluated)
		snprintf(val, sizeof(val), "%.4f", t->val_loss);
	printf("step %6" PRId64 "  loss %.4f  val %-6s  samples/s %.0f  tokens/s %.0f  "
	       "lr %.5f  grad_norm %.3f\n",
	       t->step, t->loss, val, rate, rate * (double)t->opt->context, t->rate, t->grad_norm);
	t->line_step = t->step;
	t->line_time = now;
}

static int train_more(const struct train *t)
{
	return t->step < t->opt->steps &&
	       (t->opt->seconds <= 0 || train_seconds(t) < t->opt->seconds);
}

static void train(struct train *t)
{
	t->started = t->line_time = meter_now();
	while (train_more(t)) {
		int last, evaluate;

		t->step++;
		train_step(t);
		last = !train_more(t);
		evaluate = last || t->step % t->opt->eval_every == 0;
		if (evaluate) {
			train_evaluate(t);
			train_note_best(t);
		}
		if (evaluate || t->step % t->opt->log_every == 0)
			train_print(t, evaluate);
	}
	if (t->step == 0) { /* no training: say how good the weights are */
		train_evaluate(t);
		t->best_val_loss = t->val_loss;
	}
}

/* ---- after training ----------------------------------------------------- */

static void train_report(struct train *t)
{
	double samples = (double)(t->step * t->opt->batch);
	struct result r = {
		.steps = t->step,
		.final_loss = t->loss,
		.val_loss = t->val_loss,
		.best_val_loss = t->best_val_loss,
		.samples = samples,
		.tokens = samples * (double)t->opt->context,
		.seconds = train_seconds(t),
	};
	int error = 0;

	for (int i = 0; i < METER_PHASES; i++)
		r.phase[i] = meter_summary(&t->meter, (enum meter_phase)i);
	result_print(&r);
	if (t->opt->summary)
		error = result_write(&r, t->opt->summary);
	if (error) {
		fprintf(stderr, "charlm: summary %s: %s\n", t->opt->summary, strerror(-error));
		t->failed = 1;
	}
}

/* Draw a character with the model's probabilities. */
static size_t train_draw(struct train *t, const real *probability)
{
	double place = random_uniform(&t->random);
	size_t i;

	for (i = 0; i + 1 < t->text.vocab && place >= (double)probability[i]; i++)
		place -= (double)probability[i];
	return i;
}

/* Let the model go on from some held-out text: predict, draw, append, and again.
 * Characters after the place of the prediction are not looked at, so that they
 * may hold anything. */
static void train_sample(struct train *t)
{
	const struct text_part *held = &t->text.held;
	size_t length = (size_t)t->opt->context, have = (length + 1) / 2;

	text_even_batch(held, 1, 3, t->in, t->target, 1, length);
	printf("\nsample, after \"");
	for (size_t i = 0; i < have; i++)
		putchar(t->text.symbol[t->in[i]]);
	printf("\":\n");
	for (int64_t i = 0; i < t->opt->sample; i++) {
		size_t next;

		model_forward(&t->model, 0, t->in, t->target, 1);
		next = train_draw(t, model_probabilities(&t->model, 0, have - 1));
		if (have == length)
			memmove(t->in, t->in + 1, --have);
		t->in[have++] = (uint8_t)next;
		putchar(t->text.symbol[next]);
	}
	putchar('\n');
}

/* ---- start and end ------------------------------------------------------ */

static void train_attr_int(const char *key, int64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRId64, value);
	lapse_attr(key, text);
}

/* Open lapse and say what will be recorded. When lapse is not there all this
 * does nothing, and the program does not care. */
static void train_instrument(struct train *t)
{
	const struct options *o = t->opt;
	char rate[32];

	lapse_open(NULL);
	t->metrics = (struct train_metrics){
		.loss = lapse_gauge("loss", "nat", "training loss per character", NULL),
		.val_loss = lapse_gauge("val_loss", "nat", "held-out loss per character", NULL),
		.grad_norm = lapse_gauge("grad_norm", "1", "gradient norm before clipping", NULL),
		.rate = lapse_gauge("learning_rate", "1", "learning rate", NULL),
		.tokens = lapse_counter("tokens", "1", "characters trained on", NULL),
	};
	lapse_attr("model", "transformer");
	lapse_attr("optimizer", "adamw");
	lapse_attr("text", o->text[0]);
	snprintf(rate, sizeof(rate), "%g", o->rate);
	lapse_attr("learning_rate", rate);
	train_attr_int("parameters", (int64_t)t->model.params);
	train_attr_int("vocab", (int64_t)t->text.vocab);
	train_attr_int("layers", o->layers);
	train_attr_int("dim", o->dim);
	train_attr_int("heads", o->heads);
	train_attr_int("context", o->context);
	train_attr_int("batch", o->batch);
	train_attr_int("seed", o->seed);
	train_attr_int("threads", (int64_t)t->pool.threads);
}

static int train_init(struct train *t, const struct options *o)
{
	struct model_config config = {
		.dim = (size_t)o->dim,
		.layers = (size_t)o->layers,
		.heads = (size_t)o->heads,
		.context = (size_t)o->context,
		.batch = ((size_t)o->batch + MODEL_SHARDS - 1) / MODEL_SHARDS,
	};
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	char error[512];

	*t = (struct train){.opt = o, .loss = NAN, .val_loss = NAN, .best_val_loss = NAN};
	t->random = random_seed((uint64_t)o->seed + 1);
	if (text_read(&t->text, o->text, o->texts, config.context, error, sizeof(error))) {
		fprintf(stderr, "charlm: %s\n", error);
		return -1;
	}
	config.vocab = t->text.vocab;
	t->in = calloc(train_tokens(t), 1);
	t->target = calloc(train_tokens(t), 1);
	if (!t->in || !t->target || model_init(&t->model, &config, (uint64_t)o->seed) ||
	    adamw_init(&t->adamw, t->model.params)) {
		fprintf(stderr, "charlm: out of memory; take less --batch, --context or --dim\n");
		return -1;
	}
	if (o->load) {
		int bad = checkpoint_read(o->load, &t->model, &t->text);

		if (bad) {
			fprintf(stderr, "charlm: load %s: %s\n", o->load,
				bad == -EINVAL ? "not a checkpoint of this model and alphabet"
					       : strerror(-bad));
			return -1;
		}
	}
	pool_init(&t->pool, cpus > 0 && cpus < o->threads ? (size_t)cpus : (size_t)o->threads);
	return 0;
}

static void train_done(struct train *t)
{
	if (t->pool.threads)
		pool_done(&t->pool);
	meter_done(&t->meter);
	adamw_done(&t->adamw);
	model_done(&t->model);
	text_done(&t->text);
	free(t->target);
	free(t->in);
}

static int train_run(const struct options *o)
{
	struct train t;
	int failed = train_init(&t, o) != 0;

	if (!failed) {
		train_instrument(&t);
		printf("%zu files, %zu + %zu characters (train + held out), alphabet of %zu; "
		       "%zu parameters, %zu threads\n",
		       t.text.files, t.text.train.length, t.text.held.length, t.text.vocab,
		       t.model.params, t.pool.threads);
		train(&t);
		train_report(&t);
		if (o->sample > 0)
			train_sample(&t);
		lapse_close();
		failed = t.failed;
	}
	train_done(&t);
	return failed;
}

int main(int argc, char **argv)
{
	struct options o;

	setvbuf(stdout, NULL, _IOLBF, 0); /* lines appear as they happen, in pipes too */
	if (options_parse(&o, argc, argv))
		return 2;
	if (o.help) {
		options_help();
		return 0;
	}
	if (o.check_gradients)
		return gradcheck_run((uint64_t)o.seed) ? 1 : 0;
	return train_run(&o);
}
