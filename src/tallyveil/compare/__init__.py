"""Compare methods of disclosure control on one input: what users lose and what attackers gain. NOTHING HERE IS PRIVATE.

`inputs` reads the records through the one door for declassified counts. `methods` publish tables from them, each as an
office would. `losses` says how far published tables are from the true ones. `attacks` say what somebody learns from
them. `job` does all of it, and `page` draws the result.

The random numbers of methods that are not differentially private come from numpy's Philox generator, whose key is a
digest of the text `key` of the comparison. They decide nothing that protects anybody: the truth stands beside them.
"""
