/* SPDX-License-Identifier: Apache-2.0
 *
 * chunkrow.c - rows of the table chunk to and from SQL, and the points behind
 * one: its slice of a pack and its axis.
 */
#include "base/mem.h"
#include "store/store_priv.h"

#include <errno.h>
#include <string.h>

void chunkrow_bind(sqlite3_stmt *st, const struct chunk *c)
{
	sqlite3_bind_int64(st, 1, c->series);
	sqlite3_bind_int64(st, 2, c->ordinal);
	sqlite3_bind_int64(st, 3, (int64_t)c->start);
	sqlite3_bind_int64(st, 4, c->n);
	sqlite3_bind_int64(st, 5, c->segment.no);
	if (c->segment.step != SINK_STEP_NONE) {
		sqlite3_bind_int64(st, 6, c->segment.step);
		sqlite3_bind_int64(st, 7, c->segment.time);
	}
	if (c->axis)
		sqlite3_bind_int64(st, 8, c->axis);
	sqlite3_bind_int64(st, 9, c->pack);
	sqlite3_bind_int64(st, 10, c->at);
	sqlite3_bind_int64(st, 11, c->len);
}

static bool chunkrow_is_sane(sqlite3_stmt *st)
{
	int64_t ordinal = sqlite3_column_int64(st, 1), n = sqlite3_column_int64(st, 3);
	int64_t segment = sqlite3_column_int64(st, 4), series = sqlite3_column_int64(st, 0);
	int64_t at = sqlite3_column_int64(st, 9), len = sqlite3_column_int64(st, 10);

	return series > 0 && series <= CATALOG_SERIES_MAX && ordinal >= 0 && ordinal < UINT32_MAX &&
	       sqlite3_column_int64(st, 2) >= 0 && n > 0 && n <= CHUNK_POINTS_MAX && segment >= 0 &&
	       segment < SEGMENTS_MAX && sqlite3_column_int64(st, 7) >= 0 &&
	       sqlite3_column_int64(st, 8) > 0 && at >= 0 && at <= CHUNKROW_PACK_MAX &&
	       len >= BLOB_HEADER && len <= CHUNKROW_PACK_MAX;
}

int chunkrow_read(sqlite3_stmt *st, const char *path, struct err *e, struct chunk *ret)
{
	if (!chunkrow_is_sane(st))
		return err_set(e, -EUCLEAN,
			       "%s: table chunk, series %lld, ordinal %lld: impossible row", path,
			       sqlite3_column_int64(st, 0), sqlite3_column_int64(st, 1));
	ret->series = (uint32_t)sqlite3_column_int64(st, 0);
	ret->ordinal = (uint32_t)sqlite3_column_int64(st, 1);
	ret->start = (uint64_t)sqlite3_column_int64(st, 2);
	ret->n = (uint32_t)sqlite3_column_int64(st, 3);
	ret->segment.no = (uint32_t)sqlite3_column_int64(st, 4);
	ret->segment.step = sqlite3_column_type(st, 5) == SQLITE_NULL ? SINK_STEP_NONE
								      : sqlite3_column_int64(st, 5);
	ret->segment.time = sqlite3_column_int64(st, 6);
	ret->axis = sqlite3_column_int64(st, 7);
	ret->pack = sqlite3_column_int64(st, 8);
	ret->at = (uint32_t)sqlite3_column_int64(st, 9);
	ret->len = (uint32_t)sqlite3_column_int64(st, 10);
	return 0;
}

/* ---- data ------------------------------------------------------------------------ */

void chunkdata_init(struct chunkdata *d, sqlite3 *db, const char *path, struct blob_codec *codec,
		    struct column_codec *columns, struct axis_cache *axes)
{
	*d = (struct chunkdata){
		.db = db, .path = path, .codec = codec, .columns = columns, .axes = axes};
}

void chunkdata_done(struct chunkdata *d)
{
	sqlite3_finalize(d->get_axis);
	sqlite3_blob_close(d->pack);
	axis_cache_done(&d->own);
	buf_done(&d->bytes);
}

void axis_cache_done(struct axis_cache *c)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(c->kept); i++)
		axis_done(&c->kept[i].axis);
	*c = (struct axis_cache){0};
}

