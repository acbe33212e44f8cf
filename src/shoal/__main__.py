"""`python -m shoal`: the command."""

import sys

if not sys.flags.safe_path:
    sys.path.pop(0)  # the working directory, which may hold anything

from shoal.cli.main import main

main()
