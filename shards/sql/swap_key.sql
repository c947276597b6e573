-- Give a key to another message, unless somebody else has it or its message is there.
UPDATE idempotency SET id = %(id)s, topic = %(topic)s, at = now()
WHERE namespace = %(namespace)s AND key = %(key)s AND id = %(fenced)s AND NOT confirmed
