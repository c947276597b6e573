-- On the control database: the files of the lake that may hold rows of a message: log, path.
SELECT p.parent, f.path
FROM lake_part q JOIN lake_file f ON f.id = q.file_id JOIN lake_partition p ON p.id = f.partition_id
WHERE q.topic = %(topic)s AND q.min_id <= %(id)s AND q.max_id >= %(id)s AND f.retired_at IS NULL
