-- SPDX-License-Identifier: Apache-2.0
-- One tile's part of the supply chain: a schema and a user of its own. @...@ is filled in by the
-- guest; formulas of names and prices are those of tiles/roles/app/goods.c, by which the driver
-- checks each answer. One transaction: what is written into tables made in it is not logged too.
--
-- What must hold at any moment (figures.sql looks):
--   items.stock         = initial + produced by work orders - sold by order lines
--   orders.total        = sum of its lines' price * quantity
--   customers.balance   = sum of their orders' totals
--   suppliers.delivered = sum of the parts that work orders on their items took
BEGIN;
CREATE ROLE app@TILE@ LOGIN;
CREATE SCHEMA tile@TILE@;
SET search_path = tile@TILE@;

CREATE TABLE suppliers (
    supplier integer PRIMARY KEY,
    name text NOT NULL,
    delivered bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
-- Room in each page for new versions of a row: updates then leave the index alone.
CREATE TABLE items (
    item integer PRIMARY KEY,
    supplier integer NOT NULL REFERENCES suppliers,
    name text NOT NULL,
    price bigint NOT NULL CHECK (price > 0),
    initial bigint NOT NULL,
    stock bigint NOT NULL CHECK (stock >= 0)
) WITH (fillfactor = 70);
CREATE TABLE customers (
    customer integer PRIMARY KEY,
    name text NOT NULL,
    balance bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 70);
-- sequence: of the step that ordered it; an answer that was lost leaves the order under it.
CREATE TABLE orders (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sequence bigint,
    customer integer NOT NULL REFERENCES customers,
    shipped boolean NOT NULL DEFAULT false,
    total bigint NOT NULL CHECK (total > 0)
) WITH (fillfactor = 90);
CREATE TABLE lines (
    number bigint NOT NULL REFERENCES orders,
    item integer NOT NULL REFERENCES items,
    quantity integer NOT NULL CHECK (quantity > 0),
    price bigint NOT NULL,
    PRIMARY KEY (number, item)
);
CREATE TABLE shipments (
    number bigint PRIMARY KEY REFERENCES orders,
    sequence bigint NOT NULL UNIQUE
);
CREATE TABLE work_orders (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sequence bigint NOT NULL UNIQUE,
    item integer NOT NULL REFERENCES items,
    quantity integer NOT NULL CHECK (quantity > 0),
    parts integer NOT NULL CHECK (parts > 0)
);

-- draw(n, what, below): the same for the same seed, PostgreSQL's own hash.
CREATE FUNCTION draw(n bigint, what integer, below bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE
RETURN abs(hashint8extended(n * 16 + what, @SEED@) % below);

INSERT INTO suppliers
SELECT s, 'supplier-' || lpad(s::text, 3, '0') FROM generate_series(1, @SUPPLIERS@) s;
INSERT INTO items
SELECT i, (i - 1) % @SUPPLIERS@ + 1,
       'part-' || lpad(i::text, 4, '0') || '-' ||
       lpad(to_hex((i * 2654435761 + @TILE@ * 40503 + 2246822519) & 4294967295), 8, '0') ||
       lpad(to_hex((i * 2654435761 + @TILE@ * 40503 + 4493645038) & 4294967295), 8, '0'),
       100 + (i * 7919 + @TILE@ * 104729) % 99900,
       0, 1000 + draw(i, 1, 1000)
FROM generate_series(1::bigint, @ITEMS@) i;
INSERT INTO customers
SELECT c, 'customer-' || lpad(c::text, 5, '0') || '-' || to_hex(draw(c, 2, 4294967296))
FROM generate_series(1, @CUSTOMERS@) c;

-- What was ordered before: one to five lines each, all shipped. The lines' items lie 97 apart, so
-- that no order has one twice.
CREATE TEMP TABLE past AS
SELECT o AS number, (draw(o, 3, @ITEMS@) + l * 97) % @ITEMS@ + 1 AS item,
       1 + draw(o * 5 + l, 4, 3) AS quantity
FROM generate_series(1::bigint, @ORDERS@) o, generate_series(0::bigint, 4) l
WHERE l <= draw(o, 5, 5);
INSERT INTO orders (customer, shipped, total)
SELECT 1 + draw(number, 6, @CUSTOMERS@), true, sum(quantity * price)
FROM past JOIN items USING (item) GROUP BY number ORDER BY number;
INSERT INTO lines
SELECT number, item, quantity, price FROM past JOIN items USING (item) ORDER BY number;
UPDATE customers SET balance = paid
FROM (SELECT customer, sum(total) AS paid FROM orders GROUP BY customer) o
WHERE o.customer = customers.customer;
UPDATE items SET initial = stock;
UPDATE items SET initial = initial + sold
FROM (SELECT item, sum(quantity) AS sold FROM past GROUP BY item) p
WHERE p.item = items.item;
DROP TABLE past;

CREATE UNIQUE INDEX orders_sequence ON orders (sequence) WHERE sequence IS NOT NULL;
CREATE INDEX orders_of_customer ON orders (customer, number);
CREATE INDEX orders_to_ship ON orders (customer, number) WHERE NOT shipped;
COMMIT;
