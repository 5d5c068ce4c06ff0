/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/roles/mail/walk.h"

#include "tiles/load/driver.h"
#include "tiles/roles/mail/mail.h"

/* A store that marks \Deleted is followed by expunge, one that marks \Seen is not. */
enum walk { LOGIN, SELECT, FETCH, SEARCH, APPEND, SEEN, DELETED, EXPUNGE, LOGOUT, WALKS };

static const uint16_t walk_operations[WALKS] = {
    MAIL_LOGIN, MAIL_SELECT, MAIL_FETCH,   MAIL_SEARCH, MAIL_APPEND,
    MAIL_STORE, MAIL_STORE,  MAIL_EXPUNGE, MAIL_LOGOUT,
};

/* [ours] In per cent. Chosen so that about as many messages are appended as expunged (17 to 18),
 * with messages of the same mean size: a mailbox stays as large as it was. */
static const uint32_t matrix[WALKS][WALKS] = {
    [LOGIN] = {[SELECT] = 100},
    [SELECT] = {[FETCH] = 60, [SEARCH] = 30, [APPEND] = 10},
    [FETCH] =
        {[FETCH] = 40, [SEARCH] = 5, [APPEND] = 5, [SEEN] = 10, [DELETED] = 15, [LOGOUT] = 25},
    [SEARCH] = {[FETCH] = 70, [APPEND] = 10, [LOGOUT] = 20},
    [APPEND] = {[FETCH] = 50, [SEARCH] = 10, [LOGOUT] = 40},
    [SEEN] = {[FETCH] = 50, [LOGOUT] = 50},
    [DELETED] = {[EXPUNGE] = 100},
    [EXPUNGE] = {[FETCH] = 60, [APPEND] = 20, [LOGOUT] = 20},
};

/* Visits to each among 361, as web_mix: 51 sessions of 7.08 steps. */
static const uint32_t mix[WALKS] = {51, 51, 120, 23, 17, 12, 18, 18, 51};

bool walk_plan(void *state, struct vt_rng *rng, const struct spec_load *load, bool first,
               bool fresh, uint16_t *operation, uint32_t *argument, int64_t *gap_ns)
{
    struct walk_session *session = state;

    if (!first && session->walk == LOGOUT)
        return false;
    if (first)
        session->user = (uint32_t)vt_rng_below(rng, MAIL_USERS);
    if (!first)
        session->walk = vt_rng_pick(rng, matrix[session->walk], WALKS);
    else
        session->walk = fresh ? LOGIN : vt_rng_pick(rng, mix, WALKS);
    *operation = walk_operations[session->walk];
    *argument = session->user << WALK_USER_SHIFT | (uint32_t)vt_rng_below(rng, WALK_NUMBERS) |
                (session->walk == DELETED ? WALK_DELETED : 0);
    *gap_ns = driver_draw_gap_ns(rng, load);
    return true;
}
