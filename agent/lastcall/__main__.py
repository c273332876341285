"""``python -m lastcall``."""

import sys

from lastcall.cli.main import main

sys.exit(main())
