"""One file per kind of release: the whole way on a page. Start here."""
