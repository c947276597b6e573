-- Drop the usage of days that nobody asks for any more.
DELETE FROM usage WHERE day < current_date - %(days)s::integer
