-- SPDX-License-Identifier: Apache-2.0
-- After the window: what there is, and whether it adds up. A line each: name|number.
SET search_path = tile@TILE@;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT 'past_orders', count(*) FROM orders WHERE sequence IS NULL
UNION ALL SELECT 'orders', count(*) FROM orders WHERE sequence IS NOT NULL
UNION ALL SELECT 'lines', count(*) FROM lines
UNION ALL SELECT 'shipments', count(*) FROM shipments
UNION ALL SELECT 'work_orders', count(*) FROM work_orders
UNION ALL SELECT 'wrong.stock_mismatch', count(*)
    FROM items
    LEFT JOIN (SELECT item, sum(quantity) AS n FROM work_orders GROUP BY item) made USING (item)
    LEFT JOIN (SELECT item, sum(quantity) AS n FROM lines GROUP BY item) sold USING (item)
    WHERE stock <> initial + coalesce(made.n, 0) - coalesce(sold.n, 0)
UNION ALL SELECT 'wrong.order_total', count(*)
    FROM orders
    LEFT JOIN (SELECT number, sum(quantity * price) AS n FROM lines GROUP BY number) l
    USING (number) WHERE total <> coalesce(l.n, 0)
UNION ALL SELECT 'wrong.customer_balance', count(*)
    FROM customers
    LEFT JOIN (SELECT customer, sum(total) AS n FROM orders GROUP BY customer) o
    USING (customer) WHERE balance <> coalesce(o.n, 0)
UNION ALL SELECT 'wrong.supplier_delivered', count(*)
    FROM suppliers
    LEFT JOIN (SELECT supplier, sum(parts) AS n FROM work_orders JOIN items USING (item)
               GROUP BY supplier) p
    USING (supplier) WHERE delivered <> coalesce(p.n, 0)
UNION ALL SELECT 'wrong.shipment', count(*)
    FROM orders FULL JOIN shipments s USING (number)
    WHERE coalesce(shipped, false) <> (s.number IS NOT NULL)
      AND orders.sequence IS NOT NULL
UNION ALL SELECT 'wrong.sequence_twice', count(*) - count(DISTINCT sequence)
    FROM (SELECT sequence FROM orders WHERE sequence IS NOT NULL
          UNION ALL SELECT sequence FROM shipments
          UNION ALL SELECT sequence FROM work_orders) s;
\o @KEPT@
SELECT sequence FROM orders WHERE sequence IS NOT NULL
UNION ALL SELECT sequence FROM shipments
UNION ALL SELECT sequence FROM work_orders;
\o
COMMIT;
