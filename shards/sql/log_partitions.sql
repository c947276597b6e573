-- The partitions of the log, the oldest first: parent, day, whether it is sealed, attached, and half detached.
SELECT parent, day, is_sealed, is_attached, is_detaching FROM log_partitions()
