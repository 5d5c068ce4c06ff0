-- SPDX-License-Identifier: Apache-2.0
-- Before the tiles are loaded. initdb leaves two templates of 7 MiB each that nothing here copies
-- from: in a guest without a disk they would stay in memory. Each command by itself: dropping a
-- database is no transaction.
UPDATE pg_database SET datistemplate = false;

DROP DATABASE template0;

DROP DATABASE template1;
