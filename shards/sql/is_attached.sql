-- Whether a partition, by name, is part of its log; %(name)s is our own, as a literal: COPY takes none else.
SELECT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = to_regclass('%(name)s') AND NOT inhdetachpending)
