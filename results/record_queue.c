/* SPDX-License-Identifier: Apache-2.0 */
#include "results/record_queue.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/scope.h"
#include "base/text.h"
#include "base/thread.h"
#include "results/record.h"

struct record_queue {
    /* the caller's thread and the writer's, under lock */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct vt_buf front;
    uint64_t lost;
    bool stop;
    bool failed;
    struct vt_error failure; /* the first one */

    /* the writer's */
    pthread_t thread;
    struct vt_buf back;
    sqlite3 *db;
    sqlite3_stmt *statements[RECORD_STATEMENTS];
    char path[256]; /* for messages */
};

static int sqlite_error(const struct record_queue *queue, const char *doing, struct vt_error *err)
{
    return vt_error_set(err, VT_KIND_INFRA, -EIO, "record %s: %s: %s", queue->path, doing,
                        queue->db ? sqlite3_errmsg(queue->db) : "out of memory");
}

static int execute(struct record_queue *queue, const char *sql, struct vt_error *err)
{
    if (sqlite3_exec(queue->db, sql, NULL, NULL, NULL) != SQLITE_OK)
        return sqlite_error(queue, sql, err);
    return 0;
}

static int make_tables(struct record_queue *queue, struct vt_error *err)
{
    char sql[128];
    int r;

    /* With EXCLUSIVE the write-ahead log needs no shared memory file. */
    r = execute(queue,
                "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL;"
                " PRAGMA synchronous=NORMAL; BEGIN",
                err);
    snprintf(sql, sizeof(sql), "PRAGMA application_id=%d; PRAGMA user_version=%d",
             RECORD_APPLICATION_ID, RECORD_VERSION);
    if (r == 0)
        r = execute(queue, sql, err);
    for (size_t i = 0; r == 0 && i < record_ntables; i++)
        r = execute(queue, record_tables[i].sql, err);
    if (r == 0)
        r = execute(queue, "COMMIT", err);
    for (int i = 0; r == 0 && i < RECORD_STATEMENTS; i++) {
        if (sqlite3_prepare_v3(queue->db, record_inserts[i], -1, SQLITE_PREPARE_PERSISTENT,
                               &queue->statements[i], NULL) != SQLITE_OK)
            r = sqlite_error(queue, record_inserts[i], err);
    }
    return r;
}

/* Integers and lengths stand in the queue in the machine's order: they never leave the process. */
static void put_value(struct vt_buf *buf, char letter, va_list *args)
{
    const void *data;
    uint32_t len;
    int64_t integer;
    double real;

    switch (letter) {
    case 'i':
        integer = va_arg(*args, int64_t);
        vt_buf_add(buf, "i", 1);
        vt_buf_add(buf, &integer, sizeof(integer));
        break;
    case 'd':
        real = va_arg(*args, double);
        vt_buf_add(buf, "d", 1);
        vt_buf_add(buf, &real, sizeof(real));
        break;
    default:
        data = va_arg(*args, const void *);
        if (letter == 'b')
            len = (uint32_t)va_arg(*args, size_t);
        else
            len = data ? (uint32_t)strlen(data) : 0;
        vt_buf_add(buf, data ? (letter == 'b' ? "b" : "t") : "n", 1);
        if (data) {
            vt_buf_add(buf, &len, sizeof(len));
            vt_buf_add(buf, data, len);
        }
        break;
    }
}

int record_queue_put(struct record_queue *queue, enum record_statement statement,
                     const char *letters, ...)
{
    va_list args;
    size_t before;
    uint8_t head[2] = {(uint8_t)statement, (uint8_t)strlen(letters)};
    int r = 0;

    pthread_mutex_lock(&queue->lock);
    before = queue->front.len;
    vt_buf_add(&queue->front, head, sizeof(head));
    va_start(args, letters);
    for (const char *letter = letters; *letter; letter++)
        put_value(&queue->front, *letter, &args);
    va_end(args);
    if (queue->front.failed) { /* all of it or nothing */
        queue->front.failed = queue->front.no_memory = false;
        queue->front.len = before;
        queue->lost++;
        r = -ENOBUFS;
    }
    if (queue->front.len >= RECORD_QUEUE_BYTES / 2)
        pthread_cond_signal(&queue->wake);
    pthread_mutex_unlock(&queue->lock);
    return r;
}

