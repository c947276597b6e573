-- The messages of a claim. The days prune the partitions.
SELECT id, is_json, payload, headers::text, traceparent, max_retries, enqueued_at, deliver_after
FROM message WHERE day = ANY(%(days)s::date[]) AND id = ANY(%(ids)s::bigint[])
