-- What the messages of a day in a range of ids are, so that a copy can be compared: for each topic its number, rows, lowest
-- and highest id, payload bytes, the xor and the sum of the rows' hashes, and which columns have no value in any row.
--
-- A hash covers every column; a long payload goes in by its MD5. pipeline/digests.py makes the same of a file.
SELECT topic, count(*), min(id), max(id), sum(payload_bytes), bit_xor(hash),
       sum(hashint8extended(hash, id) & 4294967295)::bigint,
       array_remove(ARRAY[
           CASE count(deliver_after) WHEN 0 THEN 'deliver_after' END, CASE count(ttl_ms) WHEN 0 THEN 'ttl_ms' END,
           CASE count(max_retries) WHEN 0 THEN 'max_retries' END, CASE count(headers) WHEN 0 THEN 'headers' END,
           CASE count(retry) WHEN 0 THEN 'retry' END, CASE count(traceparent) WHEN 0 THEN 'traceparent' END,
           CASE count(producer) WHEN 0 THEN 'producer' END,
           CASE count(idempotency_key) WHEN 0 THEN 'idempotency_key' END,
           CASE count(ordering_key) WHEN 0 THEN 'ordering_key' END,
           CASE count(concurrency_key) WHEN 0 THEN 'concurrency_key' END
       ], NULL)
FROM (
    SELECT id, topic, payload_bytes, deliver_after, ttl_ms, max_retries, headers, retry, traceparent, producer,
           idempotency_key, ordering_key, concurrency_key, hash_record_extended(ROW(
        id, txid, enqueued_at, deliver_after, ttl_ms, topic, day - date '2000-01-01', payload_bytes, max_retries,
        priority, is_json::integer, headers::text, retry::text, traceparent, producer, idempotency_key, ordering_key,
        concurrency_key, CASE WHEN octet_length(payload) > 4096 THEN decode(md5(payload), 'hex') ELSE payload END
    ), 0) AS hash
    FROM message WHERE day = %(day)s AND id BETWEEN %(low)s AND %(high)s
    OFFSET 0
) hashed
GROUP BY 1 ORDER BY 1
