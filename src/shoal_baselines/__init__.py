"""Published methods to compare with: sound ones that can be released and audited, unsound ones that cannot.

`shoal` reaches them in one place and works without them.
"""
