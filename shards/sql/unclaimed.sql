-- Which of these refs, that could not be claimed a moment ago, are of rows that still wait: arrays of id and epoch. They
-- were not due by our clock then, and may be by now. One past its ttl is left to the lease daemon.
SELECT d.id FROM unnest(%(id)s::bigint[], %(epoch)s::integer[]) AS given (id, epoch)
JOIN delivery d ON d.id = given.id AND d.epoch = given.epoch AND d.state + 0 = 0
    AND (d.expiry IS NULL OR d.expiry > now())
