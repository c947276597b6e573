-- On the control database: when a roll-up of a kind was last landed; no row where it never was.
SELECT at FROM usage_rolled_up WHERE kind = %(kind)s ORDER BY id DESC LIMIT 1
