"""An adversary who tracked a target for a time tau, against released trajectories.

evidence.verify_arrays    proves or refutes, over every user and every start, that k records fit
files.keyed_tables        its tables from samples, boxes and key with ids of any kind
leakage.measure           what is measured and never promised
Shares no code with the anonymiser.
"""
