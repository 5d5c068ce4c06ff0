/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/roles/batch/contents.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "base/scope.h"

#define TABLE_SIZE 8U
#define ROUNDS_MIN 8
#define ROUNDS_SPAN 24
#define PIECES 4 /* statements of a function's loop */

/* --- a table --- */

static const char *const words[] = {"axle",   "bearing", "bolt",  "bracket", "cable", "casing",
                                    "filter", "flange",  "gear",  "hinge",   "lever", "nozzle",
                                    "piston", "pump",    "rivet", "rotor",   "valve", "washer"};

static int put(FILE *out, EVP_MD_CTX *md, const char *text, size_t len)
{
    return fwrite(text, 1, len, out) == len && EVP_DigestUpdate(md, text, len) ? 0 : -EIO;
}

static int write_lines(FILE *out, EVP_MD_CTX *md, uint64_t seed, uint64_t bytes)
{
    struct vt_rng rng;
    uint64_t written = 0;
    int ret = 0;

    vt_rng_seed(&rng, seed, "batch/table", 0);
    for (uint64_t row = 1; ret == 0 && written < bytes; row++) {
        uint64_t draw = vt_rng_next(&rng);
        char line[96];
        int n = snprintf(line, sizeof(line), "%llu,%s %s,%u.%02u,%u\n", (unsigned long long)row,
                         words[draw % VT_COUNT(words)], words[(draw >> 8) % VT_COUNT(words)],
                         (unsigned)(draw >> 16 & 0x3ff), (unsigned)(draw >> 32) % 100,
                         (unsigned)(draw >> 48));
        size_t len = bytes - written < (uint64_t)n ? (size_t)(bytes - written) : (size_t)n;

        ret = put(out, md, line, len);
        written += len;
    }
    return ret;
}

int contents_write_table(const char *path, uint64_t seed, uint64_t bytes, uint8_t hash[32],
                         struct vt_error *err)
{
    FILE *out = fopen(path, "we");
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    int ret = 0;

    if (!out)
        ret = vt_error_errno(err, VT_KIND_INFRA, errno, "create %s", path);
    else if (!md || !EVP_DigestInit_ex(md, EVP_sha256(), NULL))
        ret = vt_error_no_memory(err, "hash %s", path);
    else if (write_lines(out, md, seed, bytes) < 0 || !EVP_DigestFinal_ex(md, hash, NULL))
        ret = vt_error_errno(err, VT_KIND_INFRA, EIO, "write %s", path);
    if (out && fclose(out) != 0 && ret == 0)
        ret = vt_error_errno(err, VT_KIND_INFRA, errno, "write %s", path);
    EVP_MD_CTX_free(md);
    return ret;
}

/* --- a program --- */

/* A function: rounds of statements over x and a small table. Only unsigned arithmetic, so the
 * language leaves nothing open. */
struct function {
    uint32_t table[TABLE_SIZE], rounds;
    struct {
        uint32_t factor, mask, shift;
    } piece[PIECES];
};

static void draw_function(struct vt_rng *rng, struct function *f)
{
    for (unsigned i = 0; i < TABLE_SIZE; i++)
        f->table[i] = (uint32_t)vt_rng_next(rng);
    f->rounds = ROUNDS_MIN + (uint32_t)vt_rng_below(rng, ROUNDS_SPAN);
    for (unsigned i = 0; i < PIECES; i++) {
        f->piece[i].factor = (uint32_t)vt_rng_next(rng) | 1;
        f->piece[i].mask = UINT32_C(1) << vt_rng_below(rng, 32);
        f->piece[i].shift = 1 + (uint32_t)vt_rng_below(rng, 30);
    }
}

/* What the text below says. */
static uint32_t evaluate(const struct function *f, uint32_t x)
{
    uint32_t t[TABLE_SIZE];

    memcpy(t, f->table, sizeof(t));
    for (uint32_t i = 0; i < f->rounds; i++) {
        for (unsigned p = 0; p < PIECES; p++) {
            x = (x ^ x >> f->piece[p].shift) * f->piece[p].factor + t[(i + p) % TABLE_SIZE];
            if (x & f->piece[p].mask)
                x += t[x % TABLE_SIZE];
            else
                t[x % TABLE_SIZE] ^= x;
        }
    }
    return x;
}

static void write_function(FILE *out, uint32_t number, const struct function *f)
{
    fprintf(out,
            "static __attribute__((noinline)) unsigned f%u(unsigned x)\n{\n    unsigned t[] = {",
            number);
    for (unsigned i = 0; i < TABLE_SIZE; i++)
        fprintf(out, "%s%uu", i ? ", " : "", f->table[i]);
    fprintf(out, "};\n    for (unsigned i = 0; i < %uu; i++) {\n", f->rounds);
    for (unsigned p = 0; p < PIECES; p++)
        fprintf(out,
                "        x = (x ^ x >> %u) * %uu + t[(i + %u) %% %u];\n"
                "        if (x & %uu)\n            x += t[x %% %u];\n"
                "        else\n            t[x %% %u] ^= x;\n",
                f->piece[p].shift, f->piece[p].factor, p, TABLE_SIZE, f->piece[p].mask, TABLE_SIZE,
                TABLE_SIZE);
    fprintf(out, "    }\n    return x;\n}\n");
}

int contents_write_program(const char *path, uint64_t seed, uint32_t functions,
                           uint32_t *ret_answer, struct vt_error *err)
{
    FILE *out = fopen(path, "we");
    uint32_t x = (uint32_t)seed;
    struct vt_rng rng;
    bool failed;

    if (!out)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "create %s", path);
    vt_rng_seed(&rng, seed, "batch/program", 0);
    fprintf(out, "#include <stdio.h>\n");
    for (uint32_t i = 0; i < functions; i++) {
        struct function f;

        draw_function(&rng, &f);
        write_function(out, i, &f);
        x = evaluate(&f, x);
    }
    fprintf(out, "int main(void)\n{\n    unsigned x = %uu;\n", (uint32_t)seed);
    for (uint32_t i = 0; i < functions; i++)
        fprintf(out, "    x = f%u(x);\n", i);
    fprintf(out, "    printf(\"%%u\\n\", x);\n    return 0;\n}\n");
    failed = ferror(out) != 0;
    if (fclose(out) != 0 || failed)
        return vt_error_errno(err, VT_KIND_INFRA, errno ? errno : EIO, "write %s", path);
    *ret_answer = x;
    return 0;
}
