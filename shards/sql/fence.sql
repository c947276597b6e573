-- Make sure that a keyed message which is not there never comes.
INSERT INTO keyed (id, fenced) VALUES (%(id)s, true) ON CONFLICT DO NOTHING
