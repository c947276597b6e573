-- Set a record aside that cannot be committed: its writer, its number there, the error and the record itself.
INSERT INTO buffer_refused (writer, number, error, record)
VALUES (%(writer)s, %(number)s, %(error)s, %(record)s) ON CONFLICT DO NOTHING
