/* SPDX-License-Identifier: Apache-2.0
 *
 * tbevent.c - TensorBoard's messages Event and Summary as records. The numbers
 * are those of the fields in tensorflow/core/util/event.proto, summary.proto and
 * tensor.proto.
 */
#include "export/tensorboard_priv.h"

#include "export/protobuf.h"
#include "export/tfrecord.h"

enum {
	EVENT_WALL_TIME = 1,
	EVENT_STEP = 2,
	EVENT_FILE_VERSION = 3,
	EVENT_SUMMARY = 5,
	EVENT_SOURCE = 10,
	SOURCE_WRITER = 1
};
enum {
	SUMMARY_VALUE = 1
};
enum {
	VALUE_TAG = 1,
	VALUE_SIMPLE = 2,
	VALUE_HISTO = 5,
	VALUE_TENSOR = 8,
	VALUE_METADATA = 9
};
enum {
	METADATA_PLUGIN = 1,
	METADATA_DESCRIPTION = 3,
	METADATA_CLASS = 4
};
enum {
	PLUGIN_NAME = 1,
	PLUGIN_CONTENT = 2
};
enum {
	TENSOR_DTYPE = 1,
	TENSOR_SHAPE = 2,
	TENSOR_STRING = 8,
	SHAPE_DIM = 2
};
enum {
	DTYPE_FLOAT = 1,
	DTYPE_STRING = 7
};
enum {
	CLASS_SCALAR = 1,
	CLASS_TENSOR = 2
};

/* "1": readers then tell a restart by steps that go back, a tag at a time, which
 * is the only way that is right for tags that restart apart (docs/export.md). */
#define TBEVENT_VERSION "brain.Event:1"

static void tbevent_head(struct buf *b, int64_t time_ns, int64_t step)
{
	buf_reset(b);
	protobuf_double(b, EVENT_WALL_TIME, (double)time_ns / 1e9);
	if (step != 0)
		protobuf_int(b, EVENT_STEP, step);
}

void tbevent_version(struct buf *out, int64_t time_ns)
{
	struct buf b;
	size_t source;

	buf_init(&b, 256);
	tbevent_head(&b, time_ns, 0);
	protobuf_str(&b, EVENT_FILE_VERSION, TBEVENT_VERSION);
	source = protobuf_begin(&b, EVENT_SOURCE);
	protobuf_str(&b, SOURCE_WRITER, "lapse");
	protobuf_end(&b, source);
	tfrecord_append(out, buf_str(&b), b.len);
	buf_done(&b);
}

static void tbevent_metadata(struct buf *b, const struct tbevent_value *v)
{
	static const char *const names[] = {[TBEVENT_SCALAR] = "scalars",
					    [TBEVENT_HISTOGRAM] = "histograms",
					    [TBEVENT_TEXT] = "text",
					    [TBEVENT_HPARAMS] = "hparams"};
	size_t metadata = protobuf_begin(b, VALUE_METADATA);
	size_t plugin = protobuf_begin(b, METADATA_PLUGIN);

	protobuf_str(b, PLUGIN_NAME, names[v->kind]);
	if (v->kind == TBEVENT_HPARAMS)
		protobuf_bytes(b, PLUGIN_CONTENT, v->data, v->len);
	protobuf_end(b, plugin);
	if (v->about && v->about[0])
		protobuf_str(b, METADATA_DESCRIPTION, v->about);
	protobuf_int(b, METADATA_CLASS, v->kind == TBEVENT_SCALAR ? CLASS_SCALAR : CLASS_TENSOR);
	protobuf_end(b, metadata);
}

/* A text is a string without dimensions; hyperparameters are metadata only, their
 * value is an empty array of floats. */
static void tbevent_tensor(struct buf *b, const struct tbevent_value *v)
{
	size_t tensor = protobuf_begin(b, VALUE_TENSOR), shape;

	protobuf_int(b, TENSOR_DTYPE, v->kind == TBEVENT_TEXT ? DTYPE_STRING : DTYPE_FLOAT);
	shape = protobuf_begin(b, TENSOR_SHAPE);
	if (v->kind == TBEVENT_HPARAMS)
		protobuf_bytes(b, SHAPE_DIM, "", 0);
	protobuf_end(b, shape);
	if (v->kind == TBEVENT_TEXT)
		protobuf_bytes(b, TENSOR_STRING, v->data, v->len);
	protobuf_end(b, tensor);
}

static void tbevent_value(struct buf *b, const struct tbevent_value *v)
{
	size_t value = protobuf_begin(b, SUMMARY_VALUE);

	protobuf_str(b, VALUE_TAG, v->tag);
	if (v->kind == TBEVENT_SCALAR)
		protobuf_float(b, VALUE_SIMPLE, (float)v->scalar);
	else if (v->kind == TBEVENT_HISTOGRAM)
		protobuf_bytes(b, VALUE_HISTO, v->data, v->len);
	else
		tbevent_tensor(b, v);
	if (v->first)
		tbevent_metadata(b, v);
	protobuf_end(b, value);
}

void tbevent_append(struct buf *out, struct buf *scratch, int64_t time_ns, int64_t step,
		    const struct tbevent_value *v, size_t n)
{
	size_t summary, i;

	tbevent_head(scratch, time_ns, step);
	summary = protobuf_begin(scratch, EVENT_SUMMARY);
	for (i = 0; i < n; i++)
		tbevent_value(scratch, &v[i]);
	protobuf_end(scratch, summary);
	tfrecord_append(out, buf_str(scratch), scratch->len);
}

void tbevent_restart(struct buf *out, struct buf *scratch, int64_t time_ns)
{
	/* Whatever step follows is below this one. */
	tbevent_append(out, scratch, time_ns, INT64_MAX, NULL, 0);
}
