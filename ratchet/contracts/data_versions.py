"""The versions of what a day is made into: its rows in the snapshot, its profile, its arrays.

A day is made again when its version rises, and not when a module or a library changes. So a version has to rise with
every change after which the same day would come out otherwise; a test of each one notices when it did not.

A change here violates the promise of the project when a day that was made by older code is used as if it was made by
this one, although it would come out otherwise.
"""

ROWS = 1
"""Of a day's rows in the snapshot: which rows a source gives, their types and their order. See tasks.ingest.day."""
PROFILE = 3
"""Of the profile of a day's rows. See tasks.validate.measuring."""
SUMS, FITTED = 2, 2
"""Of what is kept of several days: the sum of their profiles, what rules need of each, and the
counts and quantiles that models are fitted on. See tasks.validate.days and tasks.features.sums."""
ARRAYS = 1
"""Of the arrays and statistics of a day. See tasks.features.day."""