/* Was it kept, not long ago? */
static bool axis_cache_missed(const struct axis_cache *c, int64_t id)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(c->gone) && c->gone[i] != id; i++)
		;
	return i < ARRAY_LEN(c->gone);
}

/* The place of axis `id`, or an empty one. Places that are not needed are memory touched
 * for nothing: there are two until an axis is asked for that had to go. */
static struct axis_kept *axis_cache_find(struct axis_cache *c, int64_t id)
{
	struct axis_kept *place = &c->kept[0];
	size_t i;

	for (i = 0; i < c->n && c->kept[i].id != id; i++)
		if (c->kept[i].used < place->used)
			place = &c->kept[i];
	if (i < c->n) {
		place = &c->kept[i];
	} else {
		if (c->n < 2 || (c->n < ARRAY_LEN(c->kept) && axis_cache_missed(c, id)))
			place = &c->kept[c->n++];
		if (place->id)
			c->gone[c->n_gone++ % ARRAY_LEN(c->gone)] = place->id;
		place->id = 0;
	}
	place->used = ++c->clock;
	return place;
}

static int chunkdata_get_axis(struct chunkdata *d, const struct blob_id *id, struct err *e,
			      struct axis *ret)
{
	struct blob blob;
	const char *why;
	int rc, r = 0;

	if (!d->get_axis)
		r = db_prepare(d->db, "SELECT blob FROM axis WHERE id = ?1", e, &d->get_axis);
	if (r < 0)
		return r;
	sqlite3_bind_int64(d->get_axis, 1, (int64_t)id->a);
	rc = sqlite3_step(d->get_axis);
	if (rc == SQLITE_ROW)
		r = blob_open(d->codec, id, sqlite3_column_blob(d->get_axis, 0),
			      (size_t)sqlite3_column_bytes(d->get_axis, 0), e, &blob);
	else if (rc == SQLITE_DONE)
		r = blob_bad(id, e, 0, "the row is missing");
	else
		r = db_fail(d->db, rc, "reading table axis", e);
	if (r == 0 && blob.format != BLOB_AXIS && blob.format != BLOB_MOMENTS)
		r = blob_bad(id, e, 0, "not an axis");
	if (r == 0) {
		why = (blob.format == BLOB_AXIS ? axis_decode : moments_decode)(
			d->columns, blob.body, blob.len, blob.count, ret);
		r = why ? blob_bad(id, e, BLOB_HEADER, why) : 0;
	}
	sqlite3_reset(d->get_axis);
	return r;
}

/* Row `id` of table axis, kept by the cache until some others have been asked for. */
static int chunkdata_axis(struct chunkdata *d, int64_t id, struct err *e, struct axis **ret)
{
	struct axis_kept *kept = axis_cache_find(d->axes ? d->axes : &d->own, id);
	const struct blob_id which = {d->path, "axis", (uint64_t)id, 0};
	int r = 0;

	*ret = &kept->axis;
	if (kept->id != id)
		r = chunkdata_get_axis(d, &which, e, &kept->axis);
	if (r == 0)
		kept->id = id;
	return r;
}

/* The bytes of a chunk into d->bytes. */
static int chunkdata_bytes(struct chunkdata *d, const struct chunk *c, const struct blob_id *id,
			   struct err *e)
{
	char *to;
	int rc = SQLITE_OK;

	if (!d->pack)
		rc = sqlite3_blob_open(d->db, "main", "pack", "blob", c->pack, 0, &d->pack);
	else if (d->pack_id != c->pack) /* else it knows the pages of the row already */
		rc = sqlite3_blob_reopen(d->pack, c->pack);
	d->pack_id = c->pack;
	if (rc != SQLITE_OK) {
		sqlite3_blob_close(d->pack);
		d->pack = NULL;
		/* SQLITE_ERROR: no such row, or no blob in it. */
		return (rc & 0xff) == SQLITE_ERROR ? blob_bad(id, e, 0, "its pack is missing")
						   : db_fail(d->db, rc, "reading table pack", e);
	}
	if ((int64_t)c->at + c->len > sqlite3_blob_bytes(d->pack))
		return blob_bad(id, e, 0, "its pack is too short");
	if (d->bytes.max == 0)
		buf_init(&d->bytes, CHUNKROW_PACK_MAX);
	buf_reset(&d->bytes);
	to = buf_reserve(&d->bytes, c->len);
	if (!to)
		return err_set(e, -ENOMEM, "%s: no memory for a chunk", d->path);
	rc = sqlite3_blob_read(d->pack, to, (int)c->len, (int)c->at);
	return rc == SQLITE_OK ? 0 : db_fail(d->db, rc, "reading table pack", e);
}

