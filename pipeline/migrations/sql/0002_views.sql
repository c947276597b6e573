-- What people read on the control database. The role mqueue_reader can read these views and nothing else.
CREATE SCHEMA IF NOT EXISTS mq;  -- a shard may lie in the same database

CREATE VIEW mq.usage_hour AS
SELECT hour, namespace, name AS topic, messages, bytes, deliveries, retries, acked, dead,
       wait_ms[1] AS wait_p50_ms, wait_ms[2] AS wait_p95_ms, wait_ms[3] AS wait_p99_ms,
       work_ms[1] AS work_p50_ms, work_ms[2] AS work_p95_ms, work_ms[3] AS work_p99_ms,
       total_ms[1] AS total_p50_ms, total_ms[2] AS total_p95_ms, total_ms[3] AS total_p99_ms
FROM usage_hour;
COMMENT ON VIEW mq.usage_hour IS 'What each topic did in each hour, and its times: rolled up by the pipeline.';

CREATE VIEW mq.failures AS
SELECT day, namespace, name AS topic, reason, fingerprint AS error, deaths, first_at, last_at, sample, sample_id
FROM usage_failure;
COMMENT ON VIEW mq.failures IS 'What messages died of, by day: rolled up by the pipeline.';
