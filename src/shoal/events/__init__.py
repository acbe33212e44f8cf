"""Raw events come in: schema, readers, row checks, trips; `simulate` makes a city.

source.open_source   files to a description: names, types, shape, columns; no row is read
readers.check_rows   one pass: how many rows are bad, why, and where
readers.scan         a stream of normalised Arrow batches
trips.read_trips     points in user-complete batches, with the number of their trip
"""
