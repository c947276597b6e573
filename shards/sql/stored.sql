-- How many messages of these namespaces are stored (they wait, are leased or dead), and how many of them are leased: from
-- the tally, never row by row. Answers namespace, stored, leased.
SELECT t.namespace, coalesce(sum(c.waiting + c.leased + c.dead), 0)::bigint, coalesce(sum(c.leased), 0)::bigint
FROM topic t JOIN (TABLE tally UNION ALL TABLE tally_delta) c ON c.topic = t.id
WHERE t.namespace = ANY(%(namespaces)s)
GROUP BY t.namespace
