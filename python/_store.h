/* SPDX-License-Identifier: Apache-2.0
 *
 * _store.h - between the files of the extension lapse._store. What is read is
 * collected in C memory without the GIL (rows, columns) and made into Python
 * objects afterwards.
 */
#ifndef PYTHON_STORE_H
#define PYTHON_STORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "store/store.h"

/* Of one interpreter's module. */
struct store_state {
	PyTypeObject *reader_type, *column_type;
};

#if PY_VERSION_HEX >= 0x030a0000
#define STORE_TYPE_FLAGS (Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE)
#else
#define STORE_TYPE_FLAGS Py_TPFLAGS_DEFAULT
#endif

extern PyType_Spec reader_spec, column_spec;

/* Raise the error of a call that returned code: MemoryError, or OSError (so
 * FileNotFoundError for -ENOENT) with the sentence. Returns NULL. */
PyObject *store_raise(int code, const struct err *e);

/* Text as it was recorded; bytes that are not UTF-8 become \xNN. */
PyObject *store_text(const char *s);

/* ---- _store_rows.c: a table in C memory ------------------------------------ */

enum cell_kind {
	CELL_NONE,
	CELL_INT,
	CELL_REAL,
	CELL_BOOL,
	CELL_TEXT
};

struct cell {
	enum cell_kind kind;
	union {
		int64_t i;
		double r;
		size_t at; /* of the text, in struct rows */
	};
};

/* Cells are added one after the other, row by row. Out of memory is remembered;
 * later cells are then dropped. Needs no GIL. */
struct rows {
	const char *const *names; /* of the columns, ended by NULL */
	size_t width;             /* columns */
	struct cell *cells;
	size_t n, cap;
	char *text;
	size_t len, text_cap;
	bool failed;
};

void rows_init(struct rows *r, const char *const *names);
void rows_done(struct rows *r);
void rows_none(struct rows *r);
void rows_int(struct rows *r, int64_t v);
void rows_real(struct rows *r, double v);
void rows_bool(struct rows *r, bool v);
void rows_text(struct rows *r, const char *s);
/* A number, or None if it is the one that means "unknown". */
void rows_known(struct rows *r, int64_t v, int64_t unknown);

/* 0 or -ENOMEM. */
static inline int rows_state(const struct rows *r)
{
	return r->failed ? -ENOMEM : 0;
}

/* A list of dicts or of tuples. NULL with an error set. */
PyObject *rows_dicts(const struct rows *r);
PyObject *rows_tuples(const struct rows *r);

/* ---- _store_column.c ------------------------------------------------------- */

/* A Column over n 8-byte numbers at data, allocated by PyMem_RawMalloc (NULL
 * only if n is 0), which is the Column's from now on, also if this fails.
 * format: "q" or "d". */
PyObject *column_new(PyTypeObject *type, void *data, size_t n, const char *format);

/* ---- _store.c -------------------------------------------------------------- */

/* A Reader: a store_reader and a lock, since that takes one thread at a time.
 * The lock is only held without the GIL. */
struct reader {
	PyObject_HEAD PyObject *path;
	struct store_reader *store; /* NULL: closed */
	pthread_mutex_t lock;
	bool has_lock;
	pid_t pid; /* SQLite's connections must not be used in a forked child */
};

/* Call fn without the GIL, the lock held. 0, or -1 with an error set. */
typedef int (*reader_fn)(struct store_reader *r, void *arg, struct err *e);
int reader_call(PyObject *self, reader_fn fn, void *arg);

/* ---- _store_lists.c: methods --------------------------------------------------- */

PyObject *reader_info(PyObject *self, PyObject *noargs);
PyObject *reader_processes(PyObject *self, PyObject *noargs);
PyObject *reader_series(PyObject *self, PyObject *noargs);
PyObject *reader_events(PyObject *self, PyObject *noargs);
PyObject *reader_attrs(PyObject *self, PyObject *noargs);
PyObject *reader_warning(PyObject *self, PyObject *noargs);

/* ---- _store_points.c: methods ------------------------------------------------------- */

PyObject *reader_points(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *reader_summary(PyObject *self, PyObject *args, PyObject *kwargs);

#endif