void record_queue_lose(struct record_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->lost++;
    pthread_mutex_unlock(&queue->lock);
}

size_t record_queue_room(struct record_queue *queue)
{
    size_t room;

    pthread_mutex_lock(&queue->lock);
    room = RECORD_QUEUE_BYTES - queue->front.len;
    pthread_mutex_unlock(&queue->lock);
    return room;
}

static int bind_value(sqlite3_stmt *statement, int index, const char **at)
{
    char letter = *(*at)++;
    int64_t integer;
    double real;
    uint32_t len;
    int r;

    switch (letter) {
    case 'i':
        memcpy(&integer, *at, sizeof(integer));
        *at += sizeof(integer);
        return sqlite3_bind_int64(statement, index, integer);
    case 'd':
        memcpy(&real, *at, sizeof(real));
        *at += sizeof(real);
        return sqlite3_bind_double(statement, index, real); /* NaN becomes NULL */
    case 'n':
        return sqlite3_bind_null(statement, index);
    default:
        memcpy(&len, *at, sizeof(len));
        *at += sizeof(len);
        r = letter == 't' ? sqlite3_bind_text(statement, index, *at, (int)len, SQLITE_STATIC)
                          : sqlite3_bind_blob(statement, index, *at, (int)len, SQLITE_STATIC);
        *at += len;
        return r;
    }
}

static int write_entries(struct record_queue *queue, struct vt_error *err)
{
    const char *at = queue->back.data, *end = at + queue->back.len;

    while (at < end) {
        sqlite3_stmt *statement = queue->statements[(uint8_t)*at++];
        int nvalues = (uint8_t)*at++, r = SQLITE_OK;
        for (int i = 1; i <= nvalues && r == SQLITE_OK; i++)
            r = bind_value(statement, i, &at);
        if (r == SQLITE_OK)
            r = sqlite3_step(statement);
        if (r != SQLITE_DONE && r != SQLITE_OK) {
            sqlite_error(queue, sqlite3_sql(statement), err);
            sqlite3_reset(statement);
            return err->code;
        }
        sqlite3_reset(statement);
        sqlite3_clear_bindings(statement);
    }
    return 0;
}

static int write_transaction(struct record_queue *queue, struct vt_error *err)
{
    int r = execute(queue, "BEGIN", err);

    if (r == 0)
        r = write_entries(queue, err);
    if (r == 0)
        r = execute(queue, "COMMIT", err);
    if (r < 0 && !sqlite3_get_autocommit(queue->db))
        sqlite3_exec(queue->db, "ROLLBACK", NULL, NULL, NULL);
    return r;
}

/* Waits until a second is over, half the queue is full, or the end. Returns true at the end. */
static bool take_front(struct record_queue *queue, int64_t until_ns)
{
    struct timespec until = {until_ns / VT_NS_PER_S, until_ns % VT_NS_PER_S};
    struct vt_buf swap;
    bool stop;
    int r = 0;

    pthread_mutex_lock(&queue->lock);
    while (!queue->stop && r == 0 && queue->front.len < RECORD_QUEUE_BYTES / 2)
        r = pthread_cond_timedwait(&queue->wake, &queue->lock, &until);
    swap = queue->back;
    queue->back = queue->front;
    queue->front = swap;
    stop = queue->stop;
    pthread_mutex_unlock(&queue->lock);
    return stop;
}

