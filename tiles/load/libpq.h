/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libpq: the client library of PostgreSQL, loaded when the first connection is opened and never
 * before: the agent is one program for guests and clients, and libpq brings twenty libraries
 * (Kerberos, LDAP, ...) that no guest should carry.
 */
#ifndef VTILE_TILES_LOAD_LIBPQ_H
#define VTILE_TILES_LOAD_LIBPQ_H

#include <libpq-fe.h>

#include "base/error.h"

#define LIBPQ_FUNCTIONS(X)  \
    X(PQclear)              \
    X(PQconnectPoll)        \
    X(PQconnectStartParams) \
    X(PQconsumeInput)       \
    X(PQenterPipelineMode)  \
    X(PQerrorMessage)       \
    X(PQfinish)             \
    X(PQflush)              \
    X(PQgetisnull)          \
    X(PQgetResult)          \
    X(PQgetvalue)           \
    X(PQisBusy)             \
    X(PQnfields)            \
    X(PQntuples)            \
    X(PQpipelineSync)       \
    X(PQresultErrorField)   \
    X(PQresultStatus)       \
    X(PQsendPrepare)        \
    X(PQsendQueryPrepared)  \
    X(PQsetnonblocking)     \
    X(PQsetNoticeReceiver)  \
    X(PQsocket)             \
    X(PQstatus)

struct libpq {
#define LIBPQ_MEMBER(name) __typeof__(name) *name; /* NOLINT: a declaration */
    LIBPQ_FUNCTIONS(LIBPQ_MEMBER)
#undef LIBPQ_MEMBER
};
/* From any thread. The library stays loaded. */
int libpq_load(const struct libpq **ret, struct vt_error *err);

#endif
