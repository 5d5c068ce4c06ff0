/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/roles/storage/fio.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/scope.h"

#define COUNT_MAX (INT64_C(1) << 50)
#define LATENCY_MAX_NS (INT64_C(1) << 50)
#define RUNTIME_MAX_MS (INT64_C(1) << 40)

/* --- one report --- */

static int compare_bins(const void *a, const void *b)
{
    const struct fio_bin *x = a, *y = b;

    return x->value_ns < y->value_ns ? -1 : x->value_ns > y->value_ns;
}

static int read_bins(const json_t *bins, struct fio_job *job, struct vt_error *err)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)bins, key, value) {
        struct fio_bin *bin = &job->bins[job->nbins];
        int64_t count = json_integer_value(value);

        if (job->nbins == FIO_BINS_MAX)
            return vt_error_refuse(err, "more than %d buckets", FIO_BINS_MAX);
        if (vt_text_parse_int(key, 0, LATENCY_MAX_NS, &bin->value_ns, NULL) < 0 ||
            !json_is_integer(value) || count < 0 || count > COUNT_MAX)
            return vt_error_refuse(err, "bucket '%.40s'", key);
        bin->count = (uint64_t)count;
        job->nbins++;
    }
    qsort(job->bins, job->nbins, sizeof(job->bins[0]), compare_bins);
    return 0;
}

/* One direction of a job: "read" or "write". */
static int read_direction(const json_t *json, const char *name, struct fio_job *job,
                          struct vt_error *err)
{
    const json_t *direction = NULL, *latency = NULL, *bins;
    int64_t ios = 0, bytes = 0;
    int ret = vt_json_get_object(json, name, &direction, err);

    if (ret == 0)
        ret = vt_json_get_int(direction, "total_ios", 0, COUNT_MAX, &ios, err);
    if (ret == 0)
        ret = vt_json_get_int(direction, "io_bytes", 0, COUNT_MAX, &bytes, err);
    if (ret == 0)
        ret = vt_json_get_object(direction, "clat_ns", &latency, err);
    if (ret < 0)
        return vt_error_wrap(err, "%s", name);
    job->ios += (uint64_t)ios;
    job->bytes += (uint64_t)bytes;
    bins = json_object_get(latency, "bins");
    if (!bins)
        return 0;
    if (!json_is_object(bins) || job->nbins > 0)
        return vt_error_refuse(err, "%s: buckets of one direction expected", name);
    return read_bins(bins, job, err);
}

static int read_job(const json_t *json, struct fio_job *job, struct vt_error *err)
{
    const char *name = NULL;
    int ret = vt_json_get_string(json, "jobname", &name, err);

    if (ret == 0 && !vt_text_copy(job->name, sizeof(job->name), name))
        ret = vt_error_refuse(err, "name of a job: too long");
    if (ret == 0)
        ret = vt_json_get_int(json, "error", INT32_MIN, INT32_MAX, &job->error, err);
    if (ret == 0)
        ret = vt_json_get_int(json, "job_runtime", 0, RUNTIME_MAX_MS, &job->runtime_ms, err);
    if (ret == 0)
        ret = read_direction(json, "read", job, err);
    return ret < 0 ? ret : read_direction(json, "write", job, err);
}

int fio_parse(const char *text, size_t len, struct fio_report *ret, struct vt_error *err)
{
    const json_t *jobs = NULL;
    json_t *json = NULL;
    int code = vt_json_read(text, len, "report of fio", VT_KIND_REFUSED, &json, err);

    if (code < 0)
        return code;
    ret->njobs = 0;
    code = vt_json_get_array(json, "jobs", FIO_JOBS_MAX, &jobs, err);
    for (size_t i = 0; code == 0 && i < json_array_size(jobs); i++) {
        struct fio_job *job = &ret->jobs[ret->njobs++];

        memset(job, 0, offsetof(struct fio_job, bins));
        job->nbins = 0;
        code = read_job(json_array_get(jobs, i), job, err);
    }
    json_decref(json);
    return code < 0 ? vt_error_wrap(err, "report of fio") : 0;
}

/* --- one after the other --- */

int fio_reader_init(struct fio_reader *reader, struct vt_error *err)
{
    reader->text = (struct vt_buf)VT_BUF_INIT(FIO_REPORT_BYTES_MAX);
    reader->depth = 0;
    reader->in_string = reader->escaped = false;
    reader->scratch = calloc(1, sizeof(*reader->scratch));
    return reader->scratch ? 0 : vt_error_no_memory(err, "read reports of fio");
}

void fio_reader_dispose(struct fio_reader *reader)
{
    vt_buf_dispose(&reader->text);
    free(reader->scratch);
    reader->scratch = NULL;
}

/* True at the brace that ends an object of the outermost level. */
static bool ends_object(struct fio_reader *reader, char c)
{
    if (reader->in_string) {
        if (!reader->escaped && c == '"')
            reader->in_string = false;
        reader->escaped = !reader->escaped && c == '\\';
        return false;
    }
    if (c == '"')
        reader->in_string = reader->depth > 0;
    else if (c == '{')
        reader->depth++;
    else if (c == '}' && reader->depth > 0)
        return --reader->depth == 0;
    return false;
}

int fio_read(struct fio_reader *reader, const char *data, size_t len, struct vt_error *err)
{
    size_t from = 0;

    for (size_t i = 0; i < len; i++) {
        unsigned before = reader->depth;
        bool ended = ends_object(reader, data[i]);
        int ret;

        if (before == 0 && reader->depth == 1)
            from = i;
        if (!ended)
            continue;
        vt_buf_add(&reader->text, data + from, i + 1 - from);
        ret = vt_buf_check(&reader->text, "report of fio", err);
        if (ret == 0)
            ret = fio_parse(reader->text.data, reader->text.len, reader->scratch, err);
        if (ret < 0)
            return ret;
        vt_buf_reset(&reader->text);
        reader->report(reader->ctx, reader->scratch);
        from = i + 1;
    }
    if (reader->depth > 0)
        vt_buf_add(&reader->text, data + from, len - from);
    return vt_buf_check(&reader->text, "report of fio", err);
}