/* The blob of a chunk, and its axis (NULL: histogram points). */
static int chunkdata_blob(struct chunkdata *d, const struct chunk *c, const struct blob_id *id,
			  bool is_hist, struct err *e, struct blob *blob, struct axis **ret)
{
	int r = chunkdata_bytes(d, c, id, e);

	*ret = NULL;
	if (r == 0)
		r = blob_open(d->codec, id, d->bytes.data, c->len, e, blob);
	if (r == 0 &&
	    (is_hist != (blob->format == BLOB_HISTS) || is_hist != !c->axis || blob->count != c->n))
		r = blob_bad(id, e, 0, "its data are not what its row states");
	if (r < 0 || is_hist)
		return r;
	r = chunkdata_axis(d, c->axis, e, ret);
	if (r == 0 && blob->format != ((*ret)->moments ? BLOB_AT_MOMENTS : BLOB_VALUES))
		r = blob_bad(id, e, 0, "its data are not for such an axis");
	return r;
}

int chunkdata_read(struct chunkdata *d, const struct chunk *c, bool is_hist, struct err *e,
		   struct points *points, struct hists *hists)
{
	const struct blob_id id = {d->path, "chunk", c->series, c->ordinal};
	struct axis *axis;
	const char *why;
	struct blob blob;
	int r = chunkdata_blob(d, c, &id, is_hist, e, &blob, &axis);

	if (r < 0)
		return r;
	if (is_hist)
		why = hists_get_body(blob.body, blob.len, blob.count, hists);
	else
		why = (axis->moments ? moments_points : values_points)(
			d->columns, blob.body, blob.len, blob.count, axis, points);
	return why ? blob_bad(&id, e, BLOB_HEADER, why) : 0;
}

int chunkdata_view(struct chunkdata *d, const struct chunk *c, struct err *e, struct points *points,
		   struct points_view *ret)
{
	const struct blob_id id = {d->path, "chunk", c->series, c->ordinal};
	struct axis *axis;
	const char *why;
	struct blob blob;
	int r = chunkdata_blob(d, c, &id, false, e, &blob, &axis);

	if (r < 0)
		return r;
	why = (axis->moments ? moments_view : values_view)(d->columns, blob.body, blob.len,
							   blob.count, axis, points, ret);
	return why ? blob_bad(&id, e, BLOB_HEADER, why) : 0;
}

int chunkdata_values(struct chunkdata *d, const struct chunk *c, struct err *e,
		     struct points *points, double *ret)
{
	const struct blob_id id = {d->path, "chunk", c->series, c->ordinal};
	struct points_view view;
	const char *why;
	struct blob blob;
	int r = chunkdata_bytes(d, c, &id, e);

	if (r == 0)
		r = blob_open(d->codec, &id, d->bytes.data, c->len, e, &blob);
	if (r < 0)
		return r;
	if (blob.count != c->n || (blob.format != BLOB_VALUES && blob.format != BLOB_AT_MOMENTS))
		return blob_bad(&id, e, 0, "its data are not what its row states");
	if (blob.format == BLOB_AT_MOMENTS && !moments_has_values(&blob.body, &blob.len)) {
		r = chunkdata_view(d, c, e, points, &view);
		if (r == 0)
			memcpy(ret, view.value, view.n * sizeof(*ret));
		return r;
	}
	why = values_only(d->columns, blob.body, blob.len, c->n, ret);
	return why ? blob_bad(&id, e, BLOB_HEADER, why) : 0;
}

void chunkdata_end(struct chunkdata *d)
{
	sqlite3_blob_close(d->pack);
	d->pack = NULL;
}
