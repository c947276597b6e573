-- The day that it is on this server, and the last one that has been over for an hour.
SELECT (now() AT TIME ZONE 'UTC')::date, ((now() AT TIME ZONE 'UTC') - interval '1 hour')::date - 1