static void *writer_main(void *arg)
{
    struct record_queue *queue = arg;
    struct vt_error err = VT_ERROR_INIT;
    bool stop = false, failed = false;

    while (!stop) {
        stop = take_front(queue, vt_clock_now_ns() + VT_NS_PER_S);
        if (queue->back.len && !failed && write_transaction(queue, &err) < 0) {
            /* What was lost with it is unknown: nothing more is written, the run is void. */
            failed = true;
            pthread_mutex_lock(&queue->lock);
            queue->failed = true;
            queue->failure = err;
            pthread_mutex_unlock(&queue->lock);
        }
        vt_buf_reset(&queue->back);
    }
    return NULL;
}

static void queue_free(struct record_queue *queue)
{
    for (int i = 0; i < RECORD_STATEMENTS; i++)
        sqlite3_finalize(queue->statements[i]);
    sqlite3_close(queue->db);
    vt_buf_dispose(&queue->front);
    vt_buf_dispose(&queue->back);
    pthread_cond_destroy(&queue->wake);
    pthread_mutex_destroy(&queue->lock);
    free(queue);
}

static int start_writer(struct record_queue *queue, struct vt_error *err)
{
    int r = vt_thread_start(&queue->thread, writer_main, queue);

    return r ? vt_error_errno(err, VT_KIND_INFRA, r, "record: start its thread") : 0;
}

int record_queue_open(const char *path, struct record_queue **ret, struct vt_error *err)
{
    VT_AUTO_CLOSE int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    struct record_queue *queue;
    pthread_condattr_t attr;
    int r;

    if (fd < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "create record %s", path);
    queue = calloc(1, sizeof(*queue));
    if (!queue)
        return vt_error_no_memory(err, "create record %s", path);
    queue->front = queue->back = (struct vt_buf)VT_BUF_INIT(RECORD_QUEUE_BYTES);
    vt_text_copy(queue->path, sizeof(queue->path), path);
    pthread_mutex_init(&queue->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&queue->wake, &attr);
    pthread_condattr_destroy(&attr);
    if (sqlite3_open_v2(path, &queue->db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
        r = sqlite_error(queue, "open", err);
    else
        r = make_tables(queue, err);
    if (r == 0)
        r = start_writer(queue, err);
    if (r < 0) {
        queue_free(queue); /* closes the database, and with it goes its log */
        unlink(path);
        return r;
    }
    *ret = queue;
    return 0;
}

int record_queue_status(struct record_queue *queue, uint64_t *ret_lost, struct vt_error *err)
{
    int r = 0;

    pthread_mutex_lock(&queue->lock);
    if (ret_lost)
        *ret_lost = queue->lost;
    if (queue->failed) {
        r = queue->failure.code;
        if (err)
            *err = queue->failure;
    }
    pthread_mutex_unlock(&queue->lock);
    return r;
}

/* The last word in the file: without it a reader knows that the end is missing. */
static int mark_whole(struct record_queue *queue, struct vt_error *err)
{
    char sql[128];
    int r;

    snprintf(sql, sizeof(sql), "INSERT INTO meta VALUES('" RECORD_LOST_KEY "','%" PRIu64 "')",
             queue->lost);
    r = execute(queue, sql, err);
    for (int i = 0; i < RECORD_STATEMENTS; i++) {
        sqlite3_finalize(queue->statements[i]);
        queue->statements[i] = NULL;
    }
    if (r == 0) /* folds the log into the file and removes it */
        r = execute(queue, "PRAGMA journal_mode=DELETE", err);
    return r;
}

int record_queue_close(struct record_queue *queue, struct vt_error *err)
{
    int r;

    pthread_mutex_lock(&queue->lock);
    queue->stop = true;
    pthread_cond_signal(&queue->wake);
    pthread_mutex_unlock(&queue->lock);
    pthread_join(queue->thread, NULL);
    r = record_queue_status(queue, NULL, err);
    if (r == 0)
        r = mark_whole(queue, err);
    queue_free(queue);
    return r;
}
