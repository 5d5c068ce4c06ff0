-- SPDX-License-Identifier: Apache-2.0
-- Once all tiles are loaded. Each command by itself: dropping a database is no transaction.
UPDATE pg_database SET datistemplate = false;

DROP DATABASE template0;

DROP DATABASE template1;

ANALYZE;

CHECKPOINT;
