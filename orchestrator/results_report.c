/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/results_report.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/scope.h"
#include "results/report/report.h"

#define HASH_TEXT (2 * EVP_MAX_MD_SIZE + 1)
#define PIECE_BYTES (64 * 1024)

bool results_report_path(const char *archive, char *path, size_t size)
{
    size_t len = strlen(archive), tail = strlen(ARCHIVE_SUFFIX);

    if (len > tail && !strcmp(archive + len - tail, ARCHIVE_SUFFIX))
        len -= tail;
    return snprintf(path, size, "%.*s" REPORT_SUFFIX, (int)len, archive) < (int)size;
}

static int hash_file(const char *path, char text[HASH_TEXT], struct vt_error *err)
{
    VT_AUTO_CLOSE int fd = -1;
    VT_AUTO_FREE unsigned char *piece = malloc(PIECE_BYTES);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    ssize_t n = -1;
    bool good;
    int r = vt_file_open(path, VT_KIND_INFRA, &fd, err);

    if (r == 0 && piece && ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1) {
        while ((n = read(fd, piece, PIECE_BYTES)) > 0) {
            if (EVP_DigestUpdate(ctx, piece, (size_t)n) != 1)
                break;
        }
    }
    good = n == 0 && EVP_DigestFinal_ex(ctx, hash, &len) == 1;
    EVP_MD_CTX_free(ctx);
    if (r < 0)
        return r;
    if (!good)
        return vt_error_errno(err, VT_KIND_INFRA, errno ? errno : EIO, "hash %s", path);
    vt_text_hex(hash, len, text);
    return 0;
}

/* Whole or not at all: a browser may look at it while it is replaced. A device, a fifo and what a
 * link leads to are written, not replaced. */
static int replace_file(const char *path, const struct vt_buf *data, struct vt_error *err)
{
    char tmp[VT_PATH_MAX + 32];
    struct stat st;
    int r;

    if (lstat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return vt_file_write(path, data->data, data->len, 0644, err);
    if (snprintf(tmp, sizeof(tmp), "%s.%ld.new", path, (long)getpid()) >= (int)sizeof(tmp))
        return vt_error_set(err, VT_KIND_USAGE, -ENAMETOOLONG, "%.200s: path too long", path);
    VT_AUTO_CLOSE int fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    /* The name that was given is the one to mend, unless its stand-in is what is in the way. */
    if (fd < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "write %s", errno == EEXIST ? tmp : path);
    r = vt_file_write_all(fd, data->data, data->len);
    if (r < 0)
        vt_error_errno(err, VT_KIND_INFRA, -r, "write %s", path);
    else if (rename(tmp, path) < 0)
        r = vt_error_errno(err, VT_KIND_INFRA, errno, "name it %s", path);
    if (r < 0)
        unlink(tmp);
    return r;
}

static int make(struct record_reader *reader, const char *archive, const char *signer,
                struct vt_buf *out, struct vt_error *err)
{
    char hash[HASH_TEXT];
    const struct report_source source = {hash, signer};
    int r = hash_file(archive, hash, err);

    return r == 0 ? report_write(reader, &source, out, err) : r;
}

int results_report_write(struct record_reader *reader, const char *archive, const char *signer,
                         const char *path, struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(REPORT_BYTES_MAX);
    int r = make(reader, archive, signer, &out, err);

    return r == 0 ? replace_file(path, &out, err) : r;
}

static int tell(const char *path, const struct results_archive *archive, bool json,
                struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(64 * 1024);
    struct vt_json w;
    int r;

    if (json) {
        vt_json_message(&w, &out, "report");
        vt_json_string(&w, "report", path);
        vt_json_string(&w, "archive", archive->path);
        vt_json_string(&w, "run", archive->report.run);
        vt_json_end(&w);
    } else {
        vt_buf_adds(&out, "report: ");
        result_print_text(&out, path);
    }
    vt_buf_adds(&out, "\n");
    r = vt_buf_check(&out, "print the report's place", err);
    if (r == 0)
        fwrite(out.data, 1, out.len, stdout);
    return r;
}

static int put(struct record_reader *reader, const struct results_archive *archive,
               const char *output, bool json, struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(REPORT_BYTES_MAX);
    char path[VT_PATH_MAX];
    int r;

    if (output && !strcmp(output, "-")) {
        r = make(reader, archive->path, archive->report.fingerprint, &out, err);
        if (r == 0)
            fwrite(out.data, 1, out.len, stdout);
        return r;
    }
    if (output ? !vt_text_copy(path, sizeof(path), output)
               : !results_report_path(archive->path, path, sizeof(path)))
        return vt_error_set(err, VT_KIND_USAGE, -ENAMETOOLONG, "the report's path is too long");
    r = results_report_write(reader, archive->path, archive->report.fingerprint, path, err);
    return r == 0 ? tell(path, archive, json, err) : r;
}

int results_report(const char *name, const struct results_access *access, const char *output,
                   bool json, struct vt_error *err)
{
    struct results_archive archive;
    struct record_reader *reader = NULL;
    int r = results_archive_open(&archive, name, access, &reader, err);

    if (r == 0)
        r = put(reader, &archive, output, json, err);
    record_reader_close(reader);
    results_archive_dispose(&archive);
    return r;
}
