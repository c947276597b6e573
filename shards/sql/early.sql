-- Which of these refs are of rows that are not due yet by our clock: arrays of id and epoch.
SELECT d.id FROM unnest(%(id)s::bigint[], %(epoch)s::integer[]) AS given (id, epoch)
JOIN delivery d ON d.id = given.id AND d.epoch = given.epoch AND d.state + 0 = 0 AND d.due > now()
