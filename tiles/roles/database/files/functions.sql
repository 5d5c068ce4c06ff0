-- SPDX-License-Identifier: Apache-2.0
-- The transactions of the application, each one function call: whole or not at all. They are all
-- that its user may do. Rows are locked in one order everywhere (items ascending, then customer or
-- supplier), so that no two wait for each other in a circle.
SET search_path = tile@TILE@;

-- A page of ten items, from draw on, in a circle.
CREATE FUNCTION browse(draw bigint)
RETURNS TABLE (item integer, price bigint, stock bigint, name text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = tile@TILE@, pg_temp
AS $$
    SELECT items.item, items.price, items.stock, items.name
    FROM generate_series(0, 9) AS at
    JOIN items ON items.item = (draw + at) % @ITEMS@ + 1
    ORDER BY at
$$;

-- refused: an item of which less is there than was asked for; NULL when the order stands.
CREATE FUNCTION purchase(step bigint, draw bigint, wanted integer[], quantities integer[])
RETURNS TABLE (customer integer, customers integer, number bigint, total bigint,
               refused integer, stock bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = tile@TILE@, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    buyer integer := draw % @CUSTOMERS@ + 1;
    placed bigint;
    price_of_all bigint;
    short integer;
    left_of_it bigint;
BEGIN
    PERFORM 1 FROM items WHERE item = ANY (wanted) ORDER BY item FOR NO KEY UPDATE;
    SELECT i.item, i.stock INTO short, left_of_it
    FROM unnest(wanted, quantities) AS w (item, quantity) JOIN items i USING (item)
    WHERE i.stock < w.quantity ORDER BY i.item LIMIT 1;
    IF FOUND THEN
        RETURN QUERY SELECT buyer, @CUSTOMERS@, NULL::bigint, NULL::bigint, short, left_of_it;
        RETURN;
    END IF;
    UPDATE items SET stock = stock - w.quantity
    FROM unnest(wanted, quantities) AS w (item, quantity) WHERE items.item = w.item;
    INSERT INTO orders (sequence, customer, total)
    SELECT step, buyer, sum(i.price * w.quantity)
    FROM unnest(wanted, quantities) AS w (item, quantity) JOIN items i USING (item)
    RETURNING orders.number, orders.total INTO placed, price_of_all;
    INSERT INTO lines (number, item, quantity, price)
    SELECT placed, w.item, w.quantity, i.price
    FROM unnest(wanted, quantities) AS w (item, quantity) JOIN items i USING (item);
    UPDATE customers SET balance = balance + price_of_all WHERE customer = buyer;
    RETURN QUERY SELECT buyer, @CUSTOMERS@, placed, price_of_all, NULL::integer, NULL::bigint;
END
$$;

-- Looks at a customer's ten newest orders and ships the oldest one that waits. A row an order, none
-- when there never was one; just_shipped is the same in all, NULL when none waited.
CREATE FUNCTION manage(step bigint, draw bigint)
RETURNS TABLE (customer integer, customers integer, balance bigint, just_shipped bigint,
               number bigint, shipped boolean, total bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = tile@TILE@, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    buyer integer := draw % @CUSTOMERS@ + 1;
    oldest bigint;
BEGIN
    SELECT o.number INTO oldest FROM orders o WHERE o.customer = buyer AND NOT o.shipped
    ORDER BY o.number LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
    IF FOUND THEN
        UPDATE orders SET shipped = true WHERE number = oldest;
        INSERT INTO shipments (number, sequence) VALUES (oldest, step);
    END IF;
    RETURN QUERY
    SELECT c.customer, @CUSTOMERS@, c.balance, oldest, o.number, o.shipped, o.total
    FROM customers c LEFT JOIN LATERAL (
        SELECT * FROM orders WHERE orders.customer = buyer ORDER BY number DESC LIMIT 10
    ) o ON true
    WHERE c.customer = buyer ORDER BY o.number DESC;
END
$$;

-- Makes some of an item from three parts each that its supplier delivers.
CREATE FUNCTION work_order(step bigint, made integer, amount integer)
RETURNS TABLE (number bigint, stock bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = tile@TILE@, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    placed bigint;
    now_there bigint;
    source integer;
BEGIN
    UPDATE items SET stock = stock + amount WHERE item = made
    RETURNING items.stock, items.supplier INTO STRICT now_there, source;
    INSERT INTO work_orders (sequence, item, quantity, parts)
    VALUES (step, made, amount, 3 * amount) RETURNING work_orders.number INTO placed;
    UPDATE suppliers SET delivered = delivered + 3 * amount WHERE supplier = source;
    RETURN QUERY SELECT placed, now_there;
END
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA tile@TILE@ FROM PUBLIC;
GRANT USAGE ON SCHEMA tile@TILE@ TO app@TILE@;
GRANT EXECUTE ON FUNCTION browse, purchase, manage, work_order TO app@TILE@;
ALTER ROLE app@TILE@ SET search_path = tile@TILE@;

-- Its statistics too: nothing else makes them before the load comes. Those of the catalogs are there.
ANALYZE suppliers, items, customers, orders, lines, shipments, work_orders;
