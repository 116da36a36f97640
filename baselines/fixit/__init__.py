"""Fixit: training data from a model's own failures, in small steps that each leave a record.

``mine`` takes failed turns out of runs, ``repair`` has a teacher mend them, ``reason`` has the way from failure to fix
written down, ``build`` makes a data set, ``synthesize`` makes verified pairs without any teacher, ``iterate`` does all
of it for the runs of a newer checkpoint. Nothing enters a data set that the environment has not passed.
"""
