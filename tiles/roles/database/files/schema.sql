-- SPDX-License-Identifier: Apache-2.0
-- One tile's part of the supply chain: a schema and a user of its own. @...@ is filled in by the
-- guest; formulas of names and prices are those of tiles/roles/app/goods.c, by which the driver
-- checks each answer. One transaction: what is written into tables made in it is not logged too. Keys
-- and references come after the rows: each is then one sort or join, not a look-up a row.
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
    supplier integer NOT NULL,
    name text NOT NULL,
    delivered bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
-- Room in each page for new versions of a row: updates then leave the index alone.
CREATE TABLE items (
    item integer NOT NULL,
    supplier integer NOT NULL,
    name text NOT NULL,
    price bigint NOT NULL CHECK (price > 0),
    initial bigint NOT NULL,
    stock bigint NOT NULL CHECK (stock >= 0)
) WITH (fillfactor = 70);
CREATE TABLE customers (
    customer integer NOT NULL,
    name text NOT NULL,
    balance bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 70);
-- sequence: of the step that ordered it; an answer that was lost leaves the order under it.
CREATE TABLE orders (
    number bigint GENERATED ALWAYS AS IDENTITY,
    sequence bigint,
    customer integer NOT NULL,
    shipped boolean NOT NULL DEFAULT false,
    total bigint NOT NULL CHECK (total > 0)
) WITH (fillfactor = 90);
CREATE TABLE lines (
    number bigint NOT NULL,
    item integer NOT NULL,
    quantity integer NOT NULL CHECK (quantity > 0),
    price bigint NOT NULL
);
CREATE TABLE shipments (
    number bigint PRIMARY KEY,
    sequence bigint NOT NULL UNIQUE
);
CREATE TABLE work_orders (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sequence bigint NOT NULL UNIQUE,
    item integer NOT NULL,
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

-- What was ordered before: one to five lines each, all shipped. The lines' items lie 97 apart, so
-- that no order has one twice.
INSERT INTO lines
SELECT number, item, quantity, price FROM (
    SELECT o AS number, (draw(o, 3, @ITEMS@) + l * 97) % @ITEMS@ + 1 AS item,
           1 + draw(o * 5 + l, 4, 3) AS quantity
    FROM generate_series(1::bigint, @ORDERS@) o, generate_series(0::bigint, 4) l
    WHERE l <= draw(o, 5, 5)
) past JOIN items USING (item) ORDER BY number;
INSERT INTO orders (customer, shipped, total)
SELECT 1 + draw(number, 6, @CUSTOMERS@), true, sum(quantity * price)
FROM lines GROUP BY number ORDER BY number;
INSERT INTO customers
SELECT c, 'customer-' || lpad(c::text, 5, '0') || '-' || to_hex(draw(c, 2, 4294967296)),
       coalesce(paid, 0)
FROM generate_series(1, @CUSTOMERS@) c
LEFT JOIN (SELECT customer, sum(total) AS paid FROM orders GROUP BY customer) o
ON o.customer = c;
UPDATE items SET initial = items.stock + coalesce(sold, 0)
FROM items i LEFT JOIN (SELECT item, sum(quantity) AS sold FROM lines GROUP BY item) p USING (item)
WHERE i.item = items.item;

ALTER TABLE suppliers ADD PRIMARY KEY (supplier);
ALTER TABLE items ADD PRIMARY KEY (item), ADD FOREIGN KEY (supplier) REFERENCES suppliers;
ALTER TABLE customers ADD PRIMARY KEY (customer);
ALTER TABLE orders ADD PRIMARY KEY (number), ADD FOREIGN KEY (customer) REFERENCES customers;
ALTER TABLE lines ADD PRIMARY KEY (number, item), ADD FOREIGN KEY (number) REFERENCES orders,
    ADD FOREIGN KEY (item) REFERENCES items;
ALTER TABLE shipments ADD FOREIGN KEY (number) REFERENCES orders;
ALTER TABLE work_orders ADD FOREIGN KEY (item) REFERENCES items;
CREATE UNIQUE INDEX orders_sequence ON orders (sequence) WHERE sequence IS NOT NULL;
CREATE INDEX orders_of_customer ON orders (customer, number);
CREATE INDEX orders_to_ship ON orders (customer, number) WHERE NOT shipped;
COMMIT;
