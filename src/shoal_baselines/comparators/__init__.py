"""Methods of the literature that protect a user less than their epsilon reads like, or not at all.

They are here to be compared with. None has a `loss()`, so none can be budgeted, entered in a ledger or
released; each says in `true_guarantee()` what it really promises a user. One that claims an epsilon says in
`user_epsilon()` which one a user's whole record has under it (infinite where there is none).
"""
