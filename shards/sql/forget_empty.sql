-- Drop sums that have come to nothing.
DELETE FROM tally WHERE waiting = 0 AND leased = 0 AND dead = 0
