/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/scope.h"
#include "base/yaml.h"
#include "tiles/load/shape.h"

#define MILLION INT64_C(1000000)
#define HOUR_NS (3600 * VT_NS_PER_S)
/* Keeps the integrated rate of the longest ramp within 128 bits. */
#define RATE_MAX (100 * MILLION)
#define WORD_MAX 64

#define DURATION(member, least)                                              \
    {                                                                        \
        .type = VT_FIELD_DURATION, .offset = offsetof(struct shape, member), \
        .size = sizeof(int64_t), .min = (least), .max = HOUR_NS              \
    }
#define NUMBER(member, least, most)                                                                \
    {                                                                                              \
        .type = VT_FIELD_FIXED, .offset = offsetof(struct shape, member), .size = sizeof(int64_t), \
        .min = (least), .max = (most)                                                              \
    }

static const struct vt_field bursty_words[] = {DURATION(on_ns, VT_NS_PER_US),
                                               DURATION(off_ns, VT_NS_PER_US)};
static const struct vt_field ramp_words[] = {NUMBER(rates[0], 0, RATE_MAX),
                                             NUMBER(rates[1], 0, RATE_MAX)};
static const struct vt_field swing_words[] = {NUMBER(factor, MILLION, 16 * MILLION),
                                              DURATION(period_ns, VT_NS_PER_MS)};
static const struct vt_field step_word = NUMBER(rates[0], 0, RATE_MAX);

static const struct form {
    const char *name, *arguments;
    const struct vt_field *words; /* as many as wanted; NULL: none, or 1 to SHAPE_RATES_MAX rates */
    unsigned nwords;
} forms[] = {
    [SHAPE_POISSON] = {"poisson", "", NULL, 0},
    [SHAPE_UNIFORM] = {"uniform", "", NULL, 0},
    [SHAPE_BURSTY] = {"bursty", ":ON,OFF", bursty_words, VT_COUNT(bursty_words)},
    [SHAPE_STEP] = {"step", ":RATE,...", NULL, SHAPE_RATES_MAX},
    [SHAPE_RAMP] = {"ramp", ":FROM,TO", ramp_words, VT_COUNT(ramp_words)},
    [SHAPE_SWING] = {"swing", ":FACTOR,PERIOD", swing_words, VT_COUNT(swing_words)},
};

/* The text, and where in it the reader stands. */
struct reading {
    const char *text;
    size_t at;
    struct vt_error *err;
};

static const char *form_name(const void *ctx, size_t i)
{
    return ((const struct form *)ctx)[i].name;
}

static int refuse_name(const struct reading *r, size_t len)
{
    char name[WORD_MAX] = "", shown[VT_YAML_SHOW_MAX];
    int nearest;

    memcpy(name, r->text, len < sizeof name ? len : sizeof name - 1);
    nearest = vt_yaml_nearest(name, form_name, forms, VT_COUNT(forms));
    vt_yaml_show(name, shown);
    if (nearest >= 0)
        return vt_error_set(r->err, VT_KIND_CONFIG, -EINVAL,
                            "unknown schedule %s: did you mean \"%s\"?", shown,
                            forms[nearest].name);
    return vt_error_set(r->err, VT_KIND_CONFIG, -EINVAL,
                        "unknown schedule %s: expected one of poisson, uniform, bursty, step, "
                        "ramp, swing",
                        shown);
}

static int refuse_number(const struct reading *r, const struct form *form)
{
    return vt_error_set(r->err, VT_KIND_CONFIG, -EINVAL, "expected %s%s%s", form->name,
                        form->arguments,
                        form->words || form->nwords == 0 ? "" : ", at most 16 of them");
}

/* The word at r->at up to a comma or the end, as the field wants it. */
static int take_word(const struct reading *r, size_t len, const struct vt_field *field,
                     struct shape *shape, size_t index)
{
    char word[WORD_MAX] = "";
    struct vt_field at = *field;

    at.offset += index * sizeof(int64_t);
    /* A word that is cut is none that the field knows. */
    memcpy(word, r->text + r->at, len < sizeof word ? len : sizeof word - 1);
    return vt_field_parse(&at, word, true, shape, r->err);
}

static int take_words(struct reading *r, const struct form *form, struct shape *shape)
{
    unsigned n = 0;
    size_t len;

    while (r->text[r->at]) {
        int code;

        r->at++; /* ':' or ',' */
        if (n == form->nwords)
            return refuse_number(r, form);
        len = strcspn(r->text + r->at, ",");
        code = form->words ? take_word(r, len, &form->words[n], shape, 0)
                           : take_word(r, len, &step_word, shape, n);
        if (code < 0)
            return code;
        n++;
        r->at += len;
    }
    if (form->words ? n != form->nwords : (form->nwords > 0 && n == 0))
        return refuse_number(r, form);
    shape->nrates = shape->kind == SHAPE_STEP || shape->kind == SHAPE_RAMP ? n : 0;
    return 0;
}

static int check_rates(struct reading *r, const struct shape *shape, size_t from)
{
    bool any = shape->nrates == 0;

    for (unsigned i = 0; i < shape->nrates; i++)
        any |= shape->rates[i] > 0;
    if (any)
        return 0;
    r->at = from;
    return vt_error_set(r->err, VT_KIND_CONFIG, -EINVAL, "expected a rate above 0 among these");
}

int shape_parse(const char *text, struct shape *ret, size_t *ret_at, struct vt_error *err)
{
    struct reading r = {.text = text[0] ? text : "poisson", .err = err};
    size_t len = strcspn(r.text, ":"), i = 0;
    struct shape shape = {0};
    int code;

    while (i < VT_COUNT(forms) &&
           (strlen(forms[i].name) != len || memcmp(forms[i].name, r.text, len) != 0))
        i++;
    if (i == VT_COUNT(forms)) {
        code = refuse_name(&r, len);
    } else {
        shape.kind = (enum shape_kind)i;
        r.at = len;
        code = take_words(&r, &forms[i], &shape);
        if (code == 0)
            code = check_rates(&r, &shape, len + 1);
    }
    if (code == 0)
        *ret = shape;
    else if (ret_at)
        *ret_at = r.at;
    return code;
}
